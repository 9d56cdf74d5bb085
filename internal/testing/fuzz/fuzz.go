// Package fuzz runs scripts that are drawn at random until one fails, and then looks for a shorter one that fails too.
//
// A script is text, one step a line, so that what was found can be read, changed and kept: each file that matches
// testdata/fuzz/<test>/*.txt is played first. Then come scripts drawn from fixed seeds, and then, for a few seconds, ones
// drawn from new seeds.
//
//	CELLSERVER_FUZZ_SEED    play the script of this seed and nothing else
//	CELLSERVER_FUZZ_SCRIPT  play this file and nothing else
//	CELLSERVER_FUZZ_TIME    how long new seeds are drawn, as in 10m
package fuzz

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Target is what is fuzzed.
type Target struct {
	// Draw returns a script.
	Draw func(*rand.Rand) []string
	// Play plays a script and returns what is wrong, or nil. A script that means the same each time can be made shorter,
	// so nothing in it may depend on what was drawn for another one. A line that means nothing is skipped.
	Play func(script []string) error
	// Fixed is how many scripts are drawn from fixed seeds.
	Fixed int
	// Fresh is how long scripts are drawn from new seeds when nobody says how long.
	Fresh time.Duration
}

// attempts bounds how often a failing script is played to find a shorter one.
const attempts = 2000

// Run plays scripts until one fails, which fails the test.
func Run(t *testing.T, target Target) {
	t.Helper()
	if file := os.Getenv("CELLSERVER_FUZZ_SCRIPT"); file != "" {
		target.try(t, readScript(t, file), "CELLSERVER_FUZZ_SCRIPT="+file)
		return
	}
	if seed := os.Getenv("CELLSERVER_FUZZ_SEED"); seed != "" {
		n, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			t.Fatalf("CELLSERVER_FUZZ_SEED: %v", err)
		}
		target.seed(t, n)
		return
	}
	kept, err := filepath.Glob(filepath.Join("testdata", "fuzz", t.Name(), "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range kept {
		t.Run(filepath.Base(file), func(t *testing.T) {
			target.try(t, readScript(t, file), "")
		})
	}
	for n := range target.Fixed {
		target.seed(t, uint64(n))
	}
	most := target.Fresh
	if text := os.Getenv("CELLSERVER_FUZZ_TIME"); text != "" {
		if most, err = time.ParseDuration(text); err != nil {
			t.Fatalf("CELLSERVER_FUZZ_TIME: %v", err)
		}
	}
	n := 0
	for began := time.Now(); time.Since(began) < most; n++ {
		target.seed(t, rand.Uint64())
	}
	t.Logf("%d scripts that are kept, %d of fixed seeds, %d of new ones", len(kept), target.Fixed, n)
}

// readScript returns the lines of a file. Empty ones, and those that begin with #, are left out.
func readScript(t *testing.T, file string) (script []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			script = append(script, line)
		}
	}
	return script
}

func (target *Target) seed(t *testing.T, seed uint64) {
	t.Helper()
	target.try(t, target.Draw(rand.New(rand.NewPCG(seed, 0))), fmt.Sprintf("CELLSERVER_FUZZ_SEED=%d", seed))
}

// try plays a script, and ends the test with the shortest that is found if it fails.
func (target *Target) try(t *testing.T, script []string, how string) {
	t.Helper()
	// What ends the process, as a panic in a goroutine does, leaves the file behind.
	last := filepath.Join(os.TempDir(), fmt.Sprintf("cellserver-fuzz-%d.txt", os.Getpid()))
	if err := os.WriteFile(last, []byte(strings.Join(script, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	err := target.play(script)
	_ = os.Remove(last)
	if err == nil {
		return
	}
	short, shortErr := Shorten(script, err, target.play)
	t.Fatalf("%v\n\nwhich this script shows:\n\n%s\n\nof %d lines before it was made shorter, which failed with:\n%v\n"+
		"to play it again, in this directory: %s go test -count=1 -run '^%s$'", shortErr, strings.Join(short, "\n"), len(script), err, how, t.Name())
}

// play is Play, with a panic as an error.
func (target *Target) play(script []string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return target.Play(script)
}

// Shorten leaves out what can be left out of a script such that it goes on to fail, with an error that begins with the same
// word. It returns the shorter script and how that fails.
func Shorten(script []string, failure error, play func([]string) error) ([]string, error) {
	left := attempts
	for size := len(script) / 2; size > 0; {
		shorter := false
		for from := len(script) - size; from >= 0 && left > 0; from -= size {
			less := append(append([]string{}, script[:from]...), script[from+size:]...)
			left--
			if err := play(less); err != nil && firstWord(err) == firstWord(failure) {
				script, failure, shorter = less, err, true
			}
		}
		if !shorter || size > len(script) {
			size = min(size/2, len(script))
		}
	}
	return script, failure
}

func firstWord(err error) string {
	word, _, _ := strings.Cut(err.Error(), " ")
	return word
}
