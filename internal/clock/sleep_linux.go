package clock

import (
	"syscall"
	"unsafe"
)

// Clocks of clock_gettime(2). Only CLOCK_BOOTTIME runs while the machine is asleep.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// slept returns how long the machine has been asleep since it was booted, in nanoseconds, or slightly less: time
// between the two readings makes the difference smaller. It returns 0 if the kernel does not tell.
func slept() int64 {
	most := int64(0)
	for range 3 {
		boot, ok := gettime(clockBoottime)
		mono, also := gettime(clockMonotonic)
		if ok && also {
			most = max(most, boot-mono)
		}
	}
	return most
}

func gettime(id uintptr) (int64, bool) {
	var at syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano(), errno == 0
}
