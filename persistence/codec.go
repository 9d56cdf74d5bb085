package persistence

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"cellserver/buckets"
)

// An entry opens with its op byte: four bits that say what follows, and one for a deadline. The other bits are 0.
const (
	codeThrottle = 1
	codeWindow   = 2
	codeSlide    = 3
	codeAmend    = 4 // since version 2
	codeDelete   = 14
	codeFlush    = 15
	codeBits     = 0x0f
	deadlineBit  = 0x80
)

// Whether the quantities of a sliding log are written down, or are all 1 as they mostly are.
const (
	allOnes        = 0
	withQuantities = 1
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
	var code byte
	switch e.Kind {
	case buckets.Throttle:
		code = codeThrottle
	case buckets.Window:
		code = codeWindow
	case buckets.Slide:
		code = codeSlide
	default:
		panic("persistence: an entry holds no bucket")
	}
	dst = appendHead(dst, code, e)
	switch code {
	case codeThrottle:
		return binary.LittleEndian.AppendUint64(dst, uint64(e.TAT))
	case codeWindow:
		dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Window.Start))
		dst = binary.AppendUvarint(dst, uint64(e.Window.End)-uint64(e.Window.Start))
		return binary.AppendUvarint(dst, uint64(e.Window.Used))
	}
	return appendLog(dst, e.Log)
}

// AppendAmend appends the entry that leaves of a log what e.Kept says, and adds the records of e.Log, which are all later
// and may be none. It allocates nothing but room in dst.
func AppendAmend(dst []byte, e *buckets.Entry) []byte {
	dst = appendHead(dst, codeAmend, e)
	dst = binary.AppendUvarint(dst, uint64(e.Log.Period()))
	quantities := hasQuantities(e.Log)
	dst = append(dst, flagOf(quantities))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.Kept.Oldest))
	dst = binary.AppendUvarint(dst, uint64(e.Kept.Newest)-uint64(e.Kept.Oldest))
	dst = binary.AppendUvarint(dst, uint64(e.Log.Len()))
	return appendRecords(dst, e.Log, e.Kept.Newest, quantities)
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

func appendLog(dst []byte, log buckets.Log) []byte {
	quantities := hasQuantities(log)
	dst = binary.AppendUvarint(dst, uint64(log.Period()))
	dst = append(dst, flagOf(quantities))
	dst = binary.AppendUvarint(dst, uint64(log.Len()))
	first := log.Time(0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(first))
	return appendRecords(dst, log, first, quantities)
}

// hasQuantities reports whether a log has quantities other than 1. None is below 1, so that it shows in their sum.
func hasQuantities(log buckets.Log) bool {
	n := log.Len()
	return log.Before(n)-log.Before(0) != uint64(n)
}

func flagOf(quantities bool) byte {
	if quantities {
		return withQuantities
	}
	return allOnes
}

// appendRecords appends the records of a log, the first of them as it differs from last.
func appendRecords(dst []byte, log buckets.Log, last int64, quantities bool) []byte {
	before := log.Before(0)
	for i := range log.Len() {
		t := log.Time(i)
		dst = binary.AppendUvarint(dst, uint64(t)-uint64(last))
		last = t
		if quantities {
			through := log.Before(i + 1)
			dst = binary.AppendUvarint(dst, through-before)
			before = through
		}
	}
	return dst
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
	d := &decoder{payload: payload, version: version}
	for i := range count {
		start := d.at
		op := d.entry()
		switch {
		case d.flaw != "":
			return &EntryError{i, start, d.flaw}
		case op != OpSet && in == RecordsSection:
			return &EntryError{i, start, "a change among records"}
		case op == OpFlush && (i > 0 || in == MoreSection || in == LastSection):
			return &EntryError{i, start, "a flush that is not the first entry"}
		}
		if err := visit(op, &d.e); err != nil {
			return err
		}
	}
	if left := len(payload) - d.at; left > 0 {
		return &EntryError{count, d.at, fmt.Sprintf("%d bytes after the last entry", left)}
	}
	return nil
}

// decoder reads entries. What it reads once it has found a flaw means nothing.
type decoder struct {
	payload []byte
	version uint32
	at      int    // what is before it has been read
	flaw    string // the first; "" is none
	e       buckets.Entry
	log     decodedLog
}

func (d *decoder) fail(flaw string) {
	if d.flaw == "" {
		d.flaw = flaw
	}
}

// failIf reports whether anything is wrong, this or something before.
func (d *decoder) failIf(wrong bool, flaw string) bool {
	if wrong {
		d.fail(flaw)
	}
	return d.flaw != ""
}

const cutShort = "the section ends within the entry"

func (d *decoder) byte() byte {
	if d.at == len(d.payload) {
		d.fail(cutShort)
		return 0
	}
	d.at++
	return d.payload[d.at-1]
}

func (d *decoder) int64() int64 {
	b := d.payload[d.at:]
	if len(b) < 8 {
		d.fail(cutShort)
		return 0
	}
	d.at += 8
	return int64(binary.LittleEndian.Uint64(b))
}

