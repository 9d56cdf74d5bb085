package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Error is a constant error, in Redis's words where Redis has them.
type Error string

// Error returns the words.
func (e Error) Error() string { return string(e) }

// Errors of names, and of numbers of bits.
const (
	ErrName    Error = "Usernames can't contain spaces or null characters"
	ErrDefault Error = "The 'default' user cannot be removed"
	ErrGenPass Error = "ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096"
)

// Errors of rules.
const (
	ErrSyntax  Error = "Syntax error"
	ErrUnknown Error = "Unknown command or category name in ACL"
	ErrAllKeys Error = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any " +
		"effect. Try 'resetkeys' to start with an empty list of patterns"
	ErrAllChannels Error = "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not " +
		"have any effect. Try 'resetchannels' to start with an empty list of channels"
	ErrNoPassword Error = "The password you are trying to remove from the user does not exist"
	ErrHash       Error = "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
	ErrSubArg     Error = "Allowing first-arg of a subcommand is not supported"

	// Errors of rules that Redis supports and this package does not.
	ErrFirstArg  Error = "Allowing first-arg of a command is not supported"
	ErrSelectors Error = "Selectors are not supported"
)

// RuleError is a rule that is wrong.
type RuleError struct {
	Rule string
	Err  Error
}

// Error returns the text of Redis. It contains the rule, which may contain a password.
func (e *RuleError) Error() string {
	rule, _, _ := strings.Cut(e.Rule, "\x00") // where a string of C ends
	return "Error in ACL SETUSER modifier '" + rule + "': " + string(e.Err)
}

// Unwrap returns what is wrong with the rule.
func (e *RuleError) Unwrap() error { return e.Err }

// digest is the SHA-256 of a password.
type digest = [sha256.Size]byte

// access says what a pattern allows to do with keys.
type access uint8

const (
	reads access = 1 << iota
	writes
)

// draft is a user that is being changed.
type draft struct {
	table       *table
	on          bool
	noPass      bool
	sanitize    sanitize
	passwords   ordered[digest, struct{}]
	allKeys     bool
	keys        ordered[string, access]
	allChannels bool
	channels    ordered[string, struct{}]
	commands    set
	future      bool                    // the rules begin with +@all, which includes commands of later versions
	rules       ordered[string, string] // the sign by the name: of commands, and of categories with the @
}

func newDraft(t *table) *draft { return &draft{table: t, commands: t.empty()} }

// longestWord is the length of the longest rule that is a fixed word.
const longestWord = len("skip-sanitize-payload")

// apply applies one rule. If the rule is wrong it returns why, and changes nothing.
func (d *draft) apply(rule string) Error {
	if rule == "" {
		return ""
	}
	if len(rule) <= longestWord && d.word(lower(rule)) {
		return ""
	}
	switch rule[0] {
	case '>', '<', '#', '!':
		return d.password(rule[0], rule[1:])
	case '~', '%':
		return d.key(rule)
	case '&':
		return d.channel(rule[1:])
	case '+', '-':
		return d.command(rule[0] == '+', lower(rule[1:]))
	case '(':
		return ErrSelectors
	}
	if lower(rule) == "clearselectors" {
		return "" // there are none
	}
	return ErrSyntax
}

// word applies a rule that is a fixed word, and reports whether it is one.
func (d *draft) word(rule string) bool {
	switch rule {
	case "on":
		d.on = true
	case "off":
		d.on = false
	case "nopass":
		d.noPass = true
		d.passwords.clear()
	case "resetpass":
		d.noPass = false
		d.passwords.clear()
	case "sanitize-payload":
		d.sanitize = sanitizeYes
	case "skip-sanitize-payload":
		d.sanitize = sanitizeSkip
	case "allkeys", "~*":
		d.allKeys = true
		d.keys.clear()
	case "resetkeys":
		d.allKeys = false
		d.keys.clear()
	case "allchannels", "&*":
		d.allChannels = true
		d.channels.clear()
	case "resetchannels":
		d.allChannels = false
		d.channels.clear()
	case "allcommands", "+@all":
		d.commands.with(d.table.all)
		d.future = true
		d.rules.clear()
	case "nocommands", "-@all":
		clear(d.commands)
		d.future = false
		d.rules.clear()
	case "reset":
		*d = *newDraft(d.table)
		d.sanitize = sanitizeYes
	default:
		return false
	}
	return true
}

