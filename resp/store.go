package resp

import (
	"errors"

	"cellserver/buckets"
)

// Store is where the buckets are: in memory (Memory), or wherever else something keeps them.
//
// now is the reading of the clock that the request is to be decided at, in nanoseconds of Unix time; a store decides
// at a later time rather than let time go back for a key.
type Store interface {
	// Decide decides on quantity of l for key and fills in d; with peek it only looks. Its errors are those of buckets.
	Decide(now int64, key []byte, l *buckets.Limit, quantity int64, peek bool, d *buckets.Decision) error
	// TakeAll takes all checks or none, as buckets.Store does.
	TakeAll(now int64, checks []buckets.Check, peek bool, answers []buckets.Decision) (which int, err error)

	Stat(now int64, key []byte) (buckets.Info, bool)
	Get(now int64, key []byte) (buckets.Contents, bool)
	Delete(now int64, key []byte) bool
	ExpireAt(now int64, key []byte, at int64, c buckets.Condition) bool
	Persist(now int64, key []byte) bool
	Rename(now int64, from, to []byte, ifFree bool) (bool, error)

	// Keys returns how many keys are stored, those that have expired and were not met since included. MeanTTL returns how
	// many nanoseconds it is until one of them expires, on average over a sample. Neither depends on how many there are.
	Keys() int64
	MeanTTL(now int64) int64
	RandomKey(now int64, dst []byte) ([]byte, bool)
	Scan(now int64, cursor uint64, count int, visit func(key []byte, kind buckets.Kind)) uint64
	Flush()

	// Hold returns a store on which several calls are one to everybody else, for those keys or for everything, until
	// release is called.
	Hold(now int64, keys [][]byte, everything bool) (held Store, release func())
	// Watch begins to watch key for changes, which Changed reports, until Unwatch.
	Watch(now int64, key []byte) Watch
	Changed(now int64, w Watch) bool
	Unwatch(w Watch)

	Stats() buckets.Stats
	MaxLog() int64
}

// Watch is a store's own note of a key that is watched.
type Watch any

// Memory makes a Store of one that keeps its buckets in memory.
func Memory(s *buckets.Store) Store { return memory{s} }

type memory struct{ *buckets.Store }

func (m memory) Hold(now int64, keys [][]byte, everything bool) (held Store, release func()) {
	h := m.Store.Hold(now, keys, everything)
	return memory{&h.Store}, h.Release
}

func (m memory) Watch(now int64, key []byte) Watch { return m.Store.Watch(now, key) }
func (m memory) Changed(now int64, w Watch) bool   { return m.Store.Changed(now, w.(*buckets.Watch)) }
func (m memory) Unwatch(w Watch)                   { m.Store.Unwatch(w.(*buckets.Watch)) }

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