func (d *decoder) uvarint() uint64 {
	b := d.payload[d.at:]
	if len(b) > 0 && b[0] < 0x80 {
		d.at++
		return uint64(b[0])
	}
	v, n := binary.Uvarint(b)
	switch {
	case n == 0:
		d.fail(cutShort)
	case n < 0:
		d.fail("a number of more than 64 bits")
	case b[n-1] == 0:
		d.fail("a number in more bytes than it needs")
	default:
		d.at += n
	}
	return v
}

// entry reads one.
func (d *decoder) entry() Op {
	code := d.byte()
	op := OpSet
	var kind buckets.Kind
	switch code &^ deadlineBit {
	case codeThrottle:
		kind = buckets.Throttle
	case codeWindow:
		kind = buckets.Window
	case codeSlide:
		kind = buckets.Slide
	case codeAmend:
		if op, kind = OpAmend, buckets.Slide; d.version < 2 {
			return d.change(code)
		}
	default:
		return d.change(code)
	}
	d.e = buckets.Entry{Key: d.key(), Kind: kind}
	if code&deadlineBit != 0 {
		d.e.Deadline = d.int64()
		d.failIf(d.e.Deadline == 0, "a deadline of 0")
	}
	switch {
	case op == OpAmend:
		d.amend()
	case kind == buckets.Throttle:
		d.e.TAT = d.int64()
	case kind == buckets.Window:
		d.window()
	case kind == buckets.Slide:
		d.slide()
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
	d.fail(fmt.Sprintf("unknown op byte 0x%02x", code))
	return OpFlush
}

func (d *decoder) key() []byte {
	length := d.uvarint()
	if d.failIf(length > uint64(len(d.payload)-d.at), cutShort) {
		return nil
	}
	start := d.at
	d.at += int(length)
	return d.payload[start:d.at:d.at]
}

// after returns the time so much later than t.
func (d *decoder) after(t int64, delta uint64) int64 {
	d.failIf(delta > uint64(math.MaxInt64)-uint64(t), "a time beyond 64 bits")
	return int64(uint64(t) + delta)
}

func (d *decoder) window() {
	w := &d.e.Window
	w.Start = d.int64()
	length := d.uvarint()
	w.End = d.after(w.Start, length)
	used := d.uvarint()
	w.Used = int64(used)
	d.failIf(length == 0, "a window that ends as it starts")
	d.failIf(used == 0 || used > math.MaxInt64, "a window whose use is 0 or beyond 63 bits")
}

func (d *decoder) slide() {
	flag := d.periodAndFlag()
	declared := d.uvarint()
	first := d.int64()
	if d.failIf(declared == 0, "an empty log") {
		return
	}
	d.records(flag, declared, first)
	d.failIf(len(d.log.times) > 0 && d.log.times[0] != first, "a first record that is not at the first time")
}

func (d *decoder) amend() {
	flag := d.periodAndFlag()
	kept := &d.e.Kept
	kept.Oldest = d.int64()
	kept.Newest = d.after(kept.Oldest, d.uvarint())
	d.records(flag, d.uvarint(), kept.Newest)
	d.failIf(len(d.log.times) > 0 && d.log.times[0] == kept.Newest, "a new record that is not later than those that remain")
}

// periodAndFlag reads what a log begins with, and returns its flag.
func (d *decoder) periodAndFlag() byte {
	period := d.uvarint()
	d.failIf(period == 0 || period > uint64(buckets.MaxPeriod), "a period of 0, or beyond the longest")
	flag := d.byte()
	d.failIf(flag > withQuantities, "an unknown flag of a log")
	d.log.period = int64(period)
	return flag
}

// records reads so many records, the first of which is written as it differs from t, and makes them the log of the entry.
func (d *decoder) records(flag byte, declared uint64, t int64) {
	most := uint64(len(d.payload)-d.at) / (1 + uint64(flag)) // a record takes a byte, or two, at the least
	g := &d.log
	g.times, g.sums = g.times[:0], g.sums[:0]
	if d.failIf(declared > most, cutShort) {
		return
	}
	n := int(declared)
	g.times = slices.Grow(g.times, n)
	if flag == withQuantities {
		g.sums = append(slices.Grow(g.sums, n+1), 0)
	}
	sum := uint64(0)
	for range n {
		t = d.after(t, d.uvarint())
		g.times = append(g.times, t)
		if flag == withQuantities {
			quantity := d.uvarint()
			d.failIf(quantity == 0 || quantity > math.MaxInt64-sum, "a quantity of 0, or a sum beyond 63 bits")
			sum += quantity
			g.sums = append(g.sums, sum)
		}
		if d.flaw != "" {
			return
		}
	}
	d.failIf(flag == withQuantities && sum == declared, "quantities written down though all are 1")
	d.e.Log = g
}

// decodedLog is the log that an entry holds; the next one takes its memory.
type decodedLog struct {
	period int64
	times  []int64
	sums   []uint64 // before each record, and of all; empty if all quantities are 1
}

// Len implements buckets.Log.
func (g *decodedLog) Len() int { return len(g.times) }

// Time implements buckets.Log.
func (g *decodedLog) Time(i int) int64 { return g.times[i] }

// Period implements buckets.Log.
func (g *decodedLog) Period() int64 { return g.period }

// Before implements buckets.Log.
func (g *decodedLog) Before(i int) uint64 {
	if len(g.sums) == 0 {
		return uint64(i)
	}
	return g.sums[i]
}
