package resp

import (
	"errors"

	"cellserver/buckets"
)

// do has the store carry out one operation, and returns it with its result. It answers with the error if there is one, and
// reports whether there is none.
func (s *session) do(op buckets.Op) (*buckets.Op, bool) {
	s.op[0] = op
	s.store.Apply(s.srv.ctx, s.now, s.op[:])
	done := &s.op[0]
	if done.Err != nil {
		s.out.Error(s.storeError(done.Err))
		return done, false
	}
	return done, true
}

// storeError returns the wire text of an error of the store.
func (s *session) storeError(err error) string {
	switch err {
	case buckets.ErrWrongKind:
		return errWrongType
	case buckets.ErrLogFull:
		return sprintf(errLogFull, s.bounds.MaxLog)
	case buckets.ErrNoMemory:
		return errNoMemory
	case buckets.ErrNoKey:
		return errNoSuchKey
	}
	return "ERR " + oneLine(err.Error())
}

// Options is what CONFIG GET reads and CONFIG SET changes.
type Options interface {
	// Each shows every option, in order of name.
	Each(show func(name, value string))
	// Set changes all of the pairs of name and value, or none of them. Its errors are *OptionError.
	Set(pairs [][2]string) error
	// Rewrite brings the configuration file up to what is set. ErrNoConfigFile is returned when there is none.
	Rewrite() error
}

// ErrNoConfigFile is returned when the server was started without a configuration file.
var ErrNoConfigFile = errors.New("there is no configuration file")

// OptionError says which option CONFIG SET stumbled over, and why.
type OptionError struct {
	Name    string
	Unknown bool   // there is no such option
	Reason  string // why the value was not taken
}

// Error returns the text.
func (e *OptionError) Error() string {
	if e.Unknown {
		return "unknown option " + e.Name
	}
	return e.Name + ": " + e.Reason
}
