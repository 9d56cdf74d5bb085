//go:build unix && !linux

package nonblock

import "syscall"

const offered = true

// Read reads what has arrived into b, which is not empty, or returns syscall.EAGAIN. It may return syscall.EINTR.
func Read(fd uintptr, b []byte) (int, error) { return syscall.Read(int(fd), b) }

// Write writes what the kernel takes of b, which is not empty, or returns syscall.EAGAIN. It may return syscall.EINTR.
func Write(fd uintptr, b []byte) (int, error) { return syscall.Write(int(fd), b) }
