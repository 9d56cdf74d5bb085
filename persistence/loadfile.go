package persistence

import (
	"errors"
	"io"

	"cellserver/buckets/memory"
)

// LoadFile loads the snapshot or the journal r, which has size bytes, into a store, and leaves out what has expired at now. name is what
// errors call it. If the tail of a journal is torn, LoadFile loads what is before it, and returns it.
//
// Its errors are those of Check, and *DatabaseError; then the store has a part of the file. p is set while LoadFile runs.
func LoadFile(r io.ReaderAt, size int64, name string, store *memory.Store, now int64, p *Progress) (torn *TornError, err error) {
	_, err = load(r, size, name, store, now, p, nil)
	if errors.As(err, &torn) {
		err = nil
	}
	return torn, err
}
