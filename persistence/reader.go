package persistence

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"cellserver/buckets"
)

// CorruptError is returned for a file that is not as a Writer writes it. Nothing at or after Offset has been returned.
type CorruptError struct {
	File   string
	Offset int64 // bytes from the beginning of the file
	Reason string
}

// Error returns the text, which says what to run.
func (e *CorruptError) Error() string {
	if e.cannotBeRepaired() {
		return fmt.Sprintf("%s %s, as when the disk was full; nothing in it can be repaired: put a copy of the file in its place, "+
			"or start without it after: rm %s", e.File, e.Reason, e.File)
	}
	return fmt.Sprintf("%s is corrupt at byte %d: %s; run: cellserver check %s", e.File, e.Offset, e.Reason, e.File)
}

// cannotBeRepaired reports whether the file has nothing that Repair could keep.
func (e *CorruptError) cannotBeRepaired() bool { return e.Reason == empty || e.Reason == tooShort }

// isEmpty reports whether err says that a file has no bytes.
func isEmpty(err error) bool {
	var e *CorruptError
	return errors.As(err, &e) && e.Reason == empty
}

// TornError is returned for a journal whose last write did not reach the disk completely. Everything before Offset is
// sound: the file can be cut off there, and appended to.
type TornError struct {
	File   string
	Offset int64 // where the sound part ends
	Lost   int64 // bytes after it
}

// Error returns the text.
func (e *TornError) Error() string {
	return fmt.Sprintf("%s is torn at byte %d: the last %d bytes were not written whole", e.File, e.Offset, e.Lost)
}

// VersionError is returned for a file in a newer version of the format than this program reads.
type VersionError struct {
	File    string
	Version uint32
}

// Error returns the text.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, and this program reads up to %d: run a newer cellserver",
		e.File, e.Version, formatVersion)
}

// Section is one section of a file.
type Section struct {
	Type    SectionType
	Count   int   // of entries
	Offset  int64 // of its header in the file
	Payload []byte
}

// Reader reads a file from its beginning to its end, one section after the other.
type Reader struct {
	r    io.ReaderAt
	size int64
	name string

	header   fileHeader
	in       *bufio.Reader
	offset   int64
	head     [sectionHeaderBytes]byte
	entries  uint64 // of the records sections so far
	sections uint64 // records sections so far
	ended    bool
	inBatch  bool     // within a batch, whose last section is still to come
	checking bool     // this copy of the Reader reads ahead for checkBatch
	ahead    struct { // buffers of checkBatch
		in  *bufio.Reader
		buf []byte
	}
	err error // what Next returns after its first error
}

// The reasons of a CorruptError whose file cannot be repaired.
const (
	empty    = "is empty"
	tooShort = "is shorter than the header of a file"
)

// tooShortForHeader returns the error for a file that is shorter than a header.
func tooShortForHeader(size int64, name string) error {
	if size == 0 {
		return &CorruptError{name, 0, empty}
	}
	return &CorruptError{name, 0, tooShort}
}

// readAhead is the size in bytes of the read buffer.
const readAhead = 64 << 10

// NewReader reads and checks the header of a file of size bytes; name is what errors call the file. It returns a
// *CorruptError, a *VersionError, or the error of r.
func NewReader(r io.ReaderAt, size int64, name string) (*Reader, error) {
	f := &Reader{r: r, size: size, name: name}
	if size < fileHeaderBytes {
		return nil, tooShortForHeader(size, name)
	}
	f.in = bufio.NewReaderSize(io.NewSectionReader(r, 0, size), int(min(readAhead, size)))
	var b [fileHeaderBytes]byte
	if err := f.read(b[:], 0); err != nil {
		return nil, err
	}
	var flaw string
	if f.header, flaw = parseFileHeader(b[:]); flaw != "" {
		return nil, f.corrupt(0, flaw)
	}
	if f.header.version > formatVersion {
		return nil, &VersionError{name, f.header.version}
	}
	f.offset = fileHeaderBytes
	return f, nil
}

