package resp

import (
	"errors"

	"cellserver/buckets"
	"cellserver/resp/counter"
)

// do applies one operation to the store, and returns it with its result. If it fails, do appends the error and returns false.
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

// update has the store carry out u on keys. It appends the error if there is one, and reports whether there is none. It sets only
// those fields of the op that the store reads, because clearing the others costs as much as the lookup of a key.
func (s *session) update(keys [][]byte, u buckets.Updater) bool {
	op := &s.op[0]
	op.Code, op.Keys, op.Update = buckets.OpUpdate, keys, u
	s.store.Apply(s.srv.ctx, s.now, s.op[:])
	if op.Err != nil {
		s.out.Error(s.storeError(op.Err))
		return false
	}
	return true
}

// storeError returns the error reply for an error of the store.
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
	case buckets.ErrNoDatabase:
		return errDBIndex
	case buckets.ErrCrossSlot:
		return errCrossSlot
	case buckets.ErrNotOffered:
		return errNotOffered
	case buckets.ErrForeignValue:
		return errForeignValue
	case buckets.ErrTooFewReplicas:
		return errNoReplicas
	}
	if away, ok := errors.AsType[*buckets.Unavailable](err); ok {
		return sprintf(errClusterDown, oneLine(away.Reason))
	}
	if fault, ok := err.(counter.Fault); ok {
		return string(fault)
	}
	return "ERR " + oneLine(err.Error())
}

// Options are the options of CONFIG.
type Options interface {
	// Each calls visit for every option, in order of name.
	Each(visit func(name, value string))
	// Set sets options, given as pairs of name and value: all of them or, if it returns an error, none. Its errors are
	// *OptionError.
	Set(pairs [][2]string) error
	// Rewrite writes the current values into the configuration file. It returns ErrNoConfigFile if there is none.
	Rewrite() error
}

// ErrNoConfigFile is returned if the server was started without a configuration file.
var ErrNoConfigFile = errors.New("there is no configuration file")

// OptionError is the error of the first option that cannot be set.
type OptionError struct {
	Name    string
	Unknown bool   // there is no such option
	Reason  string // why the value is refused
}

// Error implements error.
func (e *OptionError) Error() string {
	if e.Unknown {
		return "unknown option " + e.Name
	}
	return e.Name + ": " + e.Reason
}
