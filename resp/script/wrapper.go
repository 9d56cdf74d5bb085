package script

import (
	"bytes"
	"strconv"

	"cellserver/buckets"
)

// A wrapper is a script that is one call of a command, as clients write it that can send a command only by EVAL:
//
//	return redis.call('cl.throttle', KEYS[1], ARGV[1], ARGV[2], ARGV[3])
//
// The form, in which white space and comments that end with the line may stand between any two words:
//
//	wrapper  = "return" ( reply | "{" reply "}" ) [ ";" ]
//	reply    = "redis" "." ( "call" | "pcall" ) "(" string { "," argument } ")" [ "[" digits "]" ]
//	argument = ( "KEYS" | "ARGV" ) "[" digits "]" | string | [ "-" ] number
//	string   = in single or double quotes, with the escapes of Lua 5.1
//
// Anything else is no wrapper, even if Lua takes it: long brackets, calls without parentheses, server.call, a second statement.

// source says where an argument of a wrapper comes from.
type source uint8

const (
	fromText source = iota // of the script
	fromKeys               // KEYS[n]
	fromArgs               // ARGV[n]
)

type argument struct {
	from source
	n    int    // of KEYS or ARGV, from 1
	text []byte // of a string or a number
}

// Wrapper is a script that is one call of a command.
type Wrapper struct {
	Command   []byte // the name of the command, as it is written
	Protected bool   // redis.pcall: an error is the reply, and ends nothing
	Line      int    // on which the call is

	args      []argument // the words of the command behind its name
	indexed   bool       // [index] stands behind the call
	index     int
	indexLine int
	braced    bool // the reply is put into an array
}

// maxWrapper is the most bytes that the text of a wrapper may have, and maxArguments the most arguments of its call: nobody writes so
// much by hand, and Lua has no registers for more than some 250.
const (
	maxWrapper   = 4096
	maxArguments = 200
)

// ParseWrapper reads the text of a wrapper, or reports that it is none.
func ParseWrapper(text []byte) (*Wrapper, bool) {
	if len(text) > maxWrapper {
		return nil, false
	}
	p := parser{text: bytes.Clone(text), line: 1, ok: true}
	w := new(Wrapper)
	p.word("return")
	w.braced = p.accept('{')
	p.word("redis")
	p.expect('.')
	if !p.acceptWord("call") {
		p.word("pcall")
		w.Protected = true
	}
	p.space()
	w.Line = p.line
	if p.expect('('); p.callEnds != p.line {
		return nil, false // Lua finds a call ambiguous whose parenthesis is on another line
	}
	w.Command = p.quoted()
	for p.accept(',') && len(w.args) <= maxArguments {
		w.args = append(w.args, p.argument())
	}
	p.expect(')')
	if p.accept('[') {
		w.indexed, w.index = true, p.digits()
		p.expect(']')
		w.indexLine = p.line
	}
	if w.braced {
		p.expect('}')
		w.indexLine = p.line // the table is made when it is closed
	}
	p.accept(';')
	p.space()
	return w, p.ok && len(p.text) == 0
}

// Words appends the words of the command. It reports false if one of them is a key or an argument that the client has not given.
func (w *Wrapper) Words(dst, keys, args [][]byte) ([][]byte, bool) {
	dst = append(dst, w.Command)
	for i := range w.args {
		a := &w.args[i]
		from := args
		switch a.from {
		case fromText:
			dst = append(dst, a.text)
			continue
		case fromKeys:
			from = keys
		}
		if a.n < 1 || a.n > len(from) {
			return dst, false
		}
		dst = append(dst, from[a.n-1])
	}
	return dst, true
}

// parser reads the words of a script. After a fault it reads nothing more.
type parser struct {
	text     []byte
	line     int
	callEnds int // the line of the last word
	ok       bool
}

func (p *parser) fail() { p.ok, p.text = false, nil }

// space skips white space and comments.
func (p *parser) space() {
	for len(p.text) > 0 {
		switch c := p.text[0]; {
		case c == '\n' || c == '\r':
			p.newline()
		case c == ' ' || '\t' <= c && c <= '\r':
			p.text = p.text[1:]
		case bytes.HasPrefix(p.text, []byte("--")):
			if bytes.HasPrefix(p.text, []byte("--[")) { // may be one of several lines
				p.fail()
				return
			}
			end := bytes.IndexAny(p.text, "\r\n")
			if end < 0 {
				end = len(p.text)
			}
			p.text = p.text[end:]
		default:
			return
		}
	}
}

// newline skips the end of a line: as in Lua, \r\n and \n\r are one.
func (p *parser) newline() {
	n := 1
	if len(p.text) > 1 && (p.text[1] == '\n' || p.text[1] == '\r') && p.text[1] != p.text[0] {
		n = 2
	}
	p.text = p.text[n:]
	p.line++
}

