package script

import (
	"bytes"
	"crypto/sha1"
	"sync"
)

// keepWrappers is how many wrappers a Memory keeps: the latest.
const keepWrappers = 1000

// Memory is what a server knows of scripts beside those that are always known: the wrappers that clients have sent. R is a row of
// the command table. The zero Memory has no wrappers. Many goroutines may use it at once.
type Memory[R any] struct {
	mu       sync.RWMutex
	wrappers map[Digest]*Bound[R]
	order    []Digest // a ring: the digests of wrappers in the order in which they came
	next     int      // in order
}

// Bound is a wrapper whose command the server has.
type Bound[R any] struct {
	*Wrapper
	Digest Digest
	Row    R // of the command's name; a container if the command has subcommands
}

// Program is what a digest stands for: a known script, or a wrapper; neither for a script that is not known.
type Program[R any] struct {
	Known   *Script
	Wrapper *Bound[R]
}

// Exists reports whether there is such a script.
func (p Program[R]) Exists() bool { return p.Known != nil || p.Wrapper != nil }

// Find returns what a digest stands for.
func (m *Memory[R]) Find(d Digest) (p Program[R]) {
	if p.Known = Find(d); p.Known == nil {
		m.mu.RLock()
		p.Wrapper = m.wrappers[d]
		m.mu.RUnlock()
	}
	return p
}

// Learn returns what a text with digest d stands for, and remembers it if it is a wrapper. row returns the row of a command, or
// false if there is none.
func (m *Memory[R]) Learn(d Digest, text []byte, row func(command []byte) (R, bool)) Program[R] {
	p := m.Find(d)
	if p.Exists() {
		return p
	}
	w, ok := ParseWrapper(text)
	if !ok {
		return p
	}
	of, ok := row(w.Command)
	if !ok {
		return p
	}
	p.Wrapper = &Bound[R]{Wrapper: w, Digest: d, Row: of}
	m.remember(p.Wrapper)
	return p
}

// remember adds a wrapper, and forgets the oldest if there are too many.
func (m *Memory[R]) remember(w *Bound[R]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wrappers[w.Digest] != nil {
		return
	}
	if m.wrappers == nil {
		m.wrappers = make(map[Digest]*Bound[R])
	}
	if len(m.order) < keepWrappers {
		m.order = append(m.order, w.Digest)
	} else {
		delete(m.wrappers, m.order[m.next])
		m.order[m.next] = w.Digest
		m.next = (m.next + 1) % keepWrappers
	}
	m.wrappers[w.Digest] = w
}

// Flush forgets all wrappers.
func (m *Memory[R]) Flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrappers, m.order, m.next = nil, nil, 0
}

// Count returns how many scripts are known.
func (m *Memory[R]) Count() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.wrappers) + Count()
}

// MaxKeptText is the most bytes of a text whose digest a Text keeps.
const MaxKeptText = 4096

// Text keeps the digest of the text that a client sent last, because a client repeats itself.
type Text struct {
	text   []byte
	digest Digest
}

// DigestOf returns the digest of a text.
func (t *Text) DigestOf(text []byte) Digest {
	if len(text) > MaxKeptText {
		return sha1.Sum(text)
	}
	if !bytes.Equal(text, t.text) || len(text) == 0 {
		t.text = append(t.text[:0], text...)
		t.digest = sha1.Sum(text)
	}
	return t.digest
}
