package ratelog

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// journal is a Warning and what it has written.
type journal struct {
	*Warning
	out bytes.Buffer
}

func newJournal() *journal {
	j := new(journal)
	j.Warning = New(slog.New(slog.NewTextHandler(&j.out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), "it failed", "times")
	return j
}

// lines returns what has been written since it was called last.
func (j *journal) lines() []string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	text := strings.TrimSuffix(j.out.String(), "\n")
	j.out.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func TestWarningWritesOneLineAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		for i := range 100 {
			j.Add("client", i)
		}
		assert.Equal(t, []string{`level=WARN msg="it failed" times=1 client=0`}, j.lines(), "the first at once")
		time.Sleep(Interval - 1)
		assert.Empty(t, j.lines())
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{`level=WARN msg="it failed" times=99 client=99`}, j.lines(), "the others together")
		j.Add("client", "x")
		assert.Empty(t, j.lines(), "the interval begins at each line")
		time.Sleep(Interval)
		assert.Equal(t, []string{`level=WARN msg="it failed" times=1 client=x`}, j.lines())
		time.Sleep(Interval)
		assert.Empty(t, j.lines(), "there is nothing to say")
		j.Add("client", "y")
		assert.Len(t, j.lines(), 1, "after a quiet interval at once")
	})
}

func TestWarningLosesNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		j.Close()
		assert.Empty(t, j.lines())

		j = newJournal()
		for range 5 {
			j.Add()
		}
		j.Close()
		assert.Equal(t, []string{`level=WARN msg="it failed" times=1`, `level=WARN msg="it failed" times=4`}, j.lines())
		time.Sleep(10 * Interval)
		assert.Empty(t, j.lines(), "the timer has been stopped")
		j.Add("late", true)
		j.Add("late", true)
		assert.Len(t, j.lines(), 2)
		time.Sleep(10 * Interval)
		assert.Empty(t, j.lines())
	})
}

func TestWarningFromManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range 100 {
					j.Add()
				}
			})
		}
		all.Wait()
		time.Sleep(Interval)
		assert.Equal(t, []string{`level=WARN msg="it failed" times=1`, `level=WARN msg="it failed" times=999`}, j.lines())
	})
}
