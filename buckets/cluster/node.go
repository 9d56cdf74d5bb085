package cluster

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// node is one server of the engine.
type node struct {
	addr   string
	client *redis.Client // for everything but the hot path: a bounded pool that retries nothing
	engine *engine
	clock  nodeClock
	hot    hotPath
}

// dial returns a new connection to the server on which the user is authenticated, and which speaks RESP2. It takes at most
// dialTimeout. The error never contains the password.
func (n *node) dial(ctx context.Context) (net.Conn, error) { return nil, errors.New("not connected") }

// ready reports whether the time of the server is known. Requests wait until it is.
func (n *node) ready() bool { return false }

// shift returns how far the time of the server is ahead of that of the engine, in nanoseconds. It requires ready.
func (n *node) shift() int64 { return 0 }

// away reports whether the server does not answer now.
func (n *node) away() bool { return false }

// why says why the server is away; "" if it is not.
func (n *node) why() string { return "" }
