//go:build !unix

package transport

func (c *Conn) tryRead(uintptr) bool { return true }

func (c *Conn) tryDecrypt(uintptr) bool { return true }

func (w *wire) poll([]byte) (int, error) { return 0, nothingYet{} }

func (o *outbox) tryWrite(uintptr) bool { return true }
