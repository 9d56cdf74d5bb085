package persistence

import (
	"cellserver/buckets/memory"
	"io"
)

// PartBytes is the largest payload of a section of a batch.
const PartBytes = partBytes

// Part writes one section of a batch.
func (f *Writer) Part(typ SectionType, payload []byte, count int) error {
	return f.section(typ, payload, count)
}

// Load loads a file.
func Load(r io.ReaderAt, size int64, store *memory.Store, now int64) error {
	_, err := load(r, size, "a file", store, now, new(Progress), nil)
	return err
}

// WithSpareProcessor makes a call as OS makes its blocking calls.
func WithSpareProcessor(call func() error) error { return withSpareProcessor(call) }
