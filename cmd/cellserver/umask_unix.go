//go:build unix

package main

import (
	"net"
	"syscall"
)

// privately calls open with a umask that leaves access to the owner only. It requires that no other goroutine creates
// files meanwhile, because the umask is that of the process.
func privately(open func() (net.Listener, error)) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return open()
}
