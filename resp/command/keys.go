package command

import "strings"

// Keys says which words of a command are keys: every Step-th from First to Last, where a negative Last counts from the
// end. A zero First means none.
type Keys struct{ First, Last, Step int }

var (
	oneKey  = Keys{1, 1, 1}
	twoKeys = Keys{1, 2, 1}
	allKeys = Keys{1, -1, 1}
	subKey  = Keys{2, 2, 1}
)

// appendTo appends the keys among words.
func (k Keys) appendTo(found, words [][]byte) [][]byte {
	if k.First == 0 {
		return found
	}
	last := k.Last
	if last < 0 {
		last += len(words)
	}
	for i := k.First; i <= last && i < len(words); i += k.Step {
		found = append(found, words[i])
	}
	return found
}

// AppendKeys appends the keys among the words of a command.
func (c *Row) AppendKeys(found, words [][]byte) [][]byte {
	if c.Find != nil {
		return append(found, c.Find(words)...)
	}
	return c.Keys.appendTo(found, words)
}

// UseIn returns what the command does with the nth of its keys in words.
func (c *Row) UseIn(words [][]byte, n int) string {
	if c.UseOf != nil {
		return c.UseOf(words)
	}
	return c.Use(n)
}

// NeedIn returns the rights that the command needs on the nth of its keys in words. It does not allocate.
func (c *Row) NeedIn(words [][]byte, n int) Need {
	if c.UseOf != nil {
		return needsOf(c.UseOf(words))
	}
	return c.Needs[min(n, len(c.Needs)-1)]
}

// Use returns what the command may do with the nth of its keys.
func (c *Row) Use(n int) string {
	switch {
	case len(c.Uses) > 0:
		return c.Uses[min(n, len(c.Uses)-1)]
	case c.Flags&Write != 0:
		return "RW access update"
	}
	return "RO access"
}

// Need is the rights that a user needs on a key.
type Need struct{ Reads, Writes bool }

// needsOf returns what a use of a key needs, as in Redis: to read takes the right to what is accessed, to write the right to
// whatever is changed. What only looks whether a key exists and of what kind needs either.
func needsOf(use string) Need {
	var n Need
	for word := range strings.FieldsSeq(use) {
		switch word {
		case "access":
			n.Reads = true
		case "delete", "insert", "update":
			n.Writes = true
		}
	}
	return n
}
