package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"cellserver/buckets"
)

// Report says what a file holds: as it is written, not what is left once its changes are applied.
type Report struct {
	FileKind FileKind
	Version  uint32
	Created  int64 // nanoseconds of Unix time
	// Generation is the last one that the file was given, 0 if it has none.
	Generation uint64
	Bytes      int64 // the size of the file
	Sections   int64 // sound ones, of all types

	Sets    [buckets.KindCount]int64 // entries that set a key, by kind
	Amends  int64                    // entries that change the log of a sliding window
	Deletes int64
	Flushes int64
	Records int64 // in the logs of sliding windows

	// The first and the last time, in nanoseconds of Unix time, at which what an entry sets expires: when its bucket is
	// full, or its deadline. Both are 0 if no entry sets a key.
	Oldest, Newest int64

	Torn *TornError // nil if there is no torn tail
}

// Check reads a whole file. The error is nil if it is sound or, which is no reason not to load it, a journal with a torn
// tail; the report says which. Otherwise it is what NewReader and Next return, and the report counts what was sound
// before.
func Check(r io.ReaderAt, size int64, name string) (Report, error) {
	report := Report{Bytes: size}
	f, err := NewReader(r, size, name)
	if err != nil {
		return report, err
	}
	report.FileKind, report.Version, report.Created, report.Generation = f.Kind(), f.Version(), f.Created(), f.Generation()
	var buf []byte
	for {
		s, err := f.Next(buf)
		if err == io.EOF || errors.As(err, &report.Torn) {
			return report, nil
		}
		if err != nil {
			return report, err
		}
		buf = s.Payload
		before := report
		if err := f.Entries(s, report.count); err != nil {
			return before, err
		}
		report.Generation = f.Generation()
		report.Sections++
	}
}

func (r *Report) count(op Op, e *buckets.Entry) error {
	switch op {
	case OpDelete:
		r.Deletes++
	case OpFlush:
		r.Flushes++
	case OpSet, OpAmend:
		at := expiry(e)
		if r.Sets == [len(r.Sets)]int64{} && r.Amends == 0 {
			r.Oldest, r.Newest = at, at
		}
		r.Oldest, r.Newest = min(r.Oldest, at), max(r.Newest, at)
		if op == OpSet {
			r.Sets[e.Kind]++
		} else {
			r.Amends++
		}
		if e.Kind.HasLog() {
			r.Records += int64(e.Log.Len())
		}
	}
	return nil
}

// expiry returns when what an entry sets is gone: its bucket full, or at its deadline.
func expiry(e *buckets.Entry) int64 {
	at := e.FullAt()
	if e.Kind.HasLog() && e.Log.Len() == 0 { // an amendment that adds nothing
		at = buckets.LogFullAt(buckets.NewAdmissions(e.Log.Period(), buckets.Admission{At: e.Kept.Newest, Quantity: 1}))
	}
	if e.Deadline != 0 {
		at = min(at, e.Deadline)
	}
	return at
}

// Repair writes to w a sound file of what is whole in another: sections whose checksums are right, whose entries can be
// read, and which stand where such sections may. kept counts them, without the end section, which is made anew; lost
// counts the sections left out, and each stretch of bytes in which none can be told is one. A file in which there is
// nothing to be found is a *CorruptError and a newer one a *VersionError, and nothing has been written then.
//
// What is lost from the middle of a journal is not known: later changes are applied without it. A file that is sound is
// copied; of one that is only torn, no more is lost than loading it loses.
func Repair(r io.ReaderAt, size int64, name string, w io.Writer) (kept, lost int64, err error) {
	h, err := repairHeader(r, size, name)
	if err != nil {
		return 0, 0, err
	}
	to, err := NewWriter(w, h.kind, h.created, h.generation)
	if err != nil {
		return 0, 0, err
	}
	from := salvager{r: r, size: size, name: name, version: h.version, offset: fileHeaderBytes}
	batchEnd := int64(0) // of the several sections at hand that happened as one and are whole, or the last such
	for {
		s, err := from.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return kept, lost + from.lost, err
		}
		if s.Type == GenerationSection {
			generation := binary.LittleEndian.Uint64(s.Payload)
			if generation <= h.generation || generation > MaxGeneration {
				lost++
				continue
			}
			h.generation = generation
		}
		if s.Type == FirstSection {
			if batchEnd, err = from.batchEnd(s); err != nil {
				return kept, lost + from.lost, err
			}
		}
		if s.Type.inBatch() && s.Offset >= batchEnd {
			lost++
			continue
		}
		placed, err := writeInPlace(to, s)
		switch {
		case err != nil:
			return kept, lost + from.lost, err
		case s.Type == EndSection: // there is nothing in it to keep or to lose
		case placed:
			kept++
		default:
			lost++
		}
	}
	lost += from.lost
	if !to.ended {
		err = to.End()
	}
	return kept, lost, err
}

// place writes a section, unless it stands where none of its type may.
func writeInPlace(to *Writer, s Section) (placed bool, err error) {
	switch {
	case s.Type == EndSection && !to.ended:
		return true, to.End()
	case s.Type == RecordsSection && !to.ended:
		return true, to.Records(s.Payload, s.Count)
	case s.Type.followsBase() && to.kind == JournalFile:
		if !to.ended { // its end was lost
			if err := to.End(); err != nil {
				return false, err
			}
		}
		return true, to.section(s.Type, s.Payload, s.Count)
	}
	return false, nil
}

