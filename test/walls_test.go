package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "cellserver/"

// goList returns the lines that go list prints in the root of the module.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	return strings.Fields(string(out))
}

// dependencies returns the dependencies of packages, without the packages themselves.
func dependencies(t *testing.T, packages ...string) []string {
	t.Helper()
	own := make(map[string]bool)
	for _, p := range goList(t, packages...) {
		own[p] = true
	}
	var others []string
	for _, p := range goList(t, append([]string{"-deps"}, packages...)...) {
		if !own[p] {
			others = append(others, p)
		}
	}
	return others
}

// isStandard reports whether a package belongs to the standard library: the first element of any other path contains a dot or
// is the name of this module.
func isStandard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".") && first+"/" != module || strings.HasPrefix(p, "vendor/")
}

// No package imports what the walls in CONTRIBUTING.md forbid.
func TestWalls(t *testing.T) {
	t.Run("buckets looks at nothing", func(t *testing.T) {
		for _, p := range dependencies(t, "./buckets") {
			assert.True(t, isStandard(p), p)
			assert.False(t, p == "net" || strings.HasPrefix(p, "net/") || p == "log/slog" || p == "os/exec", p)
		}
	})
	t.Run("a store looks at buckets only", func(t *testing.T) {
		for _, p := range dependencies(t, "./buckets/memory") {
			assert.True(t, isStandard(p) || p == module+"buckets", p)
			assert.False(t, p == "net" || strings.HasPrefix(p, "net/") || p == "log/slog" || p == "os/exec", p)
		}
	})
	t.Run("the store in an engine looks at buckets and at no other room", func(t *testing.T) {
		for _, p := range dependencies(t, "./buckets/cluster") {
			own, ours := strings.CutPrefix(p, module)
			assert.True(t, !ours || slices.Contains([]string{"buckets", "internal/hashslot", "internal/nonblock", "internal/ratelog"}, own), p)
		}
	})
	t.Run("resp does not know where buckets are kept or who runs it", func(t *testing.T) {
		for _, p := range dependencies(t, "./resp") {
			for _, room := range []string{"persistence", "buckets/memory", "buckets/cluster", "metrics", "cmd"} {
				assert.False(t, p == module+room || strings.HasPrefix(p, module+room+"/"), p)
			}
		}
	})
	t.Run("the rooms of resp look one way", func(t *testing.T) {
		sees := map[string][]string{
			"resp/frame":     {"buckets"},
			"resp/command":   {"buckets", "internal/glob", "resp/frame", "resp/limits"},
			"resp/clients":   {"buckets", "resp/frame"},
			"resp/counter":   {"buckets", "resp/frame"},
			"resp/keyspace":  {"buckets", "internal/glob", "resp/frame"},
			"resp/info":      {"buckets", "resp/frame", "resp/latency", "resp/stats"},
			"resp/latency":   {},
			"resp/limits":    {"buckets", "resp/frame"},
			"resp/pause":     {},
			"resp/stats":     {"resp/latency"},
			"resp/users":     {"buckets", "internal/acl", "internal/glob", "resp/command", "resp/frame", "resp/limits"},
			"resp/transport": {"internal/nonblock", "internal/ratelog"},
		}
		for room, others := range sees {
			for _, p := range dependencies(t, module+room) {
				own, ours := strings.CutPrefix(p, module)
				assert.True(t, !ours || slices.Contains(others, own), "%s is made of %s", room, p)
			}
		}
	})
	t.Run("persistence knows neither the protocol nor a network", func(t *testing.T) {
		for _, p := range dependencies(t, "./persistence") {
			assert.True(t, isStandard(p) || p == module+"buckets" || p == module+"buckets/memory" || p == module+"internal/pace", p)
			assert.False(t, p == "net" || strings.HasPrefix(p, "net/"), p)
		}
	})
	t.Run("nothing but the program is made of its parts", func(t *testing.T) {
		for _, p := range goList(t, "./...") {
			if strings.HasPrefix(p, module+"cmd/") || p == module+"internal/testing/testserver" {
				continue // the program, and the whole server for tests
			}
			for _, d := range dependencies(t, p) {
				assert.False(t, strings.HasPrefix(d, module+"cmd/") || d == module+"buckets/cluster", "%s is made of %s", p, d)
			}
		}
	})
	t.Run("only tests need what only tests may use", func(t *testing.T) {
		for _, p := range dependencies(t, "./cmd/cellserver") {
			for _, tool := range []string{module + "internal/testing/", "testing", "net/http", "github.com/stretchr/"} {
				assert.False(t, p == tool || strings.HasSuffix(tool, "/") && strings.HasPrefix(p, tool), p)
			}
		}
	})
}

// In buckets time is an argument: the package neither reads a clock nor waits for one.
func TestBucketsReadNoClock(t *testing.T) {
	files, err := filepath.Glob("../buckets/*.go")
	require.NoError(t, err)
	memory, err := filepath.Glob("../buckets/memory/*.go")
	require.NoError(t, err)
	files = append(files, memory...)
	looked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		looked++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, i := range f.Imports {
			if i.Path.Value == `"time"` {
				assert.Nil(t, i.Name, "%s: time has another name here", name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := selector.X.(*ast.Ident); ok && of.Name == "time" {
				switch selector.Sel.Name {
				case "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker":
					assert.Fail(t, "buckets reads the clock", "%s: time.%s", set.Position(n.Pos()), selector.Sel.Name)
				}
			}
			return true
		})
	}
	assert.Positive(t, looked)
}
