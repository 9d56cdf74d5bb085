// Package cluster tests several servers that share their keys in a real Valkey or Redis: what clients of any of them see together.
package cluster

import (
	"testing"

	"go.uber.org/goleak"

	"cellserver/internal/testing/engines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(engines.Main(m)) }
