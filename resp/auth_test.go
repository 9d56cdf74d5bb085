package resp_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Failed attempts to authenticate are logged in at most one line a second, and the lines count every attempt: the last ones
// are logged when the second ends, or when the server stops.
func TestFailedAttemptsAreAllCountedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSubject(t, nil)
		s.SetPassword("sesame")
		p := connect(t, s.inMemory(t).Dial)
		lines := func() (found []string) {
			synctest.Wait()
			for line := range strings.Lines(s.log.String()) {
				if strings.Contains(line, "authentication failed") {
					found = append(found, line)
				}
			}
			return found
		}
		fail := func(times int) {
			for range times {
				p.ask("AUTH guess", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
			}
		}
		fail(100)
		require.Len(t, lines(), 1)
		assert.Contains(t, lines()[0], " attempts=1 ")
		assert.Contains(t, lines()[0], " user=default")
		time.Sleep(time.Second)
		require.Len(t, lines(), 2)
		assert.Contains(t, lines()[1], " attempts=99 ")
		fail(3)
		require.Len(t, lines(), 2)
		require.NoError(t, s.Shutdown(t.Context()))
		require.Len(t, lines(), 3)
		assert.Contains(t, lines()[2], " attempts=3 ")
	})
}