// parseFileHeader decodes a file header of any version. flaw is "" if it is valid. Of a newer version only h.version is
// set. Of a damaged header h.version and h.kind are set, and may be wrong.
func parseFileHeader(b []byte) (h fileHeader, flaw string) {
	h = fileHeader{
		version: binary.LittleEndian.Uint32(b[8:]),
		kind:    FileKind(b[12]),
	}
	switch {
	case string(b[:8]) != magic:
		return h, "it does not begin as a file of cellserver does"
	case crc32.Checksum(b[:24], castagnoli) != binary.LittleEndian.Uint32(b[24:]):
		return h, "the checksum of the file's header is wrong"
	case h.version > formatVersion:
		return h, ""
	case h.version == 0:
		return h, "there is no version 0"
	case h.kind != SnapshotFile && h.kind != JournalFile:
		return h, "it is neither a snapshot nor a journal"
	case h.version == 1 && b[13]|b[14]|b[15] != 0:
		return h, "bytes of the file's header that have to be 0 are not"
	case h.version == 1:
		h.created = int64(binary.LittleEndian.Uint64(b[16:]))
		return h, ""
	}
	if seconds := binary.LittleEndian.Uint64(b[12:]) >> 8 & secondsMask; seconds <= math.MaxInt64/uint64(time.Second) {
		h.created = int64(seconds) * int64(time.Second)
	} else {
		return h, "a time beyond 64 bits"
	}
	h.generation = binary.LittleEndian.Uint64(b[16:]) >> 16
	return h, ""
}

// Kind returns whether the file is a snapshot or a journal.
func (f *Reader) Kind() FileKind { return f.header.kind }

// Version returns the version of the format that the file is written in.
func (f *Reader) Version() uint32 { return f.header.version }

// Created returns when the file was begun, in nanoseconds of Unix time.
func (f *Reader) Created() int64 { return f.header.created }

// Generation returns the generation of the file as far as it has been read: a later section of a journal may raise it.
func (f *Reader) Generation() uint64 { return f.header.generation }

// Offset returns the offset in the file at which the last section that Next returned ends.
func (f *Reader) Offset() int64 { return f.offset }

// Next returns the next section. Its payload is in buf if that has the capacity, and otherwise in new memory, never
// more than the rest of the file. Next does not check the entries of the section; Entries does.
//
// At the end of a sound file it returns io.EOF: right after the end section of a snapshot, and after any section of a
// journal whose base has ended. It returns the first section of a batch only if the whole batch is there. A journal may
// end with a *TornError. Any other end is a *CorruptError or the error of reading. After an error Next returns the same
// error.
func (f *Reader) Next(buf []byte) (Section, error) {
	if f.err != nil {
		return Section{}, f.err
	}
	s, err := f.next(buf)
	if err != nil {
		f.err = err
		return Section{}, err
	}
	f.offset += sectionHeaderBytes + int64(len(s.Payload))
	return s, nil
}

func (f *Reader) next(buf []byte) (Section, error) {
	tail := f.ended && f.header.kind == JournalFile // whose last section may be torn
	h, err := f.nextHeader(tail)
	if err != nil {
		return Section{}, err
	}
	if int64(cap(buf)) < h.length {
		buf = make([]byte, h.length)
	}
	if h.typ == FirstSection && !f.checking {
		if err := f.checkBatch(); err != nil {
			return Section{}, err
		}
	}
	s := Section{Type: h.typ, Count: int(h.count), Offset: f.offset, Payload: buf[:h.length]}
	if err := f.read(s.Payload, f.offset+sectionHeaderBytes); err != nil {
		return Section{}, err
	}
	if crc32.Checksum(s.Payload, castagnoli) != h.sum {
		return Section{}, f.tornOr(tail, sectionHeaderBytes+h.length, "the checksum of a section is wrong")
	}
	if err := f.enter(&s); err != nil {
		return Section{}, err
	}
	return s, nil
}

