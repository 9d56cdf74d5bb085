package acl

import (
	"encoding/hex"
	"strings"
)

// Describe returns the line of the user in ACL LIST and in a file: the word user, the name, and the rules that make the
// same user.
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

// Flags returns the flags of ACL GETUSER: on or off, nopass, and the rule about payloads.
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

// Keys returns the rules for keys, such as "~app:* %R~shared:*", or "" if no key is allowed.
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

// Channels returns the rules for channels, such as "&news:*", or "" if no channel is allowed.
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

// Commands returns the rules for commands: +@all or -@all, and then the rules that were given since, in their order,
// without those that later rules override. Like Redis since 7.2 it returns rules and not the commands that they allow:
// rules may name commands that only Redis has, and a category may have other commands in a later version.
func (u *User) Commands() string {
	base := "-@all"
	if u.future {
		base = "+@all"
	}
	return strings.Join(append([]string{base}, u.rules...), " ")
}
