package options_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"cellserver/cmd/cellserver/options"
	"cellserver/internal/testing/golden"
)

var update = flag.Bool("update", false, "write the tables of docs/configuration.md anew")

// TestConfigurationPage compares the tables of docs/configuration.md with the option table. With -update it writes them.
//
//	go test ./cmd/cellserver/options -run TestConfigurationPage -update
func TestConfigurationPage(t *testing.T) {
	require.NotEmpty(t, options.Table[0].Section, "the first option begins a section")
	var b strings.Builder
	for _, o := range options.Table {
		if o.Section != "" {
			fmt.Fprintf(&b, "\n## %s\n\n| option | default | at run time | meaning |\n|---|---|---|---|\n", o.Section)
		}
		change := "no"
		if o.Mutable {
			change = "yes"
		}
		fmt.Fprintf(&b, "| `%s` %s | `%q` | %s | %s |\n", o.Name, o.Hint(), o.Default, change, o.Help)
	}
	b.WriteByte('\n')
	golden.Section(t, "../../../docs/configuration.md", "options", b.String(), *update)
}
