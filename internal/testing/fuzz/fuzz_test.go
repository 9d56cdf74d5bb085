package fuzz_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/internal/testing/fuzz"
)

// What is left are the lines that the failure needs, wherever they stand.
func TestShorten(t *testing.T) {
	var script []string
	for n := range 100 {
		script = append(script, fmt.Sprint(n))
	}
	for _, needed := range [][]string{{"0"}, {"99"}, {"0", "99"}, {"3", "50", "51", "97"}, {}} {
		plays := 0
		play := func(script []string) error {
			plays++
			for _, line := range needed {
				if !slices.Contains(script, line) {
					return nil
				}
			}
			if len(script) == 2 && script[0] == "3" {
				return errors.New("another failure")
			}
			return errors.New("fails")
		}
		short, err := fuzz.Shorten(script, errors.New("fails at first"), play)
		assert.Equal(t, needed, append([]string{}, short...))
		assert.EqualError(t, err, "fails")
		assert.Less(t, plays, 1000)
	}
}
