package options

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MachineMemory returns the memory in bytes that the process may use: that of the machine, or the limit of the
// container if that is lower. It returns 0 if neither is known.
func MachineMemory() int64 { return memoryUnder("/") }

// memoryUnder is MachineMemory with the system's files below root.
func memoryUnder(root string) int64 {
	least := int64(math.MaxInt64)
	for _, name := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if data, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil { // "max" is no limit
				least = min(least, n)
			}
		}
	}
	if data, err := os.ReadFile(filepath.Join(root, "proc/meminfo")); err == nil {
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
				if kb, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					least = min(least, kb*1024)
				}
			}
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}
