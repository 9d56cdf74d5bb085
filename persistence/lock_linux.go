package persistence

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// lockHolder returns the ID of the process that has locked the file that f has open, or "" if it is unknown. The kernel
// tells no process outside of this container, and names some file systems by another number than stat does.
func lockHolder(f *os.File) (pid string) {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return ""
	}
	defer func() { _ = locks.Close() }()
	return holderIn(bufio.NewScanner(locks), uint64(stat.Dev), stat.Ino) //nolint:unconvert // it is 32 bits wide on MIPS
}

// holderIn returns the process in a line such as
//
//	1: FLOCK  ADVISORY  WRITE 1234 08:01:131090 0 EOF
//
// that has the lock on the given inode. A line with "->" is of a process that waits for the lock.
func holderIn(lines *bufio.Scanner, dev, inode uint64) (pid string) {
	major := dev>>8&0xfff | dev>>32&^0xfff
	minor := dev&0xff | dev>>12&^0xff
	where := fmt.Sprintf("%02x:%02x:%d", major, uint32(minor), inode)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) >= 6 && f[1] == "FLOCK" && f[5] == where && f[4] > "0" {
			return f[4]
		}
	}
	return ""
}
