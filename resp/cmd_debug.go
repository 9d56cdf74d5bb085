package resp

import (
	"math"
	"strconv"
	"strings"
	"time"

	"cellserver/resp/clients"
	"cellserver/resp/frame"
)

// The values of Bounds.Debug.
const (
	DebugNobody  = "no"
	DebugLocal   = "local" // connections from this machine
	DebugAnybody = "yes"
)

// mayDebug reports whether enable-debug-command allows DEBUG on this connection.
func (s *session) mayDebug() bool {
	switch s.bounds.Debug {
	case DebugAnybody:
		return true
	case DebugLocal:
		return s.client.isLocal()
	}
	return false
}

// isLocal reports whether the peer is on this machine.
func (c *client) isLocal() bool {
	return c.unix || clients.IsLoopback(c.addr)
}

// debugCommand is DEBUG SLEEP seconds and DEBUG HELP. As in Redis DEBUG has no subcommands in the table and parses them
// itself, so that a client that may not use DEBUG does not learn which there are.
func debugCommand(s *session, words [][]byte) {
	switch {
	case frame.Is(words[1], "HELP") && len(words) == 2:
		s.out.Array(len(debugHelp))
		for _, line := range debugHelp {
			s.out.Status(line)
		}
	case frame.Is(words[1], "SLEEP") && len(words) == 3:
		s.debugSleep(words[2])
	default:
		s.out.Errorf(errSubArity, cString(words[1]), "DEBUG")
	}
}

var debugHelp = []string{
	"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"SLEEP <seconds>",
	"    Answer after so many seconds, decimals allowed. Only this connection waits.",
	"HELP",
	"    Print this help.",
}

// debugSleep is DEBUG SLEEP: it delays the reply. Unlike in Redis other connections do not wait.
func (s *session) debugSleep(word []byte) {
	seconds, err := strconv.ParseFloat(string(word), 64)
	if err != nil || math.IsNaN(seconds) || strings.ContainsAny(string(word), "_xX") {
		s.out.Error(errNotFloat)
		return
	}
	if seconds < 0 || seconds > maxPause.Seconds() {
		s.out.Errorf(errSleepRange, int64(maxPause.Seconds()))
		return
	}
	if d := time.Duration(seconds * float64(time.Second)); d > 0 {
		s.sleep(d)
		s.now = s.srv.now() // for the rest of the batch
	}
	s.out.OK()
}

// sleepStep is the longest time that a sleep goes on after the server has begun to stop.
const sleepStep = 100 * time.Millisecond

// sleep sleeps for d, or until the server stops.
func (s *session) sleep(d time.Duration) {
	for ; d > 0 && !s.srv.transport.Draining(); d -= sleepStep {
		time.Sleep(min(d, sleepStep))
	}
}
