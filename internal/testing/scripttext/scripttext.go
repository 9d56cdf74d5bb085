// Package scripttext finds the texts of scripts in the packages of the libraries that send them. The texts are other people's, so
// they are nowhere in this repository: scripts/test-deps installs the packages. None of their code runs.
package scripttext

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"cellserver/internal/testing/testenv"
)

// debianEnv is the environment variable by which scripts/test-deps says where packages of later releases of Debian are unpacked.
const debianEnv = "CELLSERVER_TEST_DEBIAN"

// FolderEnv is the environment variable that names folders with further texts, each in a file <sha1>.lua; a colon stands between two.
const FolderEnv = "CELLSERVER_TEST_SCRIPTS"

// unpackaged are texts that no package has which this machine may be able to install, and where else they are.
var unpackaged = map[string]string{
	"ab9a35aa62ed8fa50cf1c655a522698512c9b126": "limits 2.2 is in no release of Debian",
	"d5f94f1848f0c54fff99d99dbc4d54184a157c02": "Laravel 13 is in forky, which could not be reached",
	"e7a0a27d4101baabb124af209bb0245197a359a1": "limits 4.1 is in Debian 13, which could not be reached",
	"e8ac2a60cb040b0dbb56815a1e9c6fd032ce62e7": "limits 4.1 is in Debian 13, which could not be reached",
}

// Text is a text that was found.
type Text struct {
	SHA1, Text string
	File       string // where it was found
}

// Of returns the text with a SHA-1, or ends the test if no package has it.
func Of(t testing.TB, sha1 string) string {
	t.Helper()
	texts, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	text, ok := texts[sha1]
	switch {
	case ok:
		return text.Text
	case unpackaged[sha1] != "":
		t.Skipf("no package has the text of %s: %s; %s may name a folder that has it", sha1, unpackaged[sha1], FolderEnv)
	case os.Getenv(testenv.Strict) == "1":
		t.Fatalf("needs the text of %s, which scripts/test-deps installs", sha1)
	default:
		t.Skipf("needs the text of %s, which scripts/test-deps installs; %s=1 makes this a failure", sha1, testenv.Strict)
	}
	return ""
}

// Skips reports whether Of may skip a text though all that can be installed is: because no package has it.
func Skips(sha1 string) bool { return unpackaged[sha1] != "" }

var installed = sync.OnceValues(func() (map[string]Text, error) {
	_, here, _, _ := runtime.Caller(0)
	scripts := filepath.Join(filepath.Dir(here), "..", "..", "..", "test", "testdata", "scripts")
	files := glob(nil, filepath.Join(scripts, "node_modules", "*"), "lib/*.js", "dist/index.cjs", "store/*.js", "src/*.js")
	roots := []string{"/"}
	if folder := os.Getenv(debianEnv); folder != "" {
		roots = glob(roots, folder, "*")
	}
	for _, root := range roots {
		files = glob(files, filepath.Join(root, "usr/lib/python3/dist-packages"), "limits/resources/redis/lua_scripts/*.lua", "django_redis/client/default.py")
		files = glob(files, filepath.Join(root, "usr/share/php/Illuminate/Cache"), "*.php")
	}
	modules, err := moduleFiles(filepath.Join(scripts, "modules.txt"))
	if err != nil {
		return nil, err
	}
	files = append(files, modules...)
	for _, folder := range filepath.SplitList(os.Getenv(FolderEnv)) {
		files = glob(files, folder, "*.lua")
	}
	return In(files)
})

// glob appends the files in dir that match patterns.
func glob(files []string, dir string, patterns ...string) []string {
	for _, p := range patterns {
		found, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(p))) // the patterns are well formed
		files = append(files, found...)
	}
	return files
}

// moduleFiles returns the files that a list of modules names, of those that are in the module cache.
func moduleFiles(list string) (files []string, err error) {
	lines, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(lines)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] != "#" {
			files = glob(files, filepath.Join(strings.TrimSpace(string(cache)), filepath.FromSlash(words[0])), words[1:]...)
		}
	}
	return files, nil
}

// In returns what may be texts of scripts in files, by SHA-1: whole files of Lua, and the strings of several lines in others, in
// each of the ways in which programs change them before they send them.
func In(files []string) (map[string]Text, error) {
	texts := make(map[string]Text)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			if info, statErr := os.Stat(name); statErr == nil && info.Mode()&fs.ModeDir != 0 {
				continue
			}
			return nil, err
		}
		for _, literal := range literals(name, b) {
			for _, text := range spellings(literal) {
				sum := sha1.Sum(text)
				id := hex.EncodeToString(sum[:])
				texts[id] = Text{SHA1: id, Text: string(text), File: name}
			}
		}
	}
	return texts, nil
}

// Unknown returns the texts of scripts in files that send something in no spelling that known reports, each as it stands in its file.
func Unknown(files []string, known func(sha1 string) bool) (unknown []Text, err error) {
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, literal := range literals(name, b) {
			found := false
			for _, text := range spellings(literal) {
				sum := sha1.Sum(text)
				found = found || known(hex.EncodeToString(sum[:]))
			}
			if !found && calls.Match(literal) {
				sum := sha1.Sum(literal)
				unknown = append(unknown, Text{SHA1: hex.EncodeToString(sum[:]), Text: string(literal), File: name})
			}
		}
	}
	return unknown, nil
}

var (
	calls       = regexp.MustCompile(`\b(redis|server)\.p?call\(`)
	backquoted  = regexp.MustCompile("`([^`]*)`")
	tripleQuote = regexp.MustCompile(`(?s)"""(.*?)"""`)
	nowdoc      = regexp.MustCompile(`(?s)<<<'LUA'\n(.*?)\n\s*LUA;`)
	phpString   = regexp.MustCompile(`\$lua = "([^"]*)"`)
	indentation = regexp.MustCompile(`(?m)^\s+`)
)

// literals returns the strings of a file that may be scripts.
func literals(name string, b []byte) (found [][]byte) {
	var patterns []*regexp.Regexp
	switch filepath.Ext(name) {
	case ".lua":
		return [][]byte{b}
	case ".js", ".cjs", ".go":
		patterns = []*regexp.Regexp{backquoted}
	case ".py":
		patterns = []*regexp.Regexp{tripleQuote}
	case ".php":
		patterns = []*regexp.Regexp{nowdoc, phpString}
	}
	for _, p := range patterns {
		for _, m := range p.FindAllSubmatch(b, -1) {
			if bytes.Contains(m[1], []byte(".call(")) {
				found = append(found, m[1])
			}
		}
	}
	return found
}

// spellings returns what programs make of a string: they send it as it is, join lines that end with a backslash, or remove the
// indentation.
func spellings(b []byte) [][]byte {
	joined := bytes.ReplaceAll(b, []byte("\\\n"), nil)
	flush := bytes.TrimSpace(indentation.ReplaceAll(b, nil))
	return [][]byte{b, joined, flush}
}
