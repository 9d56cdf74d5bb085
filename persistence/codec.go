package persistence

import (
	"encoding/binary"
	"fmt"

	"cellserver/buckets"
)

// An entry opens with its op byte: four bits that say what follows, and one for a deadline. The other bits are 0.
const (
	codeAmend   = 4 // since version 2; the codes below are those of kinds
	codeDelete  = 14
	codeFlush   = 15
	deadlineBit = 0x80
)

// Op is what an entry of a section does.
type Op int

// What entries do.
const (
	OpSet    Op = iota // the key holds this state from now on
	OpDelete           // the key holds nothing
	OpFlush            // no key holds anything
	OpAmend            // the log of the key is another one from now on, but for records that remain
)

// AppendSet appends the entry that gives a key its state. The state is one that the store keeps: of a kind, its window
// used, its log not empty. It allocates nothing but room in dst.
func AppendSet(dst []byte, e *buckets.Entry) []byte {
	if e.Kind == buckets.None {
		panic("persistence: an entry holds no bucket")
	}
	return e.AppendBody(appendHead(dst, e.Kind.Code(), e))
}

// AppendAmend appends the entry that leaves of a log what e.Kept says, and adds the records of e.Log, which are all later
// and may be none. It allocates nothing but room in dst.
func AppendAmend(dst []byte, e *buckets.Entry) []byte {
	return buckets.AppendAmendment(appendHead(dst, codeAmend, e), e.Kept, e.Log)
}

// AppendDelete appends the entry that makes a key hold nothing. It allocates nothing but room in dst.
func AppendDelete(dst, key []byte) []byte { return appendKey(append(dst, codeDelete), key) }

// AppendFlush appends the entry that makes no key hold anything: the first of its section, which it replaces all before
// with.
func AppendFlush(dst []byte) []byte { return append(dst, codeFlush) }

func appendKey(dst, key []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(key))), key...)
}

// appendHead appends what the entries of all states begin with.
func appendHead(dst []byte, code byte, e *buckets.Entry) []byte {
	if e.Deadline == 0 {
		return appendKey(append(dst, code), e.Key)
	}
	dst = appendKey(append(dst, code|deadlineBit), e.Key)
	return binary.LittleEndian.AppendUint64(dst, uint64(e.Deadline))
}

// EntryError is returned for a payload that is not what it should be.
type EntryError struct {
	Index  int // of the entry; their number, for what follows the last
	Offset int // where the entry begins in the payload
	Reason string
}

// Error returns the text.
func (e *EntryError) Error() string {
	return fmt.Sprintf("entry %d, at byte %d of its section: %s", e.Index, e.Offset, e.Reason)
}

// DecodeEntries calls visit for each of the count entries that payload is made of; both may come from anywhere. The entry
// has a Key if op is not OpFlush, and its state if it is OpSet or OpAmend. It, its Key and its Log are only valid until visit
// returns.
//
// A payload that is malformed, or has bytes left over, is an *EntryError; the entries before the malformed one have been
// visited. An error of visit ends it and is returned as it is. All that is allocated is room for the longest sliding log,
// which is at most ten bytes for each byte of payload.
func DecodeEntries(payload []byte, count int, visit func(op Op, e *buckets.Entry) error) error {
	return decodeEntries(payload, count, formatVersion, ChangesSection, visit)
}

// decodeEntries is DecodeEntries for a section of a file of some version, and refuses what has no place in it.
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

// decoder reads entries. What it reads once it has found a flaw means nothing.
type decoder struct {
	buckets.Decoder
	version uint32
	e       buckets.Entry
}

// entry reads one.
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

// change reads what follows a code that is not of a state.
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
