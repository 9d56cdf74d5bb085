package options_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"cellserver/cmd/cellserver/options"
	"cellserver/internal/testing/golden"
)

var update = flag.Bool("update", false, "write the README's table of options anew")

// TestReadmeListsTheOptions keeps the README's table of options what the option table says.
func TestReadmeListsTheOptions(t *testing.T) {
	var b strings.Builder
	b.WriteString("\n| option | default | at run time | meaning |\n|---|---|---|---|\n")
	for _, o := range options.Table {
		change := "no"
		if o.Mutable {
			change = "yes"
		}
		fmt.Fprintf(&b, "| `%s` %s | `%q` | %s | %s |\n", o.Name, o.Hint(), o.Default, change, o.Help)
	}
	b.WriteByte('\n')
	golden.Section(t, "../../../README.md", "options", b.String(), *update)
}
