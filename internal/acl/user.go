package acl

import (
	"sync/atomic"

	"cellserver/internal/glob"
)

// sanitize is what was said about RESTORE, which this server does not have. It is kept to be shown.
type sanitize uint8

const (
	sanitizeUnsaid sanitize = iota
	sanitizeYes
	sanitizeSkip
)

// keyPattern is a pattern of keys, and what may be done with those that match.
type keyPattern struct {
	text string
	may  access
}

// User is a user with the rules of one moment. It does not change, and many goroutines may use it at once.
type User struct {
	name        string
	identity    *identity
	table       *table
	on          bool
	noPass      bool
	sanitize    sanitize
	passwords   []digest
	allKeys     bool
	keys        []keyPattern
	allChannels bool
	channels    []string
	commands    set // as the rules have it
	future      bool
	rules       []string // for commands, since the last that was for all of them
	allowed     set      // commands, and what is always allowed

	unrestricted bool // everything on every key
}

// identity is what stays of a user while its rules change. A user that is deleted and made anew has another one.
type identity struct {
	now atomic.Pointer[User] // nil when deleted
}

// Name returns the user's name.
func (u *User) Name() string { return u.name }

// Enabled reports whether the user may authenticate: whether it is on.
func (u *User) Enabled() bool { return u.on }

// NoPass reports whether any password will do.
func (u *User) NoPass() bool { return u.noPass }

// Current returns the user with the rules that are in force now, and whether its sessions may go on: a user that has
// been deleted, or switched off, has none. It costs one atomic load.
func (u *User) Current() (now *User, alive bool) {
	now = u.identity.now.Load()
	if now == nil {
		return u, false
	}
	return now, now.on
}

// Allows reports whether the user may run the command with an index, whatever its keys. An index that no command has
// is not allowed. For a subcommand its own index is asked for, not that of its container.
func (u *User) Allows(command int) bool { return u.allowed.has(command) }

// Unrestricted reports whether the user may run every command on every key.
func (u *User) Unrestricted() bool { return u.unrestricted }

// AllowsKey reports whether the user may use a key in a command that reads it, writes it, or both. One pattern has to
// allow all of it. For a command that does neither, any pattern will do that matches.
//
// It takes at most as many steps as the key is long, times the length of all patterns: long keys should be refused
// before they are asked for.
func (u *User) AllowsKey(key []byte, read, write bool) bool {
	if u.allKeys {
		return true
	}
	var need access
	if read {
		need |= reads
	}
	if write {
		need |= writes
	}
	for i := range u.keys {
		if p := &u.keys[i]; p.may&need == need && glob.Match(p.text, key) {
			return true
		}
	}
	return false
}

// draft returns the user for changing.
func (u *User) draft() *draft {
	d := newDraft(u.table)
	d.on, d.noPass, d.sanitize = u.on, u.noPass, u.sanitize
	d.allKeys, d.allChannels, d.future = u.allKeys, u.allChannels, u.future
	d.commands.with(u.commands)
	for _, sum := range u.passwords {
		d.passwords.put(sum, struct{}{})
	}
	for _, p := range u.keys {
		d.keys.put(p.text, p.may)
	}
	for _, c := range u.channels {
		d.channels.put(c, struct{}{})
	}
	for _, rule := range u.rules {
		d.rules.put(rule[1:], rule[:1])
	}
	return d
}

// user returns what was drafted, which must not be changed any more.
func (d *draft) user(name string, id *identity) *User {
	u := &User{
		name: name, identity: id, table: d.table,
		on: d.on, noPass: d.noPass, sanitize: d.sanitize,
		allKeys: d.allKeys, allChannels: d.allChannels,
		commands: d.commands, future: d.future, allowed: d.table.empty(),
	}
	u.allowed.with(d.commands)
	u.allowed.with(d.table.always)
	u.unrestricted = u.allKeys && u.allowed.covers(d.table.all)
	d.passwords.each(func(sum digest, _ struct{}) { u.passwords = append(u.passwords, sum) })
	d.keys.each(func(text string, may access) { u.keys = append(u.keys, keyPattern{text, may}) })
	d.channels.each(func(text string, _ struct{}) { u.channels = append(u.channels, text) })
	d.rules.each(func(name, sign string) { u.rules = append(u.rules, sign+name) })
	return u
}
