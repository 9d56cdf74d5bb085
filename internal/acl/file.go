package acl

import (
	"fmt"
	"io"
	"strings"
)

const (
	// fileLimit is the most bytes of a file that are read: what should never end does.
	fileLimit = 16 << 20
	// problemLimit is how many problems of a file are told one by one.
	problemLimit = 50
)

// FileError is what is wrong with a file of users.
type FileError struct {
	problems []string // each with its line
	more     int      // how many there are besides
}

// Error is all problems in one line, as Redis tells them.
func (e *FileError) Error() string {
	var b strings.Builder
	for _, p := range e.problems {
		b.WriteString(p + ". ")
	}
	if e.more > 0 {
		fmt.Fprintf(&b, "And %d more. ", e.more)
	}
	b.WriteString("WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
	return b.String()
}

func (e *FileError) add(format string, args ...any) {
	if len(e.problems) == problemLimit {
		e.more++
		return
	}
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

// Load replaces all users by those that r has: one in each line, as Write writes them. If anything is wrong with one of
// them, it changes nothing and returns a *FileError, in which name stands for the file. It also returns the errors of r.
//
// As in Redis, a file without the default user makes that as New does: on, without a password, and allowed everything.
// Sessions of users that are in the file go on under the new rules; those of others do not.
func (l *List) Load(r io.Reader, name string) error {
	data, err := io.ReadAll(io.LimitReader(r, fileLimit+1))
	if err != nil {
		return err
	}
	if len(data) > fileLimit {
		return fmt.Errorf("%s is larger than %d bytes", name, fileLimit)
	}
	drafts, problems := l.parse(string(data), name)
	if problems != nil {
		return problems
	}
	if drafts[DefaultUser] == nil {
		drafts[DefaultUser] = openDraft(l.table)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for user, id := range l.users {
		if drafts[user] == nil {
			l.delete(user, id)
		}
	}
	for user, d := range drafts {
		l.put(user, d)
	}
	return nil
}

// parse reads users from lines. Redis splits them at each single space: two of them have an empty word between them,
// which is a rule without a meaning, or an empty name.
func (l *List) parse(data, file string) (map[string]*draft, *FileError) {
	drafts, problems := make(map[string]*draft), new(FileError)
	number := 0
	for line := range strings.SplitSeq(data, "\n") {
		number++
		line = strings.Trim(line, " \t\r\n")
		if line == "" {
			continue
		}
		words := strings.Split(line, " ")
		if words[0] != "user" || len(words) < 2 {
			problems.add("%s:%d should start with user keyword followed by the username", file, number)
			continue
		}
		user := words[1]
		if hasSpaces(user) {
			problems.add("'%s:%d: username '%s' contains invalid characters", file, number, user) // quoted as by Redis
			continue
		}
		if drafts[user] != nil {
			problems.add("WARNING: Duplicate user '%s' found on line %d", user, number)
			continue
		}
		d := newDraft(l.table)
		drafts[user] = d
		d.line(words[2:], func(rule string, err Error) {
			if rule != "" {
				problems.add("%s:%d: Error in applying operation '%s': %s", file, number, rule, err)
			} else {
				problems.add("%s:%d: %s", file, number, err)
			}
		})
	}
	if len(problems.problems) > 0 {
		return nil, problems
	}
	return drafts, nil
}

// line applies the rules of a line. It complains, as Redis does, about every unknown command, by its rule, and about
// one other rule, without it: that might be a password, and what comes behind it might be wrong only for its sake.
func (d *draft) line(rules []string, complain func(rule string, err Error)) {
	complained := false
	for _, rule := range rules {
		rule = strings.Trim(rule, "\t\r\n")
		err := d.apply(rule)
		switch {
		case err == "":
		case err == ErrUnknown:
			complain(rule, err)
		case !complained:
			complained = true
			complain("", err)
		}
		if err == ErrSelectors {
			return // what follows may belong to it
		}
	}
}

// Write writes all users at once, one in each line and sorted by name, as Load reads them. Passwords are written as
// digests.
func (l *List) Write(w io.Writer) error {
	var b []byte
	for _, u := range l.Users() {
		b = append(append(b, u.Describe()...), '\n')
	}
	_, err := w.Write(b)
	return err
}
