package resp

import (
	"sync/atomic"
	"time"

	"cellserver/internal/ratelog"
	"cellserver/resp/command"
	"cellserver/resp/script"
)

// unknownScriptInterval is the least time between two lines of the log about scripts that are not known.
const unknownScriptInterval = time.Minute

// scripts is what a server knows of scripts, and how many it has refused.
type scripts struct {
	script.Memory[*entry]
	unknown  atomic.Uint64 // scripts that were refused because they are not known
	warnings *ratelog.Warning
}

// program is what a digest stands for.
type program = script.Program[*entry]

// programOf returns what the text of a script stands for, and remembers it if it is a wrapper.
func (s *session) programOf(text []byte) (program, script.Digest) {
	d := s.scriptText.DigestOf(text)
	return s.srv.scripts.Learn(d, text, s.srv.commands.named), d
}

// programAt returns what the words of EVAL or EVALSHA call.
func (s *session) programAt(c *entry, words [][]byte) (p program, d script.Digest) {
	if c.Flags&command.ByText != 0 {
		return s.programOf(words[1])
	}
	if s.lastKnown != nil && string(words[1]) == string(s.lastSHA1[:]) {
		return program{Known: s.lastKnown}, s.lastKnown.Digest
	}
	d, ok := script.ParseDigest(words[1])
	if !ok {
		return p, d
	}
	if p = s.srv.scripts.Find(d); p.Known != nil {
		s.lastKnown = p.Known
		copy(s.lastSHA1[:], words[1])
	}
	return p, d
}

// scriptRunsOnLoop reports whether a call of EVAL or EVALSHA takes no time and waits for nothing.
func (s *session) scriptRunsOnLoop(c *entry, words [][]byte) bool {
	if c.Flags&command.ByText != 0 && len(words[1]) > script.MaxKeptText {
		return false
	}
	p, _ := s.programAt(c, words)
	switch {
	case p.Known != nil:
		return !p.Known.Everything
	case p.Wrapper != nil:
		return p.Wrapper.Row.Flags&command.NonBlocking != 0
	}
	return true // it is refused
}

// needsEverything reports whether a command of a transaction may need keys that it does not name.
func (s *session) needsEverything(c *entry, words [][]byte) bool {
	if c.Flags&command.Scripts == 0 {
		return c.Flags&command.Keyspace != 0
	}
	// A wrapper may name keys in its arguments, and one that is not known yet may be when the transaction comes to it.
	p, _ := s.programAt(c, words)
	return p.Known == nil || p.Known.Everything
}
