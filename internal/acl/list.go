package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"slices"
	"sync"
)

// DefaultUser is the name of the user of connections that have not authenticated, if it needs no password. This user
// always exists.
const DefaultUser = "default"

// openRules are the initial rules of the default user.
var openRules = []string{"on", "nopass", "~*", "&*", "+@all"}

// List has all users. Many goroutines may use it at once.
type List struct {
	table *table

	// mu is held to look a user up by its name, and to change users. Deciding and User.Current need no lock.
	mu    sync.RWMutex
	users map[string]*identity // by name; none of them is deleted

	// The functions that Authenticate uses; tests replace them to count their work.
	sum   func(password []byte) digest
	equal func(x, y digest) int // returns 1 if x == y, in constant time
}

// New returns a list whose only user is the default user, who may do everything. It panics if two commands have the
// same name or index, or if a parent is missing or has a parent itself.
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

// put makes the draft the user of that name. It requires that mu is held.
func (l *List) put(name string, d *draft) {
	id := l.users[name]
	if id == nil {
		id = new(identity)
		l.users[name] = id
	}
	id.now.Store(d.user(name, id))
}

// SetUser applies rules to a user in their order. If one is wrong it applies none, and returns a *RuleError; for an
// invalid name it returns ErrName. A user that does not exist begins off, without passwords, and with nothing allowed.
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

// DelUser deletes users and returns how many of them existed. If the default user is among them it deletes none, and
// returns ErrDefault.
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

// delete removes a user. It requires that mu is held.
func (l *List) delete(name string, id *identity) {
	delete(l.users, name)
	id.now.Store(nil)
}

// User returns the current user of that name, and whether there is one.
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

// Users returns all users, sorted by name.
func (l *List) Users() []*User {
	l.mu.RLock()
	defer l.mu.RUnlock()
	users := make([]*User, 0, len(l.users))
	for _, name := range slices.Sorted(maps.Keys(l.users)) {
		users = append(users, l.users[name].now.Load())
	}
	return users
}

// Open returns the default user, and whether connections act as that user before they authenticate: whether it is on
// and needs no password.
func (l *List) Open() (*User, bool) {
	u, _ := l.User(DefaultUser)
	return u, u.on && u.noPass
}

// Authenticate returns the user of that name if it is on and has the password, and false otherwise. Every outcome takes
// the same work: one digest of the password, and one comparison with each digest of the user, or with one digest if
// there is no such user. So the time tells only how many passwords the user has.
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

// nobodys is compared with the password if a user has none or does not exist. The result is ignored.
var nobodys [1]digest
