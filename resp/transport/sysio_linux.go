//go:build !386 && !s390x

package transport

import "syscall"

func readNow(fd uintptr, b []byte) (int, error) {
	return ioNow(syscall.SYS_RECVFROM, fd, b, syscall.MSG_DONTWAIT)
}

func writeNow(fd uintptr, b []byte) (int, error) {
	return ioNow(syscall.SYS_SENDTO, fd, b, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
}
