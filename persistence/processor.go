package persistence

import (
	"os"
	"runtime"
	"sync"
)

// spareProcessor counts the running system calls for which GOMAXPROCS is raised from 1 to 2. A goroutine keeps its
// processor during a system call, and the runtime may take ten milliseconds to take it away. With a second processor
// other goroutines run at once. Two processors all the time would slow each request down by some percent.
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
	runtime.SetDefaultGOMAXPROCS() // the CPU limit of the container may have changed during the call
}