// nextHeader reads the header of the next section, and checks that such a section may stand there. tail says that it may be
// torn.
func (f *Reader) nextHeader(tail bool) (h sectionHeader, err error) {
	left := f.size - f.offset
	switch {
	case f.ended && left == 0 && !f.inBatch:
		return h, io.EOF
	case f.ended && !tail:
		return h, f.corrupt(f.offset, "a snapshot goes on behind its end")
	case left < sectionHeaderBytes:
		if tail {
			return h, f.torn()
		}
		return h, f.corrupt(f.offset, "the file ends before its base does")
	}
	if err := f.read(f.head[:], f.offset); err != nil {
		return h, err
	}
	h, flaw := parseSectionHeader(f.head[:])
	switch {
	case flaw == wrongHeader:
		return h, f.tornOr(tail, sectionHeaderBytes, flaw)
	case flaw != "":
		return h, f.corrupt(f.offset, flaw)
	case h.typ >= GenerationSection && f.header.version < 2:
		return h, f.corrupt(f.offset, "a section of an unknown type")
	case tail != h.typ.followsBase(), f.inBatch != (h.typ == MoreSection || h.typ == LastSection):
		return h, f.corrupt(f.offset, "a section of "+h.typ.String()+" where none may be")
	case h.length > left-sectionHeaderBytes && tail:
		return h, f.torn()
	case h.length > left-sectionHeaderBytes:
		return h, f.corrupt(f.offset, "the file ends within a section of its base")
	}
	return h, nil
}

// enter checks what a section says of the file, and notes what may follow it.
func (f *Reader) enter(s *Section) error {
	switch s.Type {
	case RecordsSection:
		f.entries += uint64(s.Count)
		f.sections++
	case EndSection:
		entries, sections := binary.LittleEndian.Uint64(s.Payload), binary.LittleEndian.Uint64(s.Payload[8:])
		if entries != f.entries || sections != f.sections {
			return f.corrupt(f.offset, fmt.Sprintf(
				"its base has %d entries in %d sections, and says %d in %d", f.entries, f.sections, entries, sections))
		}
		f.ended = true
	case GenerationSection:
		generation := binary.LittleEndian.Uint64(s.Payload)
		if generation <= f.header.generation || generation > MaxGeneration {
			return f.corrupt(f.offset, fmt.Sprintf(
				"generation %d comes after generation %d", generation, f.header.generation))
		}
		f.header.generation = generation
	case FirstSection:
		f.inBatch = true
	case LastSection:
		f.inBatch = false
	}
	return nil
}

// Entries calls visit for each entry of a section that Next returned, as DecodeEntries does. It returns a *CorruptError
// for an entry that is malformed or must not be in such a section. Several goroutines may decode different sections at
// once.
func (f *Reader) Entries(s Section, visit func(op Op, e *buckets.Entry) error) error {
	if s.Type == EndSection || s.Type == GenerationSection {
		return nil
	}
	err := decodeEntries(s.Payload, s.Count, f.header.version, s.Type, visit)
	if e, ok := err.(*EntryError); ok {
		return f.corrupt(s.Offset+sectionHeaderBytes+int64(e.Offset),
			fmt.Sprintf("entry %d of its section: %s", e.Index, e.Reason))
	}
	return err
}

func (f *Reader) corrupt(offset int64, reason string) error {
	return &CorruptError{f.name, offset, reason}
}

func (f *Reader) torn() error { return &TornError{f.name, f.offset, f.size - f.offset} }

// sector is the smallest unit that a disk writes, in bytes. A file system may record the new size of a file before its
// data: the file is then sound up to some multiple of sector, and zeros from there on.
const sector = 512

// tornOr returns a *TornError if the section is in the tail of a journal and the file is zeros to its end, from the
// beginning of the section or from a multiple of sector within it. Otherwise it returns a *CorruptError.
func (f *Reader) tornOr(tail bool, length int64, reason string) error {
	if !tail {
		return f.corrupt(f.offset, reason)
	}
	// Zeros from an earlier multiple are zeros from the last.
	zero, err := f.zeros(max(f.offset, (f.offset+length-1)/sector*sector))
	switch {
	case err != nil:
		return err
	case zero:
		return f.torn()
	}
	return f.corrupt(f.offset, reason)
}

// zeros reports whether all bytes of the file from offset on are zero.
func (f *Reader) zeros(offset int64) (bool, error) {
	in := bufio.NewReaderSize(io.NewSectionReader(f.r, offset, f.size-offset), sector)
	for {
		switch b, err := in.ReadByte(); {
		case err == io.EOF:
			return true, nil
		case err != nil:
			return false, fmt.Errorf("reading %s: %w", f.name, err)
		case b != 0:
			return false, nil
		}
	}
}

// read fills b with the next bytes, which are at offset.
func (f *Reader) read(b []byte, offset int64) error {
	if _, err := io.ReadFull(f.in, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // the file had size bytes when it was opened
		}
		return fmt.Errorf("reading %s at byte %d: %w", f.name, offset, err)
	}
	return nil
}
