// Package golden keeps generated sections of documents up to date, in tests.
package golden

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Section compares what stands in a file between a line that begins with "<!-- name:" and "<!-- end of name -->" with
// want; with update it writes it.
func Section(t *testing.T, file, name, want string, update bool) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(data)
	begin := strings.Index(text, "<!-- "+name+":")
	end := strings.Index(text, "<!-- end of "+name+" -->")
	require.True(t, 0 <= begin && begin < end, "%s has a section %s", file, name)
	begin += strings.Index(text[begin:], "\n") + 1
	if update {
		require.NoError(t, os.WriteFile(file, []byte(text[:begin]+want+text[end:]), 0o644))
		return
	}
	if got := text[begin:end]; got != want {
		line := 0
		gots, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
		for line < min(len(gots), len(wants))-1 && gots[line] == wants[line] {
			line++
		}
		t.Fatalf("%s:%d is stale: run this test with -update\nhas:   %s\nwants: %s",
			file, 1+strings.Count(text[:begin], "\n")+line, gots[line], wants[line])
	}
}
