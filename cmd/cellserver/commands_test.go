package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/persistence"
	"cellserver/resp/script"
)

func TestScriptsListsEveryKnownScript(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"scripts"}, &out, io.Discard))
	for _, s := range script.Known() {
		assert.Contains(t, out.String(), "\n  "+s.Digest.String()+"  "+s.Name+" (")
		assert.Contains(t, out.String(), s.Library+"\n")
	}
	require.ErrorContains(t, run(t.Context(), []string{"scripts", "x"}, &out, io.Discard), "no arguments")
}

func TestCheckReportsEveryKindByName(t *testing.T) {
	r := persistence.Report{FileKind: persistence.JournalFile}
	for _, kind := range buckets.Kinds() {
		r.Sets[kind] = 100 + int64(kind)
	}
	var out strings.Builder
	require.NoError(t, writeReport(&out, "a file", &r, nil))
	sets := make(map[string]int64)
	for _, kind := range buckets.Kinds() {
		sets[kind.String()] += r.Sets[kind] // Counter and Float have one name
	}
	for name, n := range sets {
		assert.Contains(t, out.String(), fmt.Sprintf("%s %d", name, n))
	}
}
