package cluster

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"cellserver/internal/testing/engines"
)

func TestMain(m *testing.M) {
	// Most of the time tests wait for engines, so more of them run at once than there are processors.
	if err := flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(engines.Main(m))
}
