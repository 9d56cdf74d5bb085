//go:build !386 && !s390x

package nonblock

import "syscall"

// Read reads what has arrived into b, which is not empty, or returns syscall.EAGAIN. It may return syscall.EINTR.
func Read(fd uintptr, b []byte) (int, error) {
	return call(syscall.SYS_RECVFROM, fd, b, syscall.MSG_DONTWAIT)
}

// Write writes what the kernel takes of b, which is not empty, or returns syscall.EAGAIN. It may return syscall.EINTR.
func Write(fd uintptr, b []byte) (int, error) {
	return call(syscall.SYS_SENDTO, fd, b, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
}
