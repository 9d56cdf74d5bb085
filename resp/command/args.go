package command

import "strings"

// Arg describes an argument for COMMAND DOCS and for the syntax that people read.
type Arg struct {
	Name     string
	Kind     ArgKind
	Token    string // the word in front of it, or the word itself
	Optional bool
	Multiple bool
	Args     []Arg // of a block or a choice
}

// ArgKind is the type of an argument, as COMMAND DOCS tells it.
type ArgKind string

// The types of arguments, by the names that COMMAND DOCS has for them.
const (
	ArgKey     ArgKind = "key"
	ArgString  ArgKind = "string"
	ArgInteger ArgKind = "integer"
	ArgDouble  ArgKind = "double"
	ArgPattern ArgKind = "pattern"
	ArgUnix    ArgKind = "unix-time"
	ArgToken   ArgKind = "pure-token"
	ArgBlock   ArgKind = "block"
	ArgOneOf   ArgKind = "oneof"
)

// token returns an optional argument that is a fixed word.
func token(word string) Arg {
	return Arg{Name: strings.ToLower(word), Kind: ArgToken, Token: word, Optional: true}
}

// Syntax returns the command and its arguments as documentation writes them.
func (c *Row) Syntax() string {
	var b strings.Builder
	b.WriteString(strings.ToUpper(c.Words()))
	for _, a := range c.Args {
		b.WriteByte(' ')
		a.write(&b)
	}
	return b.String()
}

func (a Arg) write(b *strings.Builder) {
	if a.Optional {
		b.WriteByte('[')
	}
	one := a.Name
	switch a.Kind {
	case ArgToken:
		one = a.Token
	case ArgBlock, ArgOneOf:
		between := " "
		if a.Kind == ArgOneOf {
			between = " | "
		}
		var inner strings.Builder
		for i, part := range a.Args {
			if i > 0 {
				inner.WriteString(between)
			}
			if a.Kind == ArgOneOf {
				part.Optional = false
			}
			part.write(&inner)
		}
		one = inner.String()
		if a.Kind == ArgOneOf && (!a.Optional || a.Token != "") {
			one = "<" + one + ">"
		}
	}
	if a.Token != "" && a.Kind != ArgToken {
		b.WriteString(a.Token + " ")
	}
	b.WriteString(one)
	if a.Multiple {
		b.WriteString(" [" + one + " ...]")
	}
	if a.Optional {
		b.WriteByte(']')
	}
}
