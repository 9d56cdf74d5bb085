//go:build darwin || dragonfly || freebsd || illumos || netbsd || openbsd

package persistence

import "os"

// lockHolder returns the process that holds the lock on what f has open, which only Linux tells.
func lockHolder(*os.File) (pid string) { return "" }
