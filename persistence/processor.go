package persistence

import (
	"os"
	"runtime"
	"sync"
)

// spare gives Go's scheduler a second processor while a call of the operating system may take long, where it has only one.
// A goroutine keeps its processor when it enters such a call, and the runtime may take ten milliseconds to find out that
// it does not need it; with two, others go on at once. To have two all the time would cost each request some percent.
var spareProcessor struct {
	sync.Mutex
	users int
}

// waiting makes a call that may take long.
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
	runtime.SetDefaultGOMAXPROCS() // which may be another number by now
}
