package nonblock

import (
	"syscall"
	"unsafe"
)

const offered = true

// call is given b, which is not empty.
func call(number, fd uintptr, b []byte, flags uintptr) (int, error) {
	n, _, errno := syscall.RawSyscall6(number, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
