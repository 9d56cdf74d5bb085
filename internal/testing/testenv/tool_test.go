package testenv

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ending keeps how a test was ended.
type ending struct {
	testing.TB
	how string
}

func (e *ending) Helper()               {}
func (e *ending) Skipf(string, ...any)  { e.end("skipped") }
func (e *ending) Fatalf(string, ...any) { e.end("failed") }
func (e *ending) end(how string) {
	e.how = how
	runtime.Goexit()
}

// tool asks for a program in a test of its own, and says how that ended.
func tool(name string) (path, how string) {
	e := &ending{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		path = Tool(e, name)
	}()
	<-done
	return path, e.how
}

func TestTool(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	here := filepath.Join(dir, "here")
	require.NoError(t, os.WriteFile(here, []byte("#!/bin/sh\n"), 0o755))

	for _, strict := range []string{"", "1"} {
		t.Setenv(Strict, strict)
		path, how := tool("here")
		assert.Equal(t, here, path)
		assert.Empty(t, how)
	}
	_, how := tool("missing")
	assert.Equal(t, "failed", how)
	t.Setenv(Strict, "")
	_, how = tool("missing")
	assert.Equal(t, "skipped", how)
}
