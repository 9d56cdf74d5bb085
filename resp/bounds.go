package resp

import (
	"time"

	"cellserver/resp/frame"
	"cellserver/resp/transport"
)

// Bounds are what a connection may cost. Sizes are bytes.
type Bounds struct {
	frame.Limits
	MaxKey     int64 // max-key-bytes: the key of a limit command
	MaxClients int64 // maxclients: connections at once

	MaxLog        int64 // zslide-max-log: the records of one log
	MultiCommands int64 // multi-max-commands: what one transaction may queue, and about how many keys it may walk through

	Output    OutputLimit   // client-output-buffer-limit of normal clients
	Timeout   time.Duration // timeout: how long a connection may be silent; 0 is for ever
	KeepAlive time.Duration // tcp-keepalive: between probes of a silent peer; 0 is none
	Handshake time.Duration // tls-handshake-timeout: from accepting a connection to the end of its TLS handshake

	Protected bool // protected-mode: only this machine is answered while the default user needs no password

	Debug string // enable-debug-command: who may use DEBUG

	SlowerThan       time.Duration // slowlog-log-slower-than: what SLOWLOG remembers; below 0 is nothing
	SlowlogLen       int64         // slowlog-max-len: how many
	LatencyThreshold time.Duration // latency-monitor-threshold: what LATENCY remembers; 0 is nothing
}

// The bounds of a client that has not authenticated: it has a name and a password to say, and is owed a line or two.
const (
	strangerBulk   = 16 << 10
	strangerQuery  = 64 << 10
	strangerOutput = 16 << 10
)

// strangers returns the bounds of clients that have not authenticated.
func (l Bounds) strangers() *Bounds {
	l.Stranger = true
	l.MaxBulk, l.QueryBuffer = min(l.MaxBulk, strangerBulk), min(l.QueryBuffer, strangerQuery)
	l.Output = OutputLimit{Hard: strangerOutput}
	return &l
}

// OutputLimit bounds the replies that a connection has not read yet.
type OutputLimit = transport.OutputLimit

// transport returns the limits that are about connections and not about commands.
func (l *Bounds) transport() transport.Limits {
	return transport.Limits{
		Conns: l.MaxClients, Output: l.Output, Timeout: l.Timeout, KeepAlive: l.KeepAlive, Handshake: l.Handshake,
	}
}

// DefaultBounds returns bounds that are safe for a server that anybody may reach.
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

// keyFault returns what is wrong with a key that something is to be stored under.
func (l *Bounds) keyFault(key []byte) string {
	if int64(len(key)) > l.MaxKey {
		return sprintf(errKeyTooLong, l.MaxKey)
	}
	return ""
}
