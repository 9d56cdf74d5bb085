package acl

// CountWork makes the list count the work of authenticating: how many digests it computes, of how many bytes, and how
// many comparisons it makes.
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

// Work is the work of authenticating.
type Work struct{ Digests, Bytes, Comparisons int }

// Bounds of the log and of files.
const (
	LogEntries   = logEntries
	LogText      = logText
	FileLimit    = fileLimit
	ProblemLimit = problemLimit
)
