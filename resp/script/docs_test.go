package script_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/internal/testing/golden"
	"cellserver/resp/script"
)

var update = flag.Bool("update", false, "write docs/scripts.md")

// TestDocs makes the table of docs/scripts.md.
//
//	go test ./resp/script -run TestDocs -update
func TestDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| library | versions | script | SHA-1 | what it does | what is kept of it |\n|---|---|---|---|---|---|\n")
	last := ""
	for _, s := range script.Known() {
		library := s.Library
		if library == last {
			library = ""
		}
		last = s.Library
		fmt.Fprintf(&b, "| %s | %s | %s | `%s` | %s | %s |\n", library, s.Versions, s.Name, s.Digest, s.Does, s.Flaws)
	}
	b.WriteString("\n")
	golden.Section(t, "../../docs/scripts.md", "scripts", b.String(), *update)
}

func TestEveryKnownScriptIsDescribed(t *testing.T) {
	for _, s := range script.Known() {
		assert.NotEmpty(t, s.Library, s.Digest)
		assert.NotEmpty(t, s.Versions, s.Digest)
		assert.NotEmpty(t, s.Name, s.Digest)
		assert.True(t, strings.HasSuffix(s.Does, "."), s.Digest)
		assert.False(t, strings.HasSuffix(s.Flaws, "."), s.Digest)
		assert.NotContains(t, s.Library+s.Versions+s.Name+s.Does+s.Flaws, "|", s.Digest)
		assert.Same(t, script.Find(s.Digest), script.Find(s.Digest))
	}
}
