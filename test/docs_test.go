package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	namedTest    = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
)

// A test that a document names can be run: it has not been renamed or removed since.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	declared := make(map[string]bool)
	documents := make(map[string]string)
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if entry.Name() == "node_modules" || entry.Name() == ".git" {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".md") && filepath.Dir(path) != "../scripts":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, "_test.go") {
			documents[path] = string(text)
			return nil
		}
		for _, match := range declaredTest.FindAllSubmatch(text, -1) {
			declared[string(match[1])] = true
		}
		return nil
	}))
	named := 0
	for path, text := range documents {
		if path == "../CHANGELOG.md" {
			continue // it tells what was
		}
		for _, name := range namedTest.FindAllString(text, -1) {
			named++
			assert.True(t, declared[name], "%s names %s, which does not exist", path, name)
		}
	}
	assert.Greater(t, named, 50)
}
