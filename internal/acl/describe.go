package acl

import (
	"encoding/hex"
	"math"
	"strings"
)

// Describe returns the user as ACL LIST and a file have it: the word user, the name, and the rules that make it anew.
func (u *User) Describe() string {
	words := append([]string{"user", u.name}, u.Flags()...)
	for _, hash := range u.Passwords() {
		words = append(words, "#"+hash)
	}
	if u.allKeys || len(u.keys) > 0 {
		words = append(words, u.Keys())
	}
	if !u.allChannels {
		words = append(words, "resetchannels")
	}
	if u.allChannels || len(u.channels) > 0 {
		words = append(words, u.Channels())
	}
	return strings.Join(append(words, u.Commands()), " ")
}

// Flags returns what ACL GETUSER has as flags: on or off, nopass, and what was said about payloads.
func (u *User) Flags() []string {
	flags := []string{"off"}
	if u.on {
		flags[0] = "on"
	}
	if u.noPass {
		flags = append(flags, "nopass")
	}
	switch u.sanitize {
	case sanitizeYes:
		flags = append(flags, "sanitize-payload")
	case sanitizeSkip:
		flags = append(flags, "skip-sanitize-payload")
	}
	return flags
}

// Passwords returns the SHA-256 of each password, in hexadecimal, in the order in which they were added.
func (u *User) Passwords() []string {
	hashes := make([]string, len(u.passwords))
	for i := range u.passwords {
		hashes[i] = hex.EncodeToString(u.passwords[i][:])
	}
	return hashes
}

// Keys returns the rules for keys: "~app:* %R~shared:*". It is empty when no key is allowed.
func (u *User) Keys() string {
	if u.allKeys {
		return "~*"
	}
	rules := make([]string, len(u.keys))
	for i, p := range u.keys {
		switch p.may {
		case reads:
			rules[i] = "%R~" + p.text
		case writes:
			rules[i] = "%W~" + p.text
		default:
			rules[i] = "~" + p.text
		}
	}
	return strings.Join(rules, " ")
}

// Channels returns the rules for channels: "&news:*". It is empty when no channel is allowed.
func (u *User) Channels() string {
	if u.allChannels {
		return "&*"
	}
	rules := make([]string, len(u.channels))
	for i, text := range u.channels {
		rules[i] = "&" + text
	}
	return strings.Join(rules, " ")
}

// Commands returns rules that make the user's set of commands from nothing. They are not those that were given, but
// the ones that Redis 7.0 finds: all or nothing to begin with, then the categories that fit best, then single commands.
// They mean the same as long as the table of commands does: when a category gets another command, so do users who were
// written down with it.
func (u *User) Commands() string {
	rules, sign, other, target := []string{"-@all"}, "+", "-", u.commands
	if u.future { // say what is missing instead of what is there
		rules, sign, other, target = []string{"+@all"}, "-", "+", u.table.empty()
		target.with(u.table.all)
		target.without(u.commands)
	}
	made, left := u.table.empty(), u.table.empty()
	left.with(target)
	for {
		c := u.table.best(left)
		if c == nil {
			break
		}
		rules = append(rules, sign+"@"+c.name)
		made.with(c.grant)
		left.without(c.grant)
	}
	for _, r := range u.table.rows {
		switch wanted := target.has(r.Index); {
		case wanted == made.has(r.Index):
		case wanted:
			rules = append(rules, sign+r.Name)
			made.with(r.grant)
		default:
			rules = append(rules, other+r.Name)
			made.without(r.grant)
		}
	}
	return strings.Join(rules, " ")
}

// best returns the category that has more of its commands in left than not, and the fewest not; of several such, the
// one with the most in it, and of those the first. It returns nil if there is none. One that is taken out of left is
// not found again.
func (t *table) best(left set) *category {
	var best *category
	fewest, most := math.MaxInt, 0
	for i := range t.categories {
		c := &t.categories[i]
		same := left.common(c.members)
		missing := c.size - same
		if same > missing && (missing < fewest || missing == fewest && same > most) {
			best, fewest, most = c, missing, same
		}
	}
	return best
}
