package resp

import (
	"time"

	"cellserver/resp/frame"
	"cellserver/resp/transport"
)

// Bounds are the options that bound what connections cost. Sizes are in bytes.
type Bounds struct {
	frame.Limits
	MaxKey     int64 // max-key-bytes: the length of keys
	MaxClients int64 // maxclients: the number of connections

	MaxLog        int64 // zslide-max-log: the records of one log
	MultiCommands int64 // multi-max-commands: the queued commands of a transaction, and about how many keys it visits

	Output    OutputLimit   // client-output-buffer-limit of normal clients
	Timeout   time.Duration // timeout: of idle connections; 0 is none
	KeepAlive time.Duration // tcp-keepalive: the interval of probes; 0 is none
	Handshake time.Duration // tls-handshake-timeout: from accepting a connection to the end of its TLS handshake

	Protected bool // protected-mode: refuse other machines while the default user needs no password

	Debug string // enable-debug-command: a value such as DebugLocal

	SlowerThan       time.Duration // slowlog-log-slower-than: the least duration in SLOWLOG; negative is none
	SlowlogLen       int64         // slowlog-max-len: the entries of SLOWLOG
	LatencyThreshold time.Duration // latency-monitor-threshold: the least duration in LATENCY; 0 is none
}

// The bounds of clients that have not authenticated. They send a name and a password, and get short replies.
const (
	unauthMaxBulk     = 16 << 10
	unauthQueryBuffer = 64 << 10
	unauthOutput      = 16 << 10
)

// unauthenticated returns the bounds of clients that have not authenticated.
func (l Bounds) unauthenticated() *Bounds {
	l.Stranger = true
	l.MaxBulk, l.QueryBuffer = min(l.MaxBulk, unauthMaxBulk), min(l.QueryBuffer, unauthQueryBuffer)
	l.Output = OutputLimit{Hard: unauthOutput}
	return &l
}

// OutputLimit bounds the replies that a client has not read.
type OutputLimit = transport.OutputLimit

// transport returns the limits that the transport enforces.
func (l *Bounds) transport() transport.Limits {
	return transport.Limits{
		Conns: l.MaxClients, Output: l.Output, Timeout: l.Timeout, KeepAlive: l.KeepAlive, Handshake: l.Handshake,
	}
}

// DefaultBounds returns the defaults, which are safe for a server that anybody can reach.
func DefaultBounds() Bounds {
	return Bounds{
		Limits:     frame.Limits{MaxBulk: 1 << 20, QueryBuffer: 8 << 20},
		MaxKey:     4096,
		MaxClients: 10000,

		MaxLog:        1000000,
		MultiCommands: 10000,

		Output:     OutputLimit{Hard: 64 << 20},
		KeepAlive:  300 * time.Second,
		Handshake:  10 * time.Second,
		Protected:  true,
		Debug:      DebugNobody,
		SlowerThan: 10 * time.Millisecond,
		SlowlogLen: 128,
	}
}

// keyFault returns the error if nothing may be stored under a key because it is too long, or "".
func (l *Bounds) keyFault(key []byte) string {
	if int64(len(key)) > l.MaxKey {
		return sprintf(errKeyTooLong, l.MaxKey)
	}
	return ""
}
