//go:build !unix

package info

func cpuSeconds() (user, system float64) { return 0, 0 }

func residentBytes() uint64 { return 0 }
