package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

const (
	magic = "\x89CELL\r\n\x1a"
	// formatVersion is the version of the format of every file that is written. Files of all versions up to it can be
	// loaded.
	formatVersion = 3

	fileHeaderBytes    = 28
	sectionHeaderBytes = 20
	endBytes           = 16
	generationBytes    = 8

	// MaxPayload is the largest payload of a section, in bytes.
	MaxPayload = 1 << 30
)

// castagnoli is the polynomial of CRC-32C, which processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FileKind tells a snapshot from a journal.
type FileKind uint8

// The kinds of file.
const (
	SnapshotFile FileKind = 1 // the state of every key at one moment
	JournalFile  FileKind = 2 // a base, which is like a snapshot, and the changes since
)

// String returns the name.
func (k FileKind) String() string {
	switch k {
	case SnapshotFile:
		return "snapshot"
	case JournalFile:
		return "journal"
	}
	return fmt.Sprintf("kind %d", k)
}

// SectionType says what the payload of a section holds.
type SectionType uint8

// The types of section.
const (
	RecordsSection SectionType = 1 // entries of the base
	ChangesSection SectionType = 2 // changes that are applied all or none
	EndSection     SectionType = 3 // the end of the base, with its totals

	GenerationSection SectionType = 4 // a higher generation, from here on

	FirstSection SectionType = 5 // the first entries of a batch
	MoreSection  SectionType = 6 // entries in the middle of a batch
	LastSection  SectionType = 7 // the last entries of a batch
)

// String returns the name.
func (t SectionType) String() string {
	switch t {
	case RecordsSection:
		return "records"
	case ChangesSection:
		return "changes"
	case EndSection:
		return "end"
	case GenerationSection:
		return "generation"
	case FirstSection:
		return "first changes"
	case MoreSection:
		return "more changes"
	case LastSection:
		return "last changes"
	}
	return fmt.Sprintf("type %d", t)
}

// MaxGeneration is the largest generation of a file: the header has 48 bits for it.
const MaxGeneration = 1<<48 - 1

// secondsMask has the 40 bits that the header has for the time at which the file was begun, in seconds.
const secondsMask = 1<<40 - 1

// fileHeader is the header of a file without the parts that are the same in every file.
type fileHeader struct {
	version    uint32
	kind       FileKind
	created    int64  // nanoseconds of Unix time; version 2 keeps the seconds
	generation uint64 // 0 in version 1, which has none
}

// append appends the header in the current version of the format.
func (h *fileHeader) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, formatVersion)
	dst = append(dst, byte(h.kind))
	seconds := uint64(max(h.created, 0) / int64(time.Second))
	dst = append(dst, byte(seconds), byte(seconds>>8), byte(seconds>>16), byte(seconds>>24), byte(seconds>>32))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.generation))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(h.generation>>32))
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// sectionHeader is the header of a section without its own CRC.
type sectionHeader struct {
	length int64
	typ    SectionType
	count  int64
	sum    uint32 // the CRC of the payload
}

func (h *sectionHeader) append(dst []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.length))
	dst = append(dst, byte(h.typ), 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.count))
	dst = binary.LittleEndian.AppendUint32(dst, h.sum)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// wrongHeader is the flaw of a section header whose CRC is wrong: neither its length nor anything else in it can be
// trusted.
const wrongHeader = "the checksum of a section header is wrong"

// parseSectionHeader decodes a section header. flaw is "" if it is valid.
func parseSectionHeader(b []byte) (h sectionHeader, flaw string) {
	h = sectionHeader{
		length: int64(binary.LittleEndian.Uint32(b)),
		typ:    SectionType(b[4]),
		count:  int64(binary.LittleEndian.Uint32(b[8:])),
		sum:    binary.LittleEndian.Uint32(b[12:]),
	}
	switch {
	case crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]):
		return h, wrongHeader
	case b[5]|b[6]|b[7] != 0:
		return h, "bytes of a section header that have to be 0 are not"
	case h.length > MaxPayload:
		return h, "a section is longer than a section may be"
	case h.typ == EndSection:
		if h.length != endBytes || h.count != 0 {
			return h, "an end of another length"
		}
	case h.typ == GenerationSection:
		if h.length != generationBytes || h.count != 0 {
			return h, "a generation of another length"
		}
	case h.typ != RecordsSection && h.typ != ChangesSection && !h.typ.inBatch():
		return h, "a section of an unknown type"
	case h.count == 0 || h.count > h.length:
		return h, "a section has no entries, or more than it has bytes"
	}
	return h, ""
}

// Writer writes a file, one section after the other. After an error of the io.Writer every call returns that error, and
// the file may have a part of a section beyond Offset.
type Writer struct {
	w        io.Writer
	kind     FileKind
	offset   int64
	entries  uint64 // of the records sections so far
	sections uint64 // records sections so far
	ended    bool
	err      error
	buffer   []byte
}