// password applies > and <, which a password follows, or # and !, which its digest follows in hexadecimal.
func (d *draft) password(op byte, text string) Error {
	var sum digest
	if op == '>' || op == '<' {
		sum = sha256.Sum256([]byte(text))
	} else {
		if len(text) != hex.EncodedLen(len(sum)) || lower(text) != text {
			return ErrHash
		}
		if _, err := hex.Decode(sum[:], []byte(text)); err != nil {
			return ErrHash
		}
	}
	if op == '>' || op == '#' {
		d.passwords.put(sum, struct{}{})
		d.noPass = false
		return ""
	}
	if !d.passwords.remove(sum) {
		return ErrNoPassword
	}
	return ""
}

// key applies ~pattern, %R~pattern, %W~pattern and %RW~pattern. Like Redis it takes %R without a pattern for an empty
// pattern.
func (d *draft) key(rule string) Error {
	if d.allKeys {
		return ErrAllKeys
	}
	may, pattern := reads|writes, rule[1:]
	if rule[0] == '%' {
		flags, rest, _ := strings.Cut(pattern, "~")
		may, pattern = 0, rest
		for i := range len(flags) {
			var one access
			switch flags[i] {
			case 'r', 'R':
				one = reads
			case 'w', 'W':
				one = writes
			}
			if one == 0 || may&one != 0 {
				return ErrSyntax
			}
			may |= one
		}
		if may == 0 {
			return ErrSyntax
		}
	}
	if hasSpaces(pattern) {
		return ErrSyntax
	}
	if had := d.keys.find(pattern); had != nil {
		may |= *had
	}
	if pattern == "*" && may == reads|writes {
		// Redis keeps it among the others, which its description of the user then has behind ~*, where they are an error.
		d.word("allkeys")
		return ""
	}
	d.keys.put(pattern, may)
	return ""
}

func (d *draft) channel(pattern string) Error {
	if d.allChannels {
		return ErrAllChannels
	}
	if hasSpaces(pattern) {
		return ErrSyntax
	}
	d.channels.put(pattern, struct{}{})
	return ""
}

// command applies + and - with a command or an @category. The rule replaces earlier ones that it overrides: the one of
// the same name, and those of the subcommands of a container.
func (d *draft) command(allow bool, name string) Error {
	grant, err := d.table.grantOf(allow, name)
	if err != "" {
		return err
	}
	sign := "-"
	if allow {
		sign = "+"
		d.commands.with(grant)
	} else {
		d.commands.without(grant)
	}
	d.rules.remove(name)
	for _, sub := range d.table.subs[name] {
		d.rules.remove(sub)
	}
	d.rules.put(name, sign)
	return ""
}

// grantOf returns the commands that a rule changes: none for a command that only Redis has.
func (t *table) grantOf(allow bool, name string) (set, Error) {
	if category, is := strings.CutPrefix(name, "@"); is {
		if i, known := t.byCategory[category]; known {
			return t.categories[i].grant, ""
		}
		return nil, ErrUnknown
	}
	if i, known := t.byName[name]; known {
		return t.rows[i].grant, ""
	}
	if t.elsewhere[name] {
		return nil, ""
	}
	last := strings.LastIndexByte(name, '|')
	if !allow || last < 0 {
		return nil, ErrUnknown
	}
	command := name[:last]
	switch {
	case !t.knows(command):
		return nil, ErrUnknown
	case strings.Contains(command, "|"):
		return nil, ErrSubArg
	case last == len(name)-1:
		return nil, ErrSyntax
	case len(t.subs[command]) > 0:
		return nil, ErrUnknown
	}
	return nil, ErrFirstArg
}

// hasSpaces reports whether s has a byte that a file could not represent: a space as in C's isspace, or a zero byte.
func hasSpaces(s string) bool { return strings.ContainsAny(s, " \t\n\v\f\r\x00") }
