//go:build !linux

package clock

// slept is not known here: a machine's sleep is made up for by the slew.
func slept() int64 { return 0 }