// maxGathered is the largest payload, in bytes, that is copied so that it is written in one call with its header.
const maxGathered = 64 << 10

// NewWriter writes the header of a file. created is in nanoseconds of Unix time, and kept in whole seconds. Of a
// snapshot and a journal in one directory, the one with the higher generation is the newer one; 0 is the lowest.
//
// Each section is one Write, and two if its payload is larger than 64 KiB, so that it is not copied.
func NewWriter(w io.Writer, kind FileKind, created int64, generation uint64) (*Writer, error) {
	if kind != SnapshotFile && kind != JournalFile {
		return nil, fmt.Errorf("persistence: no kind of file: %d", kind)
	}
	if generation > MaxGeneration {
		return nil, fmt.Errorf("persistence: generation %d: at most %d", generation, uint64(MaxGeneration))
	}
	f := &Writer{w: w, kind: kind}
	h := fileHeader{kind: kind, created: created, generation: generation}
	if err := f.write(h.append(nil)); err != nil {
		return nil, err
	}
	f.offset = fileHeaderBytes
	return f, nil
}

// ResumeJournal returns a Writer that appends changes to a journal that has been loaded. It requires that the file is
// offset bytes long, that w appends to it, and that the journal is of the current version of the format: a header of an
// older version promises that no newer entries follow.
func ResumeJournal(w io.Writer, offset int64) *Writer {
	return &Writer{w: w, kind: JournalFile, offset: offset, ended: true}
}

// Offset returns the offset in the file at which the last whole section ends.
func (f *Writer) Offset() int64 { return f.offset }

// Errors of sections in a wrong order. Nothing has been written when they are returned.
var (
	errEnded    = errors.New("persistence: the base has ended")
	errNotEnded = errors.New("persistence: the base has not ended")
	errSnapshot = errors.New("persistence: a snapshot has no changes")
)

// Records writes a section of the base. payload is count entries that AppendSet has appended; if it is empty, nothing
// is written.
func (f *Writer) Records(payload []byte, count int) error {
	if f.ended {
		return errEnded
	}
	if count == 0 && len(payload) == 0 {
		return f.err
	}
	if err := f.section(RecordsSection, payload, count); err != nil {
		return err
	}
	f.entries += uint64(count)
	f.sections++
	return nil
}

// End ends the base. A snapshot is complete then, and a journal takes changes.
func (f *Writer) End() error {
	if f.ended {
		return errEnded
	}
	var payload [endBytes]byte
	binary.LittleEndian.PutUint64(payload[:], f.entries)
	binary.LittleEndian.PutUint64(payload[8:], f.sections)
	if err := f.section(EndSection, payload[:], 0); err != nil {
		return err
	}
	f.ended = true
	return nil
}

// Changes appends changes to a journal; loading applies all of them or none. payload is count entries that the Append
// functions have written, an AppendFlush only as the first; if it is empty, nothing is written. A large payload becomes
// a batch of several sections.
func (f *Writer) Changes(payload []byte, count int) error {
	switch {
	case f.kind == SnapshotFile:
		return errSnapshot
	case !f.ended:
		return errNotEnded
	case count == 0 && len(payload) == 0:
		return f.err
	}
	if len(payload) > partBytes {
		return f.writeBatch(payload, count)
	}
	return f.section(ChangesSection, payload, count)
}

// Generation gives a journal a higher generation, which makes it newer than all files of a lower one.
func (f *Writer) Generation(generation uint64) error {
	switch {
	case f.kind == SnapshotFile:
		return errSnapshot
	case !f.ended:
		return errNotEnded
	case generation > MaxGeneration:
		return fmt.Errorf("persistence: generation %d: at most %d", generation, uint64(MaxGeneration))
	}
	return f.section(GenerationSection, binary.LittleEndian.AppendUint64(nil, generation), 0)
}

func (f *Writer) section(typ SectionType, payload []byte, count int) error {
	switch {
	case f.err != nil:
		return f.err
	case len(payload) > MaxPayload:
		return fmt.Errorf("persistence: a section of %d bytes: at most %d", len(payload), MaxPayload)
	case typ != EndSection && typ != GenerationSection && (count <= 0 || count > len(payload)):
		return fmt.Errorf("persistence: %d entries in %d bytes", count, len(payload))
	}
	h := sectionHeader{int64(len(payload)), typ, int64(count), crc32.Checksum(payload, castagnoli)}
	f.buffer = h.append(f.buffer[:0])
	rest := payload
	if len(payload) <= maxGathered {
		f.buffer, rest = append(f.buffer, payload...), nil
	}
	if err := f.write(f.buffer); err != nil {
		return err
	}
	if len(rest) > 0 {
		if err := f.write(rest); err != nil {
			return err
		}
	}
	f.offset += sectionHeaderBytes + int64(len(payload))
	return nil
}

func (f *Writer) write(b []byte) error {
	n, err := f.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	f.err = err
	return err
}
