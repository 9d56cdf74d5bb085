package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/persistence"
)

func TestCheckReportsEveryKindByName(t *testing.T) {
	r := persistence.Report{FileKind: persistence.JournalFile}
	for _, kind := range buckets.Kinds() {
		r.Sets[kind] = 100 + int64(kind)
	}
	var out strings.Builder
	require.NoError(t, writeReport(&out, "a file", &r, nil))
	for _, kind := range buckets.Kinds() {
		assert.Contains(t, out.String(), fmt.Sprintf("%s %d", kind, r.Sets[kind]))
	}
}
