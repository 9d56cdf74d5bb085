package persistence

import (
	"os"
	"runtime"
	"sync"
)

// spareProcessor counts the system calls for which Go's scheduler has a second processor, if it has only one otherwise.
// A goroutine keeps its processor while it is in a system call, and the runtime may take ten milliseconds to take it
// away; with a second one, other goroutines run at once. Two processors all the time would make each request some
// percent slower.
var spareProcessor struct {
	sync.Mutex
	users int
}

// withSpareProcessor makes a call that may block in the operating system, and returns its error.
func withSpareProcessor(call func() error) error {
	spareProcessor.Lock()
	if spareProcessor.users > 0 || runtime.GOMAXPROCS(0) == 1 {
		if spareProcessor.users++; spareProcessor.users == 1 {
			runtime.GOMAXPROCS(2)
		}
		defer returnProcessor()
	}
	spareProcessor.Unlock()
	return call()
}

func returnProcessor() {
	spareProcessor.Lock()
	defer spareProcessor.Unlock()
	if spareProcessor.users--; spareProcessor.users > 0 {
		return
	}
	if os.Getenv("GOMAXPROCS") != "" {
		runtime.GOMAXPROCS(1)
		return
	}
	runtime.SetDefaultGOMAXPROCS() // the limit of a container may have changed meanwhile
}