// accept skips a mark if it comes next.
func (p *parser) accept(mark byte) bool {
	p.space()
	if len(p.text) == 0 || p.text[0] != mark {
		return false
	}
	p.text = p.text[1:]
	return true
}

func (p *parser) expect(mark byte) {
	if !p.accept(mark) {
		p.fail()
	}
}

// acceptWord skips a name if it comes next.
func (p *parser) acceptWord(word string) bool {
	p.space()
	if !bytes.HasPrefix(p.text, []byte(word)) || len(p.text) > len(word) && isAlphanumeric(p.text[len(word)]) {
		return false
	}
	p.text = p.text[len(word):]
	p.callEnds = p.line
	return true
}

func (p *parser) word(word string) {
	if !p.acceptWord(word) {
		p.fail()
	}
}

// digits reads the index of a table.
func (p *parser) digits() int {
	p.space()
	n := 0
	for n < len(p.text) && '0' <= p.text[n] && p.text[n] <= '9' {
		n++
	}
	i, err := strconv.Atoi(string(p.text[:n]))
	if err != nil || n < len(p.text) && (isAlphanumeric(p.text[n]) || p.text[n] == '.') {
		p.fail()
		return 0
	}
	p.text = p.text[n:]
	return i
}

func (p *parser) argument() (a argument) {
	switch {
	case p.acceptWord("KEYS"):
		a.from = fromKeys
	case p.acceptWord("ARGV"):
		a.from = fromArgs
	case len(p.text) > 0 && (p.text[0] == '"' || p.text[0] == '\''):
		a.text = p.quoted()
		return a
	default:
		a.text = p.number()
		return a
	}
	p.expect('[')
	a.n = p.digits()
	p.expect(']')
	return a
}

// number reads a number, and returns the text that a command gets for it.
func (p *parser) number() []byte {
	negative := p.accept('-')
	p.space()
	n := numeral(p.text)
	f, ok := parseNumber(p.text[:n])
	if n == 0 || !ok {
		p.fail()
		return nil
	}
	p.text = p.text[n:]
	if negative && f == 0 {
		p.fail() // whether Lua makes 0 or -0 of it depends on the other numbers of the script
	}
	if negative {
		f = -f
	}
	return buckets.AppendFloat(nil, f)
}

// numeral returns how many bytes at the beginning of b Lua takes for a number, before it looks whether they are one: digits and points,
// an exponent with its sign, and what could be the rest of a name. It is 0 if b begins with no number.
func numeral(b []byte) (n int) {
	isDigit := func(i int) bool { return i < len(b) && '0' <= b[i] && b[i] <= '9' }
	isPoint := func(i int) bool { return i < len(b) && b[i] == '.' }
	if !isDigit(0) && (!isPoint(0) || !isDigit(1)) {
		return 0
	}
	for isDigit(n) || isPoint(n) {
		n++
	}
	if n < len(b) && b[n]|0x20 == 'e' {
		if n++; n < len(b) && (b[n] == '+' || b[n] == '-') {
			n++
		}
	}
	for n < len(b) && isAlphanumeric(b[n]) {
		n++
	}
	return n
}

// quoted reads a string, and returns what it stands for.
func (p *parser) quoted() []byte {
	p.space()
	if len(p.text) == 0 || p.text[0] != '"' && p.text[0] != '\'' {
		p.fail()
		return nil
	}
	quote := p.text[0]
	b := []byte{}
	for p.text = p.text[1:]; len(p.text) > 0; {
		c := p.text[0]
		switch c {
		case quote:
			p.text = p.text[1:]
			return b
		case '\n', '\r':
			p.fail()
		case '\\':
			p.text = p.text[1:]
			b = p.escape(b)
		default:
			b, p.text = append(b, c), p.text[1:]
		}
	}
	p.fail()
	return nil
}

// escape appends what stands behind a backslash: a letter for a control character, the end of a line for itself, up to three decimal
// digits for a byte, and anything else for itself.
func (p *parser) escape(b []byte) []byte {
	if len(p.text) == 0 {
		p.fail()
		return b
	}
	c := p.text[0]
	if i := bytes.IndexByte([]byte("abfnrtv"), c); i >= 0 {
		p.text = p.text[1:]
		return append(b, "\a\b\f\n\r\t\v"[i])
	}
	if c == '\n' || c == '\r' {
		p.newline()
		return append(b, '\n')
	}
	if c < '0' || c > '9' {
		p.text = p.text[1:]
		return append(b, c)
	}
	n, code := 0, 0
	for n < 3 && n < len(p.text) && '0' <= p.text[n] && p.text[n] <= '9' {
		code = code*10 + int(p.text[n]-'0')
		n++
	}
	if code > 255 {
		p.fail()
		return b
	}
	p.text = p.text[n:]
	return append(b, byte(code))
}
