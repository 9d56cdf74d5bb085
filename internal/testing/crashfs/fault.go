package crashfs

import "slices"

// fault is what makes calls fail.
type fault struct {
	label   string // of the calls that count, all of them when it is empty
	n       int    // the call that fails: how many that count come before it, and itself
	forever bool   // all later ones fail, too
	err     error
}

// Fail makes the n-th call fail with err, counted from the beginning. The first call is 1.
func (f *FS) Fail(n int, err error) { f.fail(fault{n: n, err: err}) }

// FailLabel makes the n-th call with a label fail with err, counted from the beginning. The first such call is 1.
func (f *FS) FailLabel(label string, n int, err error) { f.fail(fault{label: label, n: n, err: err}) }

// FailFrom makes the n-th call and every later one fail with err: the program lives on for a moment after the disk, and
// whatever it does to clean up is in vain. Crash afterwards is what it finds when it comes back. Only the n-th one, if it
// writes, still writes half of its bytes.
func (f *FS) FailFrom(n int, err error) { f.fail(fault{n: n, forever: true, err: err}) }

func (f *FS) fail(x fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, x)
}

// Limit makes the disk one of so many bytes, -1 being no limit. A write beyond it writes what there is room for, and fails
// with syscall.ENOSPC, as does a truncation that would lengthen a file beyond it. Files that have lost their names take no
// room, and names take none.
func (f *FS) Limit(bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limited, f.limit = bytes >= 0, bytes
}

// Used returns how many bytes the files have.
func (f *FS) Used() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used()
}

func (f *FS) used() (bytes int) {
	for _, n := range f.names {
		bytes += len(n.data)
	}
	return bytes
}

// room returns how much of more bytes there is room for.
func (f *FS) room(more int) int {
	if !f.limited || more <= 0 {
		return more
	}
	return min(more, max(0, f.limit-f.used()))
}

// Calls returns how many calls there were.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.labels)
}

// Labels returns the labels of all calls, in order. The label of the n-th call is at n-1.
func (f *FS) Labels() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.labels)
}

// call counts a call and returns the error it is to fail with, if any.
func (f *FS) call(label string) error {
	_, err := f.callWrite(label)
	return err
}

// callWrite is call, and says whether a write that fails still writes half of its bytes.
func (f *FS) callWrite(label string) (half bool, err error) {
	f.labels = append(f.labels, label)
	f.seen[label]++
	for _, x := range f.faults {
		n := len(f.labels)
		if x.label != "" {
			n = f.seen[x.label]
		}
		if (x.label == "" || x.label == label) && (n == x.n || x.forever && n > x.n) {
			return n == x.n, x.err
		}
	}
	return false, nil
}
