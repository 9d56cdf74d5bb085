package persistence

import (
	"cellserver/buckets/memory"
	"io"
)

// PartBytes is how long a section of several that happened as one is at most.
const PartBytes = partBytes

// Part writes a section of several that happened as one.
func (f *Writer) Part(typ SectionType, payload []byte, count int) error {
	return f.section(typ, payload, count)
}

// Load loads a file.
func Load(r io.ReaderAt, size int64, store *memory.Store, now int64) error {
	_, err := load(r, size, "a file", store, now, new(Progress), nil)
	return err
}

// Waiting makes a call as those of OS that may take long are made.
func WithSpareProcessor(call func() error) error { return withSpareProcessor(call) }
