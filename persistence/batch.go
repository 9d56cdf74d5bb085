package persistence

import (
	"bufio"
	"errors"
	"io"
)

// What happened as one is one section of changes, or, when that would be large, several sections in a row: a first one,
// any number of others, and a last one. All of them count, or none.

// partBytes is how long a section of several is at most, unless a single entry is longer. It bounds what loading needs.
const partBytes = 8 << 20

// batch writes entries as several sections. Until the last one is written none of them counts, for Offset neither.
func (f *Writer) writeBatch(payload []byte, count int) (err error) {
	start, typ := f.offset, FirstSection
	for err == nil && count > 0 {
		length, entries := partOf(payload, count)
		if entries == count {
			typ = LastSection
			if f.offset == start { // a single entry that is longer than a part
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

// partOf returns how long the first part of a payload of count entries is, and how many entries it has.
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

// entryBytes returns how long the entry is that payload begins with. It was written by one of the Append functions.
func entryBytes(d *decoder, payload []byte) int {
	d.Src, d.At = payload, 0
	d.entry()
	return d.At
}

// inBatch reports whether sections of this type are a part of what happened as one.
func (t SectionType) inBatch() bool { return t == FirstSection || t == MoreSection || t == LastSection }

// followsBase reports whether sections of this type come behind the base of a journal.
func (t SectionType) followsBase() bool {
	return t == ChangesSection || t == GenerationSection || t.inBatch()
}

// checkBatch reads the sections that belong to the first one of several, which is at offset: it is torn if the last one is
// not there.
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

// batchEnd returns where the sections end that belong to the first one of several, or 0 if one of them is damaged or not
// there.
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
