// Package docs_test checks what the documents say of each other.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// documents returns the Markdown files of the repository.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			paths = append(paths, path)
		}
		return nil
	}))
	require.Greater(t, len(paths), 10)
	return paths
}

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
	symbols = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the names of the headings of a document, as GitHub makes them.
func anchors(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	found := make(map[string]bool)
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		found[strings.ReplaceAll(symbols.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return found
}

// A link to a file or a heading of this repository leads there.
func TestLinksLeadSomewhere(t *testing.T) {
	headings := make(map[string]map[string]bool)
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, name, _ := strings.Cut(found[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); !assert.NoError(t, err, "%s: %s", path, found[1]) || name == "" {
				continue
			}
			if headings[target] == nil {
				headings[target] = anchors(t, target)
			}
			assert.True(t, headings[target][name], "%s: there is no heading for %s", path, found[1])
		}
	}
}

// The README is short enough to be read, and every page is in the index.
func TestReadmeIsShortAndEveryPageIsInTheIndex(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	assert.LessOrEqual(t, len(readme), 12<<10, "bytes of the README")
	index, err := os.ReadFile("README.md")
	require.NoError(t, err)
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, page := range pages {
		if page != "README.md" {
			assert.Contains(t, string(index), "("+page+")")
		}
	}
}

var (
	declaredTest = regexp.MustCompile(`(?m)^(?:func|type) ((?:Test|Fuzz|Benchmark)\w*)`)
	comment      = regexp.MustCompile(`(?m)(?:^|\s)//.*$`)
	namedTest    = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
)

// A document, a script, the Makefile or a comment that names a test names one that exists. CHANGELOG.md tells of the past.
func TestEveryTestThatADocumentNamesExists(t *testing.T) {
	declared := make(map[string]bool)
	texts := make(map[string]string)
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		texts[path] = strings.Join(comment.FindAllString(string(text), -1), "\n")
		for _, found := range declaredTest.FindAllSubmatch(text, -1) {
			declared[string(found[1])] = true
		}
		return err
	}))
	scripts, err := filepath.Glob("../scripts/*")
	require.NoError(t, err)
	for _, path := range slices.Concat(documents(t), scripts, []string{"../Makefile"}) {
		if path == "../CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		texts[path] = string(text)
	}
	named := 0
	for path, text := range texts {
		for _, name := range namedTest.FindAllString(text, -1) {
			named++
			assert.True(t, declared[name], "%s names %s, which does not exist", path, name)
		}
	}
	assert.Greater(t, named, 50)
}
