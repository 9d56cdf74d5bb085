package persistence

import (
	"bufio"
	"errors"
	"io"
)

// Changes that are applied all or none are one section or, beyond partBytes, a batch: several sections in a row, which
// are a first one, any number of others, and a last one.

// partBytes is the largest payload of a section of a batch, in bytes, except for a section with a single longer entry. It
// bounds the memory that loading takes.
const partBytes = 8 << 20

// writeBatch writes entries as several sections. After an error, Offset is where the batch began.
func (f *Writer) writeBatch(payload []byte, count int) (err error) {
	start, typ := f.offset, FirstSection
	for err == nil && count > 0 {
		length, entries := partOf(payload, count)
		if entries == count {
			typ = LastSection
			if f.offset == start { // the payload is one entry that is longer than a part
				typ = ChangesSection
			}
		}
		err = f.section(typ, payload[:length], entries)
		payload, count, typ = payload[length:], count-entries, MoreSection
	}
	if err != nil {
		f.offset = start
	}
	return err
}

// partOf returns the length in bytes and the number of entries of the first part of a payload of count entries.
func partOf(payload []byte, count int) (length, entries int) {
	d := decoder{version: formatVersion}
	for entries < count {
		n := entryBytes(&d, payload[length:])
		if entries > 0 && length+n > partBytes {
			return length, entries
		}
		length, entries = length+n, entries+1
	}
	return len(payload), count
}

// entryBytes returns the length in bytes of the first entry of payload. It requires that an Append function wrote it.
func entryBytes(d *decoder, payload []byte) int {
	d.Src, d.At = payload, 0
	d.entry()
	return d.At
}

// inBatch reports whether sections of this type belong to a batch.
func (t SectionType) inBatch() bool { return t == FirstSection || t == MoreSection || t == LastSection }

// followsBase reports whether sections of this type stand after the base of a journal.
func (t SectionType) followsBase() bool {
	return t == ChangesSection || t == GenerationSection || t.inBatch()
}

// checkBatch reads the batch whose first section is at offset, without moving offset. It returns a *TornError if the
// last section is missing.
func (f *Reader) checkBatch() error {
	ahead := *f
	from := io.NewSectionReader(f.r, f.offset, f.size-f.offset)
	if f.ahead.in == nil {
		f.ahead.in = bufio.NewReaderSize(from, int(min(readAhead, f.size)))
	} else {
		f.ahead.in.Reset(from)
	}
	ahead.in, ahead.checking = f.ahead.in, true
	for {
		s, err := ahead.Next(f.ahead.buf)
		var torn *TornError
		switch {
		case errors.As(err, &torn):
			return f.torn()
		case err != nil:
			return err
		case s.Type == LastSection:
			return nil
		}
		f.ahead.buf = s.Payload
	}
}

// batchEnd returns the offset at which the batch of the given first section ends, or 0 if one of its sections is
// damaged or missing.
func (f *salvager) batchEnd(first Section) (int64, error) {
	ahead := salvager{r: f.r, size: f.size, name: f.name, version: f.version, offset: first.Offset}
	for {
		at := ahead.offset
		s, err := ahead.next()
		switch {
		case err == io.EOF:
			return 0, nil
		case err != nil:
			return 0, err
		case s.Offset != at, s.Offset > first.Offset && s.Type != MoreSection && s.Type != LastSection:
			return 0, nil
		case s.Type == LastSection:
			return ahead.offset, nil
		}
	}
}
