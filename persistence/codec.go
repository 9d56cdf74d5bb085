package persistence

import (
	"encoding/binary"
	"fmt"

	"cellserver/buckets"
)

// An entry begins with its op byte: four bits of code, and a bit that is set if a deadline follows the key. The other
// bits are 0.
const (
	codeAmend   = 4 // since version 2; the codes of states are those of their kinds
	codeDelete  = 14
	codeFlush   = 15
	deadlineBit = 0x80
)

// Op is the effect of an entry on its key.
type Op int

// The ops of entries.
const (
	OpSet    Op = iota // the key holds this state from now on
	OpDelete           // the key holds nothing
	OpFlush            // no key holds anything
	OpAmend            // the log of the key keeps the records that e.Kept names, and gets those of e.Log
)

// AppendSet appends the entry that sets the state of a key. It requires a state that a store keeps: it has a kind, a window has
// Used above 0, and a log is not empty. It allocates only to grow dst.
func AppendSet(dst []byte, e *buckets.Entry) []byte {
	if e.Kind == buckets.None {
		panic("persistence: an entry holds no bucket")
	}
	return e.AppendBody(appendHead(dst, e.Kind.Code(), e))
}

// AppendAmend appends the entry that amends a log: the records within e.Kept stay, and those of e.Log are added. It
// requires that the records of e.Log, of which there may be none, are later than e.Kept.Newest. It allocates only to
// grow dst.
func AppendAmend(dst []byte, e *buckets.Entry) []byte {
	return buckets.AppendAmendment(appendHead(dst, codeAmend, e), e.Kept, e.Log)
}

// AppendDelete appends the entry that deletes a key. It allocates only to grow dst.
func AppendDelete(dst, key []byte) []byte { return appendKey(append(dst, codeDelete), key) }

// AppendFlush appends the entry that deletes all keys. It may only be the first entry of a section.
func AppendFlush(dst []byte) []byte { return append(dst, codeFlush) }

func appendKey(dst, key []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(key))), key...)
}

// appendHead appends the op byte, the key and the deadline of an entry that sets or amends a state.
func appendHead(dst []byte, code byte, e *buckets.Entry) []byte {
	if e.Deadline == 0 {
		return appendKey(append(dst, code), e.Key)
	}
	dst = appendKey(append(dst, code|deadlineBit), e.Key)
	return binary.LittleEndian.AppendUint64(dst, uint64(e.Deadline))
}

// EntryError is returned for a malformed payload.
type EntryError struct {
	Index  int // of the entry, or the number of entries for bytes after the last one
	Offset int // of the entry in the payload, in bytes
	Reason string
}

// Error returns the text.
func (e *EntryError) Error() string {
	return fmt.Sprintf("entry %d, at byte %d of its section: %s", e.Index, e.Offset, e.Reason)
}

// DecodeEntries calls visit for each of the count entries of payload. Neither argument need be trusted. The entry has a
// Key unless op is OpFlush, and a state if op is OpSet or OpAmend. The entry, its Key and its Log are valid until visit
// returns.
//
// For a malformed entry, or bytes after the last one, it returns an *EntryError; the entries before have been visited.
// It returns an error of visit at once and unchanged. It allocates only room for the longest log, at most ten bytes for
// each byte of payload.
func DecodeEntries(payload []byte, count int, visit func(op Op, e *buckets.Entry) error) error {
	return decodeEntries(payload, count, formatVersion, ChangesSection, visit)
}

// decodeEntries is DecodeEntries for a section of type in of a file of the given version. It refuses entries that such
// a section must not have.
func decodeEntries(payload []byte, count int, version uint32, in SectionType, visit func(op Op, e *buckets.Entry) error) error {
	d := &decoder{Decoder: buckets.Decoder{Src: payload}, version: version}
	for i := range count {
		start := d.At
		op := d.entry()
		switch {
		case d.Flaw != "":
			return &EntryError{i, start, d.Flaw}
		case op != OpSet && in == RecordsSection:
			return &EntryError{i, start, "a change among records"}
		case op == OpFlush && (i > 0 || in == MoreSection || in == LastSection):
			return &EntryError{i, start, "a flush that is not the first entry"}
		}
		if err := visit(op, &d.e); err != nil {
			return err
		}
	}
	if left := len(payload) - d.At; left > 0 {
		return &EntryError{count, d.At, fmt.Sprintf("%d bytes after the last entry", left)}
	}
	return nil
}

// decoder reads entries. Once it has a Flaw, what it returns is meaningless.
type decoder struct {
	buckets.Decoder
	version uint32
	e       buckets.Entry
}

// entry reads one entry into d.e, and returns its op.
func (d *decoder) entry() Op {
	code := d.Byte()
	op, kind := OpSet, buckets.KindOfCode(code&^deadlineBit)
	if code&^deadlineBit == codeAmend && d.version >= 2 {
		op, kind = OpAmend, buckets.Slide
	}
	if kind == buckets.None {
		return d.change(code)
	}
	d.e = buckets.Entry{Key: d.key(), State: buckets.State{Kind: kind}}
	if code&deadlineBit != 0 {
		d.e.Deadline = d.Int64()
		d.FailIf(d.e.Deadline == 0, "a deadline of 0")
	}
	if op == OpAmend {
		d.e.Kept, d.e.Log = d.Amendment()
	} else {
		d.Body(&d.e.State)
	}
	return op
}

// change reads the rest of an entry whose op byte is not that of a state.
func (d *decoder) change(code byte) Op {
	d.e = buckets.Entry{}
	switch code {
	case codeDelete:
		d.e.Key = d.key()
		return OpDelete
	case codeFlush:
		return OpFlush
	}
	d.Fail(fmt.Sprintf("unknown op byte 0x%02x", code))
	return OpFlush
}

func (d *decoder) key() []byte { return d.Bytes(d.Uvarint()) }
