package cluster

import (
	"testing"

	"go.uber.org/goleak"

	"cellserver/internal/testing/engines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(engines.Main(m)) }
