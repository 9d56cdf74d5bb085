//go:build unix

package main

import (
	"net"
	"syscall"
)

// privately opens what nobody but the file's owner may use yet. It must not run while others make files.
func privately(open func() (net.Listener, error)) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return open()
}
