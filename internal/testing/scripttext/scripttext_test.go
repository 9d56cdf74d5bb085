package scripttext_test

import (
	"crypto/sha1"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/scripttext"
	"cellserver/resp/script"
)

// A text is found in each kind of file, in the spelling that its program sends.
func TestInFindsTextsInEveryKindOfFile(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"a.lua": "return redis.call('get', 1)\n",
		"b.js":  "const x = `redis.call('b') \\\n return 1`",
		"c.cjs": "const x = `\n   redis.call('c')\n   return 1\n `.replace(...)",
		"d.go":  "package d\nconst x = `redis.call(\"d\")`\n",
		"e.py":  "x = \"\"\"\n  redis.call('e')\n\"\"\"\n",
		"f.php": "<?php $a = <<<'LUA'\nredis.call('f')\nLUA;\n$lua = \"redis.call('g')\";",
	}
	var names []string
	for name, text := range files {
		names = append(names, filepath.Join(dir, name))
		require.NoError(t, os.WriteFile(names[len(names)-1], []byte(text), 0o600))
	}
	found, err := scripttext.In(names)
	require.NoError(t, err)
	texts := map[string]bool{}
	for _, text := range found {
		texts[text.Text] = true
	}
	for _, want := range []string{"return redis.call('get', 1)\n", "redis.call('b')  return 1", "redis.call('c')\nreturn 1", `redis.call("d")`,
		"\n  redis.call('e')\n", "redis.call('f')", "redis.call('g')"} {
		assert.True(t, texts[want], "%q", want)
	}
}

// outOfReach are texts that need more than counters, or that nobody sends.
var outOfReach = map[string]string{
	"17b227607d02ef0371b60a37ea6cb00ae0b427bb": "gcra_consume.lua of limits, which no code of it loads",
	"19c9778cd6391e2ee9f90aa518bf56256d15b4ae": "the moving window of limits 4, a list",
	"3136f0028c572d2959b5cdc5ec15b287fab6a9ff": "the moving window of limits, a list",
	"6604c8152bea174562b6b8a690770c3e9b617594": "of rate-limiter-flexible for Valkey GLIDE, which sends it by FUNCTION LOAD",
	"8ed1abce8c5f6c868f7a1af3980dcdb5bce2e2e1": "the tags of Laravel's cache, sorted sets",
	"986853ef22fde2c21e001b40202acde648f460cb": "the Bloom filter of go-zero, bits",
	"c2dd110244ccc4448172c0148049c05a426917b4": "of rate-limiter-flexible for Valkey GLIDE, which sends it by FUNCTION LOAD",
	"d19f37c18768a509dbf1310a257bfc35be65609f": "the moving window of limits, a list",
	"f2ef2962263bbe72f66f5bbd0da234e74d880068": "the moving window of limits 4, a list",
}

// What the newest releases of the libraries send is known. scripts/newest runs it.
func TestNewestTextsAreKnown(t *testing.T) {
	folder := os.Getenv("CELLSERVER_NEWEST")
	if folder == "" {
		t.Skip("scripts/newest runs it, which asks npm, the Go module proxy and Debian")
	}
	var files []string
	packages, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	require.NotEmpty(t, packages)
	for _, dir := range packages {
		dir, err = filepath.EvalSymlinks(dir)
		require.NoError(t, err)
		require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			tests := strings.Contains(name, "/.") || strings.Contains(name, "test") || strings.Contains(name, "/example") || strings.Contains(name, "/benchmark")
			if err == nil && entry.Type().IsRegular() && !tests {
				files = append(files, name)
			}
			return err
		}))
	}
	unknown, err := scripttext.Unknown(files, func(sha1 string) bool {
		d, ok := script.ParseDigest([]byte(sha1))
		return ok && script.Find(d) != nil || outOfReach[sha1] != ""
	})
	require.NoError(t, err)
	for _, text := range unknown {
		t.Errorf("not known: %s in %s\n%s", text.SHA1, text.File, text.Text)
	}
	t.Logf("%d files", len(files))
}

func TestUnknownIsWhatNoSpellingMakesKnown(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.js")
	require.NoError(t, os.WriteFile(name, []byte("`\n  return redis.call('a')\n` + `redis.call('b')` + `nothing.call(`"), 0o600))
	sum := sha1.Sum([]byte("return redis.call('a')"))
	known := hex.EncodeToString(sum[:]) // without its indentation
	unknown, err := scripttext.Unknown([]string{name}, func(sha1 string) bool { return sha1 == known })
	require.NoError(t, err)
	require.Len(t, unknown, 1)
	assert.Equal(t, "redis.call('b')", unknown[0].Text)
}

// Every known script has a text: in a package, or nowhere that this machine can reach.
func TestEveryKnownScriptHasAText(t *testing.T) {
	for _, s := range script.Known() {
		t.Run(s.Digest.String(), func(t *testing.T) {
			assert.Contains(t, scripttext.Of(t, s.Digest.String()), "call(")
		})
	}
}
