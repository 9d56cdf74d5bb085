package main

import (
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

const number = "+15550100"

// The clock of synctest begins at midnight UTC, and so does the day of the limit.
func TestADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := testserver.Client(t, testserver.Start(t))
		send := func(n int, want string) {
			t.Helper()
			var out strings.Builder
			require.NoError(t, run(t.Context(), rdb, number, n, &out))
			assert.Equal(t, want, out.String())
		}
		send(4, `message 1: sent to +15550100, 2 left of 3 a minute, 9 left of 10 a day
message 2: sent to +15550100, 1 left of 3 a minute, 8 left of 10 a day
message 3: sent to +15550100, 0 left of 3 a minute, 7 left of 10 a day
message 4: not sent, 3 a minute are sent already: wait 1m0s; 0 left of 3 a minute, 7 left of 10 a day
`)
		for range 3 {
			time.Sleep(time.Minute)
			require.NoError(t, run(t.Context(), rdb, number, 3, &strings.Builder{}))
		}
		// Both refuse: the one that does so for longer is named.
		send(1, "message 1: not sent, 10 a day are sent already: wait 23h57m0s; 2 left of 3 a minute, 0 left of 10 a day\n")
		time.Sleep(23*time.Hour + 57*time.Minute)
		send(1, "message 1: sent to +15550100, 2 left of 3 a minute, 9 left of 10 a day\n")
	})
}

func TestRefusalsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := testserver.Client(t, testserver.Start(t))
		require.NoError(t, run(t.Context(), rdb, number, 100, &strings.Builder{}))
		left, err := Allow(t.Context(), rdb, number)
		assert.Equal(t, &Refused{Limit: "3 a minute", Wait: time.Minute}, err)
		assert.Equal(t, []int64{0, 7}, left)

		left, err = Allow(t.Context(), rdb, "another number")
		assert.NoError(t, err)
		assert.Equal(t, []int64{2, 9}, left)
	})
}

func TestManySendersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := testserver.Start(t)
		var admitted atomic.Int64
		var wait sync.WaitGroup
		for range 60 {
			rdb := testserver.Client(t, dial)
			wait.Go(func() {
				if _, err := Allow(t.Context(), rdb, number); err == nil {
					admitted.Add(1)
				} else {
					assert.IsType(t, (*Refused)(nil), err)
				}
			})
		}
		wait.Wait()
		assert.EqualValues(t, 3, admitted.Load())
	})
}

func TestErrors(t *testing.T) {
	rdb := testserver.Client(t, testserver.Start(t))
	require.NoError(t, rdb.Do(t.Context(), "CL.WINDOW", "sms:minute:"+number, 3, 60).Err())
	err := run(t.Context(), rdb, number, 1, &strings.Builder{})
	assert.ErrorContains(t, err, "WRONGTYPE")
}
