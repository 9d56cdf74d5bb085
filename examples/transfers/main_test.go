package main

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"cellserver/internal/testing/testserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := testserver.Client(t, testserver.Start(t))
		move := func(amounts string) string {
			t.Helper()
			var out strings.Builder
			require.NoError(t, run(t.Context(), rdb, "alice", strings.Fields(amounts), &out))
			return out.String()
		}
		assert.Equal(t, "$800.00 moved; $1200.00 left\n", move("800"))
		time.Sleep(time.Hour)
		assert.Equal(t, `$700.25 moved; $499.75 left
$600.00 refused: $499.75 is possible now, this in 23h0m0s; $499.75 left
$400.00 given back: the bank failed; $499.75 left
$499.75 moved; $0.00 left
$1300.00 refused: $0.00 is possible now, this in 24h0m0s; $0.00 left
$2000.01 refused: more than $2000.00 in 24 hours is not possible; $0.00 left
`, move("700.25 600 400x 499.75 1300 2000.01"))
		time.Sleep(23 * time.Hour)
		assert.Equal(t, "$600.00 moved; $200.00 left\n", move("600"))
	})
}

func TestManyTransfersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := testserver.Start(t)
		var now, peak, moved, failed, refused atomic.Int64
		var wait sync.WaitGroup
		for n := range 60 {
			rdb := testserver.Client(t, dial)
			wait.Go(func() {
				err := Transfer(t.Context(), rdb, "alice", 150_00, func(context.Context) error {
					for at := now.Add(150_00); ; {
						if was := peak.Load(); at <= was || peak.CompareAndSwap(was, at) {
							break
						}
					}
					time.Sleep(time.Second)
					if n%2 == 0 {
						now.Add(-150_00)
						return errBank
					}
					return nil
				})
				switch {
				case err == nil:
					moved.Add(1)
				case errors.Is(err, errBank):
					failed.Add(1)
				default:
					assert.Equal(t, &Refused{Left: 50_00, Wait: 24 * time.Hour}, err)
					refused.Add(1)
				}
			})
		}
		wait.Wait()
		assert.EqualValues(t, 13, moved.Load()+failed.Load(), "13 times 150 dollars are 1950")
		assert.EqualValues(t, 60-13, refused.Load())
		assert.EqualValues(t, 1950_00, peak.Load(), "under way at once")
		n, err := ask(t.Context(), testserver.Client(t, dial), "alice", 0)
		require.NoError(t, err)
		assert.Equal(t, limit-150_00*moved.Load(), n[2], "what failed is given back, and nothing else")
	})
}

func TestGivingBack(t *testing.T) {
	for _, row := range []struct {
		name string
		move func(ctx context.Context, cancel func()) error
	}{
		{"what the caller gave up", func(ctx context.Context, cancel func()) error { cancel(); return ctx.Err() }},
		{"not what counts no more", func(context.Context, func()) error { time.Sleep(period); return errBank }},
		{"what only just counts", func(context.Context, func()) error { time.Sleep(period - 1); return errBank }},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rdb := testserver.Client(t, testserver.Start(t))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				err := Transfer(ctx, rdb, "alice", 500_00, func(ctx context.Context) error {
					defer func() {
						// Another transfer succeeds meanwhile, and must stay counted.
						succeed := func(context.Context) error { return nil }
						require.NoError(t, Transfer(t.Context(), rdb, "alice", 200_00, succeed))
					}()
					return row.move(ctx, cancel)
				})
				assert.Error(t, err)
				assert.NotErrorAs(t, err, new(*Refused))
				n, err := ask(t.Context(), rdb, "alice", 0)
				require.NoError(t, err)
				assert.EqualValues(t, limit-200_00, n[2])
			})
		})
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]int64{
		"800": 800_00, "0.01": 1, "19.9": 1990, "1234.56": 1234_56, "5.": 500, "92233720368547758.07": math.MaxInt64,
	} {
		got, err := parse(text)
		assert.NoError(t, err)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "a", "-1", "+1", "0.001", ".5", "1e3", "92233720368547758.08"} {
		_, err := parse(text)
		assert.Error(t, err, text)
	}
	for _, cents := range []int64{0, -1} {
		err := Transfer(t.Context(), nil, "alice", cents, nil)
		assert.EqualError(t, err, "a transfer needs an amount")
	}
	err := run(t.Context(), nil, "alice", []string{"much"}, &strings.Builder{})
	assert.EqualError(t, err, `"much" is not an amount in dollars`)
}
