package acl

import (
	"fmt"
	"io"
	"strings"
)

const (
	// fileLimit is the largest file, in bytes, that Load reads.
	fileLimit = 16 << 20
	// problemLimit is how many problems of a file an error lists.
	problemLimit = 50
)

// FileError lists the problems of a file of users.
type FileError struct {
	problems []string // each with its line
	more     int      // how many there are besides
}

// Error returns all problems in one line, in Redis's words.
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

// Load replaces all users by those of r, which has one in each line, as Write writes them. If any line is wrong, Load
// changes nothing and returns a *FileError, which calls the file name. Other errors are those of r, and of a file that
// is too large.
//
// As in Redis, if the file lacks the default user, Load makes it as New does: on, without a password, and allowed
// everything. Sessions of users in the file continue under the new rules; Current ends those of others.
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

// parse reads users from lines. Like Redis it splits lines at each single space, so that two spaces in a row have an
// empty word between them: a rule without an effect, or an empty name.
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

// line applies the rules of a line. Like Redis it calls complain for every unknown command, with the rule, and for the
// first other problem, with "": that rule may be a password, and later problems may follow from the first.
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
			return // the words that follow may belong to the selector
		}
	}
}

// Write writes all users in the form that Load reads, one in each line, sorted by name, in one call of w.Write.
// Passwords are written as digests. Its error is that of w.
func (l *List) Write(w io.Writer) error {
	var b []byte
	for _, u := range l.Users() {
		b = append(append(b, u.Describe()...), '\n')
	}
	_, err := w.Write(b)
	return err
}
