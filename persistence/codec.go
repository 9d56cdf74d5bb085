package persistence

import (
	"encoding/binary"
	"fmt"
	"math"

	"cellserver/buckets"
)

// An entry begins with its op byte: four bits of code, a bit that is set if a deadline follows the key, and one that is set
// if the number of a database follows the op byte. The other bits are 0.
const (
	codeAmend    = 4  // since version 2; the codes of states are those of their kinds
	codeSwap     = 12 // since version 3
	codeFlush    = 13 // since version 3
	codeDelete   = 14
	codeFlushAll = 15
	deadlineBit  = 0x80
	databaseBit  = 0x40 // since version 3
)

// maxDatabase is the highest number that a database has in a file.
const maxDatabase = math.MaxInt32

// Op is the effect of an entry on its key, or on databases.
type Op int

// The ops of entries.
const (
	OpSet      Op = iota // the key holds this state from now on
	OpDelete             // the key holds nothing
	OpFlushAll           // no key of any database holds anything
	OpAmend              // the log of the key keeps the records that e.Kept names, and gets those of e.Log
	OpFlush              // no key of the database holds anything
	OpSwap               // the databases e.Database and e.With have each other's keys
)

// AppendSet appends the entry that sets the state of a key. It requires a state that a store keeps: it has a kind, a window has
// Used above 0, and a log is not empty. It allocates only to grow dst.
func AppendSet(dst []byte, e *buckets.Entry) []byte {
	if e.Kind == buckets.None {
		panic("persistence: an entry holds no bucket")
	}
	if e.Kind.KeepsExpiry() && e.Deadline != 0 {
		panic("persistence: a state that has its expiry has a deadline beside it")
	}
	return e.AppendBody(appendHead(dst, e.Kind.Code(), e))
}

// AppendAmend appends the entry that amends a log: the records within e.Kept stay, and those of e.Log are added. It
// requires that the records of e.Log, of which there may be none, are later than e.Kept.Newest. It allocates only to
// grow dst.
func AppendAmend(dst []byte, e *buckets.Entry) []byte {
	return buckets.AppendAmendment(appendHead(dst, codeAmend, e), e.Kept, e.Log)
}

// AppendDelete appends the entry that deletes a key of a database. It allocates only to grow dst.
func AppendDelete(dst []byte, db int, key []byte) []byte {
	return appendKey(appendOp(dst, codeDelete, db), key)
}

// AppendFlushAll appends the entry that deletes all keys of all databases. It may only be the first entry of a section.
func AppendFlushAll(dst []byte) []byte { return append(dst, codeFlushAll) }

// AppendFlush appends the entry that deletes all keys of a database.
func AppendFlush(dst []byte, db int) []byte { return appendOp(dst, codeFlush, db) }

// AppendSwap appends the entry that swaps two databases, which must differ.
func AppendSwap(dst []byte, a, b int) []byte {
	return binary.AppendUvarint(appendOp(dst, codeSwap, min(a, b)), uint64(max(a, b)))
}

// appendOp appends the op byte and, unless it is 0, the number of the database.
func appendOp(dst []byte, op byte, db int) []byte {
	if db == 0 {
		return append(dst, op)
	}
	return binary.AppendUvarint(append(dst, op|databaseBit), uint64(db))
}

func appendKey(dst, key []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(key))), key...)
}

// appendHead appends the op byte, the key and the deadline of an entry that sets or amends a state.
func appendHead(dst []byte, code byte, e *buckets.Entry) []byte {
	if e.Deadline == 0 {
		return appendKey(appendOp(dst, code, e.Database), e.Key)
	}
	dst = appendKey(appendOp(dst, code|deadlineBit, e.Database), e.Key)
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
// Key if op is OpSet, OpAmend or OpDelete, and a state if op is OpSet or OpAmend. The entry, its Key and its Log are valid until visit
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
		case op == OpFlushAll && (i > 0 || in == MoreSection || in == LastSection):
			return &EntryError{i, start, "a flush of all databases that is not the first entry"}
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
	bare := code // without the bit for a database
	if d.version >= 3 {
		bare &^= databaseBit
	}
	d.e = buckets.Entry{}
	op, kind := OpSet, d.kindOf(bare&^deadlineBit)
	if bare&^deadlineBit == codeAmend && d.version >= 2 {
		op, kind = OpAmend, buckets.Slide
	}
	if kind == buckets.None || kind.KeepsExpiry() && code&deadlineBit != 0 {
		return d.change(code, bare)
	}
	d.database(code, bare)
	d.e.Key, d.e.Kind = d.key(), kind
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

// kindOf returns the kind of state that a code stands for in a file of this version, or None.
func (d *decoder) kindOf(code byte) buckets.Kind {
	kind := buckets.KindOfCode(code)
	if kind.KeepsExpiry() && d.version < 3 {
		return buckets.None
	}
	return kind
}

// database reads the number of the database, if the op byte differs from what it is without the bit that says that there
// is one.
func (d *decoder) database(code, bare byte) {
	if code != bare {
		d.e.Database = d.number()
	}
}

// number reads the number of a database that is not 0.
func (d *decoder) number() int {
	n := d.Uvarint()
	d.FailIf(n == 0 || n > maxDatabase, "a number of a database that is 0, or beyond 31 bits")
	return int(n & maxDatabase)
}

// change reads the rest of an entry whose op byte is not that of a state. bare is the op byte without the bit for a
// database.
func (d *decoder) change(code, bare byte) Op {
	switch {
	case bare == codeDelete:
		d.database(code, bare)
		d.e.Key = d.key()
		return OpDelete
	case code == codeFlushAll:
		return OpFlushAll
	case bare == codeFlush && d.version >= 3:
		d.database(code, bare)
		return OpFlush
	case bare == codeSwap && d.version >= 3:
		d.database(code, bare)
		d.e.With = d.number()
		d.FailIf(d.e.With <= d.e.Database, "a swap of databases that are not in ascending order")
		return OpSwap
	}
	d.Fail(fmt.Sprintf("unknown op byte 0x%02x", code))
	return OpFlushAll
}

func (d *decoder) key() []byte { return d.Bytes(d.Uvarint()) }
