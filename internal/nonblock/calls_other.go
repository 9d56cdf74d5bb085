//go:build !unix

package nonblock

import "syscall"

const offered = false

// Read does nothing: there is no Raw of any connection.
func Read(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }

// Write does nothing: there is no Raw of any connection.
func Write(uintptr, []byte) (int, error) { return 0, syscall.EINVAL }
