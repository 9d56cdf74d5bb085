//go:build !unix

package transport

import (
	"net"
	"syscall"
)

func rawOf(net.Conn) syscall.RawConn { return nil }

func (c *Conn) tryRead(uintptr) bool { return true }

func (c *Conn) tryDecrypt(uintptr) bool { return true }

func (w *wire) poll([]byte) (int, error) { return 0, nothingYet{} }

func (o *outbox) tryWrite(uintptr) bool { return true }
