//go:build !linux

package transport

// Elsewhere than on Linux every connection is served by its own goroutine.

type (
	loops   struct{}
	handoff struct{}
)

func (*loops) stop() {}

func (c *Conn) joinLoop() {}

func (c *Conn) lend() (served bool, next Next, err error) { return false, Read, nil }

func (c *Conn) reclaim() {}

func (c *Conn) acknowledge() {}
