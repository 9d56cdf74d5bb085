package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"slices"
	"sync"
)

// DefaultUser is the user of connections that have not authenticated, if it needs no password. There always is one.
const DefaultUser = "default"

// openRules are those of the default user before anybody says otherwise.
var openRules = []string{"on", "nopass", "~*", "&*", "+@all"}

// List is all users. Its methods may be called by many goroutines at once.
type List struct {
	table *table

	// mu is held to look a user up by its name, and to change users. Deciding and User.Current need no lock.
	mu    sync.RWMutex
	users map[string]*identity // all of which have a user

	// What authenticating is made of. Tests count it.
	sum   func(password []byte) digest
	equal func(x, y digest) int // 1 if they are, in constant time
}

// New makes a list with nothing but the default user, who may do everything. It panics when two commands have the same
// name or index, or a parent is missing or has a parent itself.
func New(commands []Command) *List {
	l := &List{table: newTable(commands), users: make(map[string]*identity), sum: sha256.Sum256, equal: equal}
	l.put(DefaultUser, openDraft(l.table))
	return l
}

func openDraft(t *table) *draft {
	d := newDraft(t)
	for _, rule := range openRules {
		d.word(rule)
	}
	return d
}

// put makes a draft the user of a name. The caller holds mu.
func (l *List) put(name string, d *draft) {
	id := l.users[name]
	if id == nil {
		id = new(identity)
		l.users[name] = id
	}
	id.now.Store(d.user(name, id))
}

// SetUser applies rules to a user, one after the other: all of them, or none if one is wrong, which is a *RuleError.
// A user that does not exist is made: off, without passwords, and with nothing allowed.
func (l *List) SetUser(name string, rules []string) error {
	if hasSpaces(name) {
		return ErrName
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d := newDraft(l.table)
	if id := l.users[name]; id != nil {
		d = id.now.Load().draft()
	}
	for _, rule := range rules {
		if err := d.apply(rule); err != "" {
			return &RuleError{rule, err}
		}
	}
	l.put(name, d)
	return nil
}

// DelUser deletes users and returns how many of them there were. With the default user among them it deletes nobody
// and returns ErrDefault.
func (l *List) DelUser(names ...string) (int, error) {
	for _, name := range names {
		if name == DefaultUser {
			return 0, ErrDefault
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, name := range names {
		if id := l.users[name]; id != nil {
			l.delete(name, id)
			n++
		}
	}
	return n, nil
}

// delete removes a user. The caller holds mu.
func (l *List) delete(name string, id *identity) {
	delete(l.users, name)
	id.now.Store(nil)
}

// User returns a user as it is now.
func (l *List) User(name string) (*User, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if id := l.users[name]; id != nil {
		return id.now.Load(), true
	}
	return nil, false
}

// Names returns the names of all users, sorted by their bytes.
func (l *List) Names() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Sorted(maps.Keys(l.users))
}

// Users returns all users, sorted by name: what ACL LIST is made of.
func (l *List) Users() []*User {
	l.mu.RLock()
	defer l.mu.RUnlock()
	users := make([]*User, 0, len(l.users))
	for _, name := range slices.Sorted(maps.Keys(l.users)) {
		users = append(users, l.users[name].now.Load())
	}
	return users
}

// Open returns the default user if connections act as it before they authenticate: if it is on and needs no password.
func (l *List) Open() (*User, bool) {
	u, _ := l.User(DefaultUser)
	return u, u.on && u.noPass
}

// Authenticate returns the user that a name and a password are those of, and false if there is none, it is off, or the
// password is not among its own. All of these take the same work: one digest of the password, and a comparison with
// each digest that the user has, or with one if there is none. How long that takes tells no more than how many
// passwords the user has.
func (l *List) Authenticate(name string, password []byte) (*User, bool) {
	u, known := l.User(name)
	sum := l.sum(password)
	passwords := nobodys[:]
	if known && len(u.passwords) > 0 {
		passwords = u.passwords
	}
	matches := 0
	for i := range passwords {
		matches |= l.equal(sum, passwords[i])
	}
	if known && u.on && (u.noPass || matches == 1 && len(u.passwords) > 0) {
		return u, true
	}
	return nil, false
}

func equal(x, y digest) int { return subtle.ConstantTimeCompare(x[:], y[:]) }

// nobodys is compared with where there is nothing to compare with. What comes of it is not looked at.
var nobodys [1]digest
