//go:build !linux

package resp

// Elsewhere than on Linux every connection is served by its own goroutine.

type (
	lanes struct{}
	lane  struct{}
)

func (*lanes) stop() {}

func (c *conn) enterLane() {}

func (c *conn) visit() (served bool, err error) { return false, nil }

func (c *conn) recall() {}

func (c *conn) acknowledge() {}
