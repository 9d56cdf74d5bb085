package acl

// CountWork has the list count what authenticating takes: how many bytes it digests, how often, and how many
// comparisons it makes.
func CountWork(l *List) *Work {
	w := new(Work)
	sum := l.sum
	l.sum = func(password []byte) digest {
		w.Digests++
		w.Bytes += len(password)
		return sum(password)
	}
	l.equal = func(x, y digest) int {
		w.Comparisons++
		return equal(x, y)
	}
	return w
}

// Work is what authenticating took.
type Work struct{ Digests, Bytes, Comparisons int }

// Bounds of the log and of files.
const (
	LogEntries   = logEntries
	LogText      = logText
	FileLimit    = fileLimit
	ProblemLimit = problemLimit
)
