package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"cellserver/buckets"
)

// Report describes the contents of a file as written, before its changes are applied.
type Report struct {
	FileKind FileKind
	Version  uint32
	Created  int64 // nanoseconds of Unix time
	// Generation is the last generation of the file; 0 in a file of version 1.
	Generation uint64
	Bytes      int64 // the size of the file
	Sections   int64 // number of sound sections, of all types

	Sets    [buckets.KindCount]int64 // entries that set a key, by kind
	Amends  int64                    // amendments of logs
	Deletes int64
	Flushes int64 // of one database, or of all
	Swaps   int64
	// Databases is one more than the highest number of a database in the file: as many are needed to load it. It is at least 1.
	Databases int
	Records   int64 // in the logs of those entries

	// Oldest and Newest are the first and the last time, in nanoseconds of Unix time, at which an entry's state
	// expires: when its bucket is full, or at its deadline. Both are 0 if no entry sets a key.
	Oldest, Newest int64

	Torn *TornError // nil if there is no torn tail
}

// Check reads a whole file of size bytes; name is what errors call it. The error is nil if the file can be loaded: it
// is sound, or a journal with a torn tail, which Report.Torn tells. Otherwise the error is that of NewReader, Next or
// Entries, and the report counts the sections before it.
func Check(r io.ReaderAt, size int64, name string) (Report, error) {
	report := Report{Bytes: size, Databases: 1}
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
	r.Databases = max(r.Databases, e.Database+1, e.With+1)
	switch op {
	case OpDelete:
		r.Deletes++
	case OpFlushAll, OpFlush:
		r.Flushes++
	case OpSwap:
		r.Swaps++
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

// expiry returns when the state of an entry expires, in nanoseconds of Unix time: when its bucket is full, or at its
// deadline.
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

// Repair writes to w a sound file of the whole sections of another: those whose checksums are right, whose entries can
// be decoded, and which stand where such sections may. kept counts them, without the end section, which is written
// anew. lost counts the sections that are left out; a stretch of bytes in which no section can be found counts as one.
// A file without a whole section is a *CorruptError and a newer file a *VersionError; nothing has been written then.
//
// Changes that are lost from the middle of a journal stay lost: loading applies the later ones without them. A sound
// file is copied. A torn one loses no more than loading it does.
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
	batchEnd := int64(0) // where the last whole batch ends
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
		case s.Type == EndSection: // written by Repair itself, so it counts as neither
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

// writeInPlace writes a section, unless no section of its type may stand here.
func writeInPlace(to *Writer, s Section) (placed bool, err error) {
	switch {
	case s.Type == EndSection && !to.ended:
		return true, to.End()
	case s.Type == RecordsSection && !to.ended:
		return true, to.Records(s.Payload, s.Count)
	case s.Type.followsBase() && to.kind == JournalFile:
		if !to.ended { // the end section was lost
			if err := to.End(); err != nil {
				return false, err
			}
		}
		return true, to.section(s.Type, s.Payload, s.Count)
	}
	return false, nil
}

// repairHeader returns the header of the repaired file. If the header is damaged, its time and generation are 0, and
// the file is a journal if the header says so or if it has a section of changes.
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

// salvager finds the whole sections of a file that may be damaged anywhere.
type salvager struct {
	r       io.ReaderAt
	size    int64
	name    string
	version uint32 // of the file, or the current one if its header is damaged
	offset  int64
	lost    int64 // sections, or stretches of bytes, that were skipped
	buf     []byte
}

// next returns the next whole section, or io.EOF if there is none. The payload is valid until the next call.
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
			case length > 0: // the payload is damaged, and the header is not
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

// section reads the section whose header is at offset. length is 0 if the header is invalid, and the payload nil if the
// section is damaged.
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

// search returns the offset of the first whole section at or after offset, or the size of the file. A valid header
// alone does not count: the bytes may be part of a key that a client has chosen, with any length in them.
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

// read fills b with the bytes at offset.
func (f *salvager) read(b []byte, offset int64) error {
	if n, err := f.r.ReadAt(b, offset); n < len(b) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // the file had size bytes when it was opened
		}
		return fmt.Errorf("reading %s at byte %d: %w", f.name, offset, err)
	}
	return nil
}
