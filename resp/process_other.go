//go:build !unix

package resp

func cpuSeconds() (user, system float64) { return 0, 0 }

func residentBytes() uint64 { return 0 }
