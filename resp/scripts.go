package resp

import (
	"bytes"
	"crypto/sha1"
	"sync"
	"sync/atomic"
	"time"

	"cellserver/internal/ratelog"
	"cellserver/resp/command"
	"cellserver/resp/script"
)

// unknownScriptInterval is the least time between two lines of the log about scripts that are not known.
const unknownScriptInterval = time.Minute

// keepWrappers is how many wrappers a server remembers: the latest.
const keepWrappers = 1000

// scripts is what a server knows of scripts beside those that it always knows: the wrappers that clients have sent.
type scripts struct {
	unknown  atomic.Uint64 // scripts that were refused because they are not known
	warnings *ratelog.Warning

	mu       sync.RWMutex
	wrappers map[script.Digest]*wrapper
	order    []script.Digest // a ring: the digests of wrappers in the order in which they came
	next     int             // in order
}

// wrapper is a wrapper whose command this server has.
type wrapper struct {
	*script.Wrapper
	digest script.Digest
	row    *entry // of the command's name; a container if the command has subcommands
}

// program is what a digest stands for: a known script, or a wrapper; neither for a script that is not known.
type program struct {
	known   *script.Script
	wrapper *wrapper
}

func (p program) exists() bool { return p.known != nil || p.wrapper != nil }

// find returns what a digest stands for.
func (s *scripts) find(d script.Digest) (p program) {
	if p.known = script.Find(d); p.known == nil {
		s.mu.RLock()
		p.wrapper = s.wrappers[d]
		s.mu.RUnlock()
	}
	return p
}

// remember adds a wrapper, and forgets the oldest if there are too many.
func (s *scripts) remember(w *wrapper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrappers[w.digest] != nil {
		return
	}
	if s.wrappers == nil {
		s.wrappers = make(map[script.Digest]*wrapper)
	}
	if len(s.order) < keepWrappers {
		s.order = append(s.order, w.digest)
	} else {
		delete(s.wrappers, s.order[s.next])
		s.order[s.next] = w.digest
		s.next = (s.next + 1) % keepWrappers
	}
	s.wrappers[w.digest] = w
}

// flush forgets all wrappers.
func (s *scripts) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrappers, s.order, s.next = nil, nil, 0
}

// count returns how many scripts are known.
func (s *scripts) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.wrappers) + script.Count()
}

// maxKeptText is the most bytes of a text whose digest a session keeps.
const maxKeptText = 4096

// digestOf returns the digest of a text. A client repeats itself, so the digest of the last text is kept.
func (s *session) digestOf(text []byte) script.Digest {
	if len(text) > maxKeptText {
		return sha1.Sum(text)
	}
	if !bytes.Equal(text, s.scriptText) || len(text) == 0 {
		s.scriptText = append(s.scriptText[:0], text...)
		s.scriptDigest = sha1.Sum(text)
	}
	return s.scriptDigest
}

// programOf returns what the text of a script stands for, and remembers it if it is a wrapper.
func (s *session) programOf(text []byte) (program, script.Digest) {
	d := s.digestOf(text)
	p := s.srv.scripts.find(d)
	if p.exists() {
		return p, d
	}
	w, ok := script.ParseWrapper(text)
	if !ok {
		return p, d
	}
	row, ok := s.srv.commands.find([][]byte{w.Command})
	if !ok || row == nil {
		return p, d
	}
	p.wrapper = &wrapper{Wrapper: w, digest: d, row: row}
	s.srv.scripts.remember(p.wrapper)
	return p, d
}

// programAt returns what the words of EVAL or EVALSHA call.
func (s *session) programAt(c *entry, words [][]byte) (p program, d script.Digest) {
	if c.Flags&command.ByText != 0 {
		return s.programOf(words[1])
	}
	if s.lastKnown != nil && string(words[1]) == string(s.lastSHA1[:]) {
		return program{known: s.lastKnown}, s.lastKnown.Digest
	}
	d, ok := script.ParseDigest(words[1])
	if !ok {
		return p, d
	}
	if p = s.srv.scripts.find(d); p.known != nil {
		s.lastKnown = p.known
		copy(s.lastSHA1[:], words[1])
	}
	return p, d
}

// scriptRunsOnLoop reports whether a call of EVAL or EVALSHA takes no time and waits for nothing.
func (s *session) scriptRunsOnLoop(c *entry, words [][]byte) bool {
	if c.Flags&command.ByText != 0 && len(words[1]) > maxKeptText {
		return false
	}
	p, _ := s.programAt(c, words)
	switch {
	case p.known != nil:
		return !p.known.Everything
	case p.wrapper != nil:
		return p.wrapper.row.Flags&command.NonBlocking != 0
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
	return p.known == nil || p.known.Everything
}
