package importer

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProgressIsShownNowAndThen(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		terminal bool
		every    time.Duration
		want     string
	}{
		{false, 5 * time.Second, "scanned 1000, taken 990, skipped 10, 200 keys/s\nscanned 5000, taken 4990, skipped 10, 500 keys/s\n"},
		{true, 200 * time.Millisecond, "\rscanned 1000, taken 990, skipped 10, 5000 keys/s\x1b[K\rscanned 5000, taken 4990, skipped 10, 12500 keys/s\x1b[K\r\x1b[K"},
	} {
		var out bytes.Buffer
		p := newProgress(&out, func() time.Time { return now })
		p.terminal = c.terminal
		p.Scanned, p.Taken = 1000, 990
		p.skip(noTTL, 10)
		p.step()
		assert.Empty(t, out.String(), "too early")
		now = now.Add(c.every)
		p.step()
		p.step()
		p.Scanned, p.Taken = 5000, 4990
		now = now.Add(c.every)
		p.step()
		p.end()
		assert.Equal(t, c.want, out.String())
	}
}

// broken is a standard output whose writes fail.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestTheSummarySaysWhatBecameOfTheKeys(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := newProgress(nil, func() time.Time { return now })
	now = now.Add(1234567 * time.Microsecond)
	p.Scanned, p.Taken, p.whole = 16, 10, true
	p.skip(otherType, 4)
	p.skip(full, 2)
	p.clock(now.Add(3*time.Second), now, now.Add(time.Second))
	p.clock(now.Add(time.Second), now, now.Add(2*time.Second))
	var out bytes.Buffer
	require.NoError(t, p.summary(&out, &plan{target: "dump.cell"}))
	assert.Equal(t, `16 keys scanned in 1.235s
10 taken into dump.cell
6 skipped
  4 are not strings
  2 were full again already
the clock of the source is 2s ahead of the one here, and all of its times are
`, out.String())

	p.ahead = 0
	p.clock(now.Add(-1500*time.Millisecond), now, now)
	out.Reset()
	require.NoError(t, p.summary(&out, &plan{target: "dump.cell"}))
	assert.Contains(t, out.String(), "the clock of the source is 1.5s behind the one here")
	require.Error(t, p.summary(broken{}, &plan{}))
	for why := otherType; why < reasons; why++ {
		assert.NotEmpty(t, reasonTexts[why])
	}
}
