// Package script knows scripts that limiters send to Redis, by the SHA-1 of their texts, and does what they do without running
// them: each is a function over the states of the keys that it names. It also recognises scripts that are one call of a command.
//
// It holds no texts. Where a line of a text is named, that is because Redis names it in errors.
package script

import (
	"encoding/hex"
	"fmt"
	"slices"

	"cellserver/buckets"
	"cellserver/resp/frame"
)

// Digest is the SHA-1 of the text of a script.
type Digest [20]byte

// ParseDigest reads 40 hexadecimal digits in either case.
func ParseDigest(b []byte) (d Digest, ok bool) {
	if len(b) != 2*len(d) {
		return d, false
	}
	for i := range d {
		high, low := nibble(b[2*i]), nibble(b[2*i+1])
		if high|low > 0x0f {
			return d, false
		}
		d[i] = high<<4 | low
	}
	return d, true
}

func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 0xff
}

// String returns the digest in lower case.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Script is a known script.
type Script struct {
	Digest   Digest
	Library  string // whose script it is
	Versions string // which versions of the library send it
	Name     string // what the library does with it
	Does     string // what it computes
	Flaws    string // what is kept of it though one would not write it so; "" if there is nothing
	Keys     int    // how many keys it uses; others that are named are ignored

	// Everything says that the script deletes all keys that match the pattern KEYS[1]. It has no function of states.
	Everything bool

	run func(c *call)
}

// Known returns the known scripts, in the order of the documentation.
func Known() []Script { return slices.Clone(known) }

// Count returns how many scripts are known.
func Count() int { return len(known) }

// Find returns the known script with a digest, or nil.
func Find(d Digest) *Script { return byDigest[d] }

var byDigest = make(map[Digest]*Script, len(known))

func init() {
	for i := range known {
		s := &known[i]
		if byDigest[s.Digest] != nil || s.Keys > maxKeys {
			panic("script: the table of known scripts is wrong at " + s.Digest.String())
		}
		byDigest[s.Digest] = s
	}
}

// Run is one run of a known script. It implements buckets.Selective, and can be used again with Begin.
type Run struct {
	ReadOnly bool   // commands of the script that write are refused
	Refusal  string // the error of the commands that write; "" if they may

	// Changed reports whether the run has changed a key.
	Changed bool

	script *Script
	keys   [maxKeys][]byte
	n      int
	call   call
}

// Begin prepares a run of s. It keeps keys and args until End.
func (r *Run) Begin(s *Script, keys, args [][]byte) {
	r.script, r.call.args, r.n, r.Changed = s, args, 0, false
	for i := range r.call.places {
		r.call.places[i] = -1
		if i >= s.Keys || i >= len(keys) {
			continue
		}
		if i > 0 && string(keys[i]) == string(keys[0]) {
			r.call.places[i] = 0
			continue
		}
		r.call.places[i] = int8(r.n)
		r.keys[r.n] = keys[i]
		r.n++
	}
}

// Keys returns the keys whose states Update is to be given, each once.
func (r *Run) Keys() [][]byte { return r.keys[:r.n] }

// Update implements buckets.Updater. It returns no error: what ends a script is its reply, and what it wrote before stays.
func (r *Run) Update(now int64, states []buckets.State) (changed bool, err error) {
	c := &r.call
	c.now, c.states, c.readOnly, c.refusal = now, states, r.ReadOnly, r.Refusal
	c.line, c.fault, c.plain, c.changed, c.n, c.room = 0, "", false, 0, 0, c.room[:0]
	r.script.run(c)
	r.Changed, c.states = c.changed != 0, nil
	return r.Changed, nil
}

// Changes implements buckets.Selective.
func (r *Run) Changes(i int) bool { return r.call.changed&(1<<i) != 0 }

// AppendReply appends the reply to the run.
func (r *Run) AppendReply(out *frame.Reply) {
	c := &r.call
	switch {
	case c.plain:
		out.Error(c.fault)
	case c.fault != "":
		out.Error(c.fault + Place(r.script.Digest, c.line))
	case c.single:
		appendValue(out, c.reply[0])
	default:
		n := 0
		for n < c.n && c.reply[n].kind != isNil { // as Redis counts a table, nil ends it
			n++
		}
		out.Array(n)
		for _, v := range c.reply[:n] {
			appendValue(out, v)
		}
	}
}

// End forgets the words that Begin has been given.
func (r *Run) End() { r.keys, r.call.args, r.n = [maxKeys][]byte{}, nil, 0 }

// appendValue appends what Redis replies for a value.
func appendValue(out *frame.Reply, v value) {
	switch v.kind {
	case isNumber:
		out.Int(truncated(v.number))
	case isText:
		out.Bulk(v.text)
	case isStatus:
		out.Status(string(v.text))
	case isTrue:
		out.Int(1)
	default:
		out.Null()
	}
}

// Place is what Redis appends to an error that ends a script.
func Place(d Digest, line int) string { return fmt.Sprintf(errorPlace, d, line) }
