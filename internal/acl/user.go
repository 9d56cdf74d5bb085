package acl

import (
	"sync/atomic"

	"cellserver/internal/glob"
)

// sanitize is the rule about payloads of RESTORE. This server has no RESTORE; the rule is only shown.
type sanitize uint8

const (
	sanitizeUnsaid sanitize = iota
	sanitizeYes
	sanitizeSkip
)

// keyPattern is a pattern of keys, and the access to keys that match.
type keyPattern struct {
	text string
	may  access
}

// User is a user with the rules of one moment. It is immutable, and many goroutines may use it at once.
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
	commands    set // that the rules allow
	future      bool
	rules       []string // for commands, since the last +@all or -@all
	allowed     set      // commands, and those that are always allowed

	unrestricted bool // everything on every key
}

// identity stays the same while the rules of a user change. A user that is deleted and made again has a new identity.
type identity struct {
	now atomic.Pointer[User] // nil when deleted
}

// Name returns the user's name.
func (u *User) Name() string { return u.name }

// Enabled reports whether the user may authenticate: whether it is on.
func (u *User) Enabled() bool { return u.on }

// NoPass reports whether any password will do.
func (u *User) NoPass() bool { return u.noPass }

// Current returns the user with the rules in force now, and whether its sessions may continue: they end when the user
// is deleted or switched off. It costs one atomic load.
func (u *User) Current() (now *User, alive bool) {
	now = u.identity.now.Load()
	if now == nil {
		return u, false
	}
	return now, now.on
}

// Allows reports whether the user may run the command with the given Command.Index, regardless of keys. It is false for
// an unknown index. A subcommand has an index of its own, apart from its container.
func (u *User) Allows(command int) bool { return u.allowed.has(command) }

// Unrestricted reports whether the user may run every command on every key.
func (u *User) Unrestricted() bool { return u.unrestricted }

// AllowsKey reports whether the user may use a key in a command that reads it, writes it, or both. A single pattern
// must allow all of that. For a command that does neither, any matching pattern suffices.
//
// It takes at most the length of the key times the length of all patterns in steps: the caller should refuse long keys
// first.
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

// draft returns a draft with the rules of the user.
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

// user returns the user of the draft, which must not be changed afterwards.
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
