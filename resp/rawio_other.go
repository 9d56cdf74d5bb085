//go:build !unix

package resp

import (
	"net"
	"syscall"
)

func rawOf(net.Conn) syscall.RawConn { return nil }

func (c *conn) tryRead(uintptr) bool { return true }

func (c *conn) tryDecrypt(uintptr) bool { return true }

func (w *wire) poll([]byte) (int, error) { return 0, nothingYet{} }

func (o *outbox) tryWrite(uintptr) bool { return true }
