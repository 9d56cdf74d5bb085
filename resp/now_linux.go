package resp

import (
	"syscall"
	"unsafe"
)

// readNow and writeNow are read and write of a descriptor that never blocks. They do not tell the runtime that a system
// call is made, which would have it watch for one that takes long, from another thread, at a tenth of the processor.

func readNow(fd uintptr, b []byte) (int, error) {
	return ioNow(syscall.SYS_RECVFROM, fd, b, syscall.MSG_DONTWAIT)
}

func writeNow(fd uintptr, b []byte) (int, error) {
	return ioNow(syscall.SYS_SENDTO, fd, b, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
}

// ioNow is given b, which is not empty.
func ioNow(call, fd uintptr, b []byte, flags uintptr) (int, error) {
	n, _, errno := syscall.RawSyscall6(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
