//go:build linux

package test

import (
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// For a minute, some clients break the protocol, some are silent, some never read, and some come and go, all at the same time.
// Well-behaved clients get every reply, and afterwards the memory and the files of the attackers are free again.
func TestHostileClientsLeaveNothingBehind(t *testing.T) {
	if !soak() {
		t.Skip("takes a minute: CELLSERVER_SOAK=1")
	}
	const attackers, long = 100, time.Minute
	s := start(t, "--timeout", "5", "--client-output-buffer-limit", "normal 1mb 0 0", "--loglevel", "warning")
	attacks := []string{
		"*9223372036854775807\r\n", "*1048576\r\n$4\r\nPING\r\n", "*1\r\n$-5\r\n", "*2\r\n$4\r\nECHO\r\n$1000000\r\n" + strings.Repeat("x", 500_000),
		strings.Repeat("x", 1<<20), strings.Repeat("\x00", 1<<20), "POST / HTTP/1.1\r\n", "MULTI\r\n" + strings.Repeat("PING\r\n", 10_000),
		strings.Repeat("*2\r\n$4\r\nECHO\r\n$1000\r\n"+strings.Repeat("x", 1000)+"\r\n", 20_000), "WATCH a b c d\r\nMULTI\r\nKEYS *\r\nEXEC\r\nQUIT\r\n",
		"CL.ZSLIDE z 1000000 60 1000000\r\nDEL z\r\n", "MONITOR\r\n", "KEYS " + strings.Repeat("*a", 20_000) + "\r\n", "CLIENT PAUSE 1 WRITE\r\n", "",
	}
	c := s.dial(t)
	require.NoError(t, roundTrip(c, make([]byte, 64)))
	c.Close()
	files, memory := s.files(), s.memory("VmRSS")
	var over atomic.Bool
	var all sync.WaitGroup
	for range attackers {
		all.Go(func() {
			for !over.Load() {
				c := s.dial(t)
				text := attacks[rand.IntN(len(attacks))]
				if rand.IntN(2) == 0 {
					text = text[:rand.IntN(len(text)+1)]
				}
				_, _ = io.WriteString(c, text)
				if rand.IntN(3) == 0 {
					c.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(50)) * time.Millisecond))
					_, _ = io.Copy(io.Discard, c)
				}
				c.Close()
			}
		})
	}
	var answers atomic.Int64
	for range 4 {
		all.Go(func() {
			c := s.dial(t)
			defer c.Close()
			c.SetDeadline(time.Now().Add(long + patience))
			for got := make([]byte, 64); !over.Load(); answers.Add(1) {
				if !assert.NoError(t, roundTrip(c, got), "somebody who behaves") {
					return
				}
			}
		})
	}
	end := time.NewTimer(long)
	<-end.C
	over.Store(true)
	all.Wait()
	t.Logf("%d answers to those who behave", answers.Load())
	require.Eventually(t, func() bool { return s.files() <= files }, patience, 10*time.Millisecond, "files that are still open")
	peak, after := s.memory("VmHWM"), s.memory("VmRSS")
	t.Logf("%d MB of memory before, %d MB at the peak, %d MB after", memory>>20, peak>>20, after>>20)
	s.raw(t).ask("MEMORY PURGE", "+OK\r\n")
	assert.Less(t, s.memory("VmRSS")-memory, int64(32<<20))
	assert.NotContains(t, s.log.String(), "panicked")
}
