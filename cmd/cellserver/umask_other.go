//go:build !unix

package main

import "net"

// privately has no umask to work with here.
func privately(open func() (net.Listener, error)) (net.Listener, error) { return open() }
