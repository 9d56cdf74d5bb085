//go:build linux && (386 || s390x)

package nonblock

import "syscall"

// These architectures have one system call, socketcall, for all that is done to sockets, and it takes its arguments from
// memory. Plain read and write do the same here: the net package makes every socket non-blocking, and the Go runtime ignores
// SIGPIPE of descriptors other than 1 and 2.

// Read reads what has arrived into b, which is not empty, or returns syscall.EAGAIN. It may return syscall.EINTR.
func Read(fd uintptr, b []byte) (int, error) { return call(syscall.SYS_READ, fd, b, 0) }

// Write writes what the kernel takes of b, which is not empty, or returns syscall.EAGAIN. It may return syscall.EINTR.
func Write(fd uintptr, b []byte) (int, error) { return call(syscall.SYS_WRITE, fd, b, 0) }
