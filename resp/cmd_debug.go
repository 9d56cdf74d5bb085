package resp

import (
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"cellserver/resp/frame"
)

// The values of Bounds.Debug: who may use DEBUG.
const (
	DebugNobody  = "no"
	DebugLocal   = "local" // who is connected from this machine
	DebugAnybody = "yes"
)

// mayDebug reports whether the connection may use DEBUG.
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
	if c.unix {
		return true
	}
	host, _, err := net.SplitHostPort(c.addr)
	return err == nil && net.ParseIP(host).IsLoopback()
}

// debug is DEBUG SLEEP seconds and DEBUG HELP. As in Redis it is one command, which judges its subcommands itself: who may
// not use it is not told which there are.
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

// debugSleep answers later. Only this connection waits: the others are not what is to be debugged.
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
		s.now = s.srv.now() // for what has arrived together with this
	}
	s.out.OK()
}

// sleepStep is how long a sleep goes on after the server has begun to stop.
const sleepStep = 100 * time.Millisecond

// sleep waits. It ends early when the server stops.
func (s *session) sleep(d time.Duration) {
	for ; d > 0 && !s.srv.transport.Draining(); d -= sleepStep {
		time.Sleep(min(d, sleepStep))
	}
}
