//go:build !unix

package resp

import (
	"net"
	"syscall"
)

func rawOf(net.Conn) syscall.RawConn { return nil }

func (c *conn) tryRead(uintptr) bool { return true }

func (o *outbox) tryWrite(uintptr) bool { return true }
