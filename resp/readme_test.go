package resp_test

import (
	"fmt"
	"strings"
	"testing"

	"cellserver/internal/testing/golden"
	"cellserver/resp"
)

// TestReadmeListsTheCommands keeps the README's table of commands what the command table says.
func TestReadmeListsTheCommands(t *testing.T) {
	var b strings.Builder
	group := ""
	for _, r := range resp.Rows() {
		if r.Container || strings.HasSuffix(r.Name, "|help") {
			continue
		}
		if r.Group != group {
			group = r.Group
			fmt.Fprintf(&b, "\n**%s**\n\n| command | what it does |\n|---|---|\n", strings.ToUpper(group[:1])+group[1:])
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(r.Syntax, "|", "\\|"), r.Summary)
	}
	b.WriteByte('\n')
	golden.Section(t, "../README.md", "commands", b.String(), *update)
}
