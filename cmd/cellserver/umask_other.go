//go:build !unix

package main

import "net"

// privately calls open: this system has no umask.
func privately(open func() (net.Listener, error)) (net.Listener, error) { return open() }
