//go:build unix && !linux

package transport

import "syscall"

// readNow and writeNow are read and write of a descriptor that never blocks.

func readNow(fd uintptr, b []byte) (int, error) { return syscall.Read(int(fd), b) }

func writeNow(fd uintptr, b []byte) (int, error) { return syscall.Write(int(fd), b) }
