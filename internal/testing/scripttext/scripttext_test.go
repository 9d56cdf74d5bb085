package scripttext_test

import (
	"os"
	"path/filepath"
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

// Every known script has a text: in a package, or nowhere that this machine can reach.
func TestEveryKnownScriptHasAText(t *testing.T) {
	for _, s := range script.Known() {
		t.Run(s.Digest.String(), func(t *testing.T) {
			assert.Contains(t, scripttext.Of(t, s.Digest.String()), "call(")
		})
	}
}
