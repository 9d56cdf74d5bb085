// Package transport moves bytes between network connections and the conversations on them. It accepts, counts, encrypts,
// drains and closes connections, and knows neither commands nor sessions: what a connection says is up to a [Session],
// which the user of the package provides for each of them.
package transport

import (
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Session is the conversation on one connection. Only the goroutine that serves the connection calls it, so it needs no
// locks.
type Session interface {
	// Space returns room for what arrives next, which is never empty; Arrived says how much came.
	Space() []byte
	Arrived(n int)
	// Run answers what has arrived, and says what the connection is to do next. now is the time in nanoseconds of Unix
	// time. With nonBlocking it does nothing that may take long or has to wait, and returns Block when it meets that.
	Run(now int64, nonBlocking bool) Next
	// Output returns what is to be sent; Sent says that it was, or that the connection keeps a copy. Run is not called in
	// between.
	Output() Output
	Sent()
	// Held reports whether what Run has left with Hold still waits. An error ends the connection.
	Held() (bool, error)
	// IgnoresTimeout reports whether the connection may be silent for longer than Limits.Timeout.
	IgnoresTimeout() bool
	// Idle lets go of buffers while nothing arrives.
	Idle()
	// End is the last call. It comes before the client can learn that the conversation is over, and once.
	End()
}

// Next is what a session wants of its connection.
type Next uint8

// What Run returns.
const (
	Read  Next = iota // wait for more to arrive
	Again             // send the output, then call Run again: there is more to answer
	Block             // call Run in the connection's own goroutine: the next command may take long, or has to wait
	Hold              // read on, and call Run again when Held says so; Wake has the connection ask
	Close             // send the output, then close
)

// Output is what a session has to send.
type Output struct {
	Bytes       []byte
	Limit       *OutputLimit // on what may wait until the client reads
	Uncommitted bool         // Bytes promise what only Config.Commit makes durable
}

// OutputLimit bounds the replies that a connection has not read yet. It is dropped beyond Hard, or when it has been
// beyond Soft for longer than SoftFor. 0 is unlimited.
type OutputLimit struct {
	Hard, Soft int64
	SoftFor    time.Duration
}

// Limits bounds what connections may cost.
type Limits struct {
	Conns     int64         // connections at once
	Output    OutputLimit   // on what is sent outside of Session.Output
	Timeout   time.Duration // how long a connection may be silent; 0 is for ever
	KeepAlive time.Duration // between probes of a silent peer; 0 is none
	Handshake time.Duration // from accepting a connection to the end of its TLS handshake
}

// Config is what a Server needs of its user. All of it must be given.
type Config struct {
	Log *slog.Logger
	Now func() int64 // nanoseconds of Unix time

	// Open makes the session of a connection that has been accepted. It must not call the Server, and may keep c to use
	// its exported methods, but for Flush, in any goroutine.
	Open func(c *Conn) Session
	// Refusal returns what is sent to a peer that is not served; "" serves it. It is asked when the handshake is done.
	Refusal func(peer net.Addr) string
	// Full is what is sent to a client that exceeds Limits.Conns.
	Full string
	// Commit makes durable what sessions have decided. Replies that promise it wait for that, and are not sent after an
	// error. It must not panic.
	Commit func() error

	// MayWait says that Run may wait for something outside of the process even when it is called with nonBlocking. Every
	// connection keeps its own goroutine then, which may wait without making others wait.
	MayWait bool
}

// Counts counts what has happened.
type Counts struct {
	Accepted atomic.Uint64 // connections
	Rejected atomic.Uint64 // connections that were not served
	Dropped  atomic.Uint64 // connections that did not read their replies
	Read     atomic.Uint64 // bytes, decrypted
	Written  atomic.Uint64 // bytes, before they are encrypted
}

// Reset begins to count anew.
func (c *Counts) Reset() {
	for _, n := range []*atomic.Uint64{&c.Accepted, &c.Rejected, &c.Dropped, &c.Read, &c.Written} {
		n.Store(0)
	}
}

// LogPanic logs a panic that costs the connection from addr. It must be called by the deferred function that recovered.
func LogPanic(log *slog.Logger, addr string, p any) {
	log.Error("a panic ends a connection", "client", addr, "panic", p, "stack", string(debug.Stack()))
}
