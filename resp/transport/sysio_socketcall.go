//go:build linux && (386 || s390x)

package transport

import "syscall"

// These architectures have one system call, socketcall, for all that is done to sockets, and it takes its arguments from
// memory. Plain read and write do the same here: the net package makes every socket non-blocking, and the Go runtime ignores
// SIGPIPE of descriptors other than 1 and 2.

func readNow(fd uintptr, b []byte) (int, error) { return ioNow(syscall.SYS_READ, fd, b, 0) }

func writeNow(fd uintptr, b []byte) (int, error) { return ioNow(syscall.SYS_WRITE, fd, b, 0) }