// repairHeader returns the header of the repaired file. If the header is damaged, the file is a journal if it has changes,
// and otherwise what the header says as far as that makes sense; when it was begun and its generation are not known then.
func repairHeader(r io.ReaderAt, size int64, name string) (h fileHeader, err error) {
	if size < fileHeaderBytes {
		return h, tooShortForHeader(size, name)
	}
	from := salvager{r: r, size: size, name: name, version: formatVersion, offset: fileHeaderBytes}
	var b [fileHeaderBytes]byte
	if err := from.read(b[:], 0); err != nil {
		return h, err
	}
	h, flaw := parseFileHeader(b[:])
	switch {
	case flaw == "" && h.version > formatVersion:
		return h, &VersionError{name, h.version}
	case flaw == "":
		return h, nil
	}
	if h = (fileHeader{version: formatVersion, kind: h.kind}); h.kind != JournalFile {
		h.kind = SnapshotFile
	}
	for found := false; ; found = true {
		s, err := from.next()
		switch {
		case err == io.EOF && found:
			return h, nil
		case err == io.EOF:
			return h, &CorruptError{name, 0, flaw}
		case err != nil:
			return h, err
		case s.Type.followsBase():
			h.kind = JournalFile
			return h, nil
		}
	}
}

// salvager finds the whole sections of a file that may be damaged.
type salvager struct {
	r       io.ReaderAt
	size    int64
	name    string
	version uint32 // of what it holds, or the current one if that is not known
	offset  int64
	lost    int64 // sections, or stretches, that were passed over
	buf     []byte
}

// next returns the next whole section, whose payload lives until the next call; io.EOF if there is none.
func (f *salvager) next() (Section, error) {
	for {
		left := f.size - f.offset
		if left == 0 {
			return Section{}, io.EOF
		}
		if left >= sectionHeaderBytes {
			var b [sectionHeaderBytes]byte
			if err := f.read(b[:], f.offset); err != nil {
				return Section{}, err
			}
			s, length, err := f.section(b[:], f.offset)
			if err != nil {
				return Section{}, err
			}
			f.offset += length
			switch {
			case s.Payload != nil:
				return s, nil
			case length > 0: // the section is damaged, and its length is not
				if s.Type != EndSection {
					f.lost++
				}
				continue
			}
		}
		f.lost++
		var err error
		if f.offset, err = f.search(f.offset + 1); err != nil {
			return Section{}, err
		}
	}
}

// section reads the section with this header. Its length is 0 if the header is none, and its payload nil if it is not
// whole.
func (f *salvager) section(header []byte, offset int64) (s Section, length int64, err error) {
	h, flaw := parseSectionHeader(header)
	if flaw != "" || h.length > f.size-offset-sectionHeaderBytes || h.typ >= GenerationSection && f.version < 2 {
		return Section{}, 0, nil
	}
	length = sectionHeaderBytes + h.length
	if int64(cap(f.buf)) < h.length {
		f.buf = make([]byte, h.length)
	}
	payload := f.buf[:h.length]
	if err := f.read(payload, offset+sectionHeaderBytes); err != nil {
		return Section{}, 0, err
	}
	s = Section{Type: h.typ, Count: int(h.count), Offset: offset}
	if crc32.Checksum(payload, castagnoli) != h.sum {
		return s, length, nil
	}
	if s.Type != EndSection && s.Type != GenerationSection {
		ignore := func(Op, *buckets.Entry) error { return nil }
		if decodeEntries(payload, s.Count, f.version, s.Type, ignore) != nil {
			return s, length, nil
		}
	}
	s.Payload = payload
	return s, length, nil
}

// search returns where the first whole section from offset on begins, or the size of the file. A header alone is not
// enough here: it may be part of what somebody called a key, and its length lead anywhere.
func (f *salvager) search(offset int64) (int64, error) {
	chunk := make([]byte, min(64<<10, f.size-offset))
	for f.size-offset >= sectionHeaderBytes {
		chunk = chunk[:min(int64(len(chunk)), f.size-offset)]
		if err := f.read(chunk, offset); err != nil {
			return 0, err
		}
		for i := 0; i+sectionHeaderBytes <= len(chunk); i++ {
			b := chunk[i : i+sectionHeaderBytes]
			if b[5]|b[6]|b[7] != 0 || b[4] == 0 || SectionType(b[4]) > LastSection {
				continue
			}
			at := offset + int64(i)
			if s, _, err := f.section(b, at); err != nil || s.Payload != nil {
				return at, err
			}
		}
		offset += int64(len(chunk) - sectionHeaderBytes + 1)
	}
	return f.size, nil
}

// read fills b with what is at offset.
func (f *salvager) read(b []byte, offset int64) error {
	if n, err := f.r.ReadAt(b, offset); n < len(b) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // the file had this size
		}
		return fmt.Errorf("reading %s at byte %d: %w", f.name, offset, err)
	}
	return nil
}
