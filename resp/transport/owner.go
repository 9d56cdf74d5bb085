package transport

import "sync/atomic"

// owner says who serves a connection. That is one goroutine at any time: the connection's own, or that of its loop.
//
//	                    lend            reclaim
//	handshaking ──→ own ────→ lent ─────────────→ reclaimed
//	     │           │ ↑       │ giveBack             │ giveBack
//	     │           │ └───────┴──────────────────────┘
//	     │    finish │
//	     └───────────┴──→ ending
//
// Only the connection's own goroutine lends and finishes, only the loop gives back, and anybody reclaims. Lending,
// reclaiming and giving back require that the loop's mu is held.
type owner int32

const (
	own         owner = iota // its own goroutine reads, runs the session, and sends
	handshaking              // its own goroutine does the TLS handshake, which must not be disturbed
	lent                     // the loop does all that; its own goroutine waits to get it back
	reclaimed                // the same, but the loop gives it back at the end of its turn
	ending                   // its own goroutine sends what is owed and closes; the session has ended
)

// ownership holds the owner of one connection. Anybody may read it.
type ownership struct{ now atomic.Int32 }

func (o *ownership) is(s owner) bool { return owner(o.now.Load()) == s }

// withLoop reports whether the loop serves the connection.
func (o *ownership) withLoop() bool { return o.is(lent) || o.is(reclaimed) }

func (o *ownership) move(from, to owner) bool { return o.now.CompareAndSwap(int32(from), int32(to)) }

func (o *ownership) handshake() { o.move(own, handshaking) }
func (o *ownership) shaken()    { o.move(handshaking, own) }
func (o *ownership) lend() bool { return o.move(own, lent) }

// reclaim reports whether the loop is to be told.
func (o *ownership) reclaim() bool { return o.move(lent, reclaimed) }

// giveBack reports whether the loop had the connection.
func (o *ownership) giveBack() bool { return o.move(lent, own) || o.move(reclaimed, own) }

// finish reports whether the end begins here.
func (o *ownership) finish() bool { return o.move(own, ending) || o.move(handshaking, ending) }
