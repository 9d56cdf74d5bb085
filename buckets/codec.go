package buckets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// The encoding of a state, in files and in other stores: one byte for its kind, and then the encoding of its algorithm.
// persistence/FORMAT.md specifies the format.

// CodeBits masks the bits of the first byte of a state that hold its kind. The other bits belong to the format around the
// state.
const CodeBits = 0x0f

// Code returns the byte that stands for the kind in files. It is at most CodeBits.
func (k Kind) Code() byte { return algorithms[k].code }

// KindOfCode returns the kind that a code stands for, or None.
func KindOfCode(code byte) Kind {
	for k := range algorithms {
		if Kind(k) != None && algorithms[k].code == code {
			return Kind(k)
		}
	}
	return None
}

// AppendBinary implements encoding.BinaryAppender. It appends the code of the kind and then the state. A state that holds
// nothing has no encoding: for it, and for an empty log, which is the same, AppendBinary returns dst unchanged and an
// error.
func (st *State) AppendBinary(dst []byte) ([]byte, error) {
	switch {
	case !st.Kind.Known():
		return dst, errors.New("buckets: a state that holds nothing has no encoding")
	case st.Kind.Words() == 0 && st.log().Len() == 0:
		return dst, errors.New("buckets: an empty log has no encoding")
	}
	return st.AppendBody(append(dst, st.Kind.Code())), nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler. It accepts exactly what AppendBinary appends, so that a state
// has one encoding. b need not be trusted. After an error st holds nothing. The log of the state shares no memory with b.
func (st *State) UnmarshalBinary(b []byte) error {
	d := Decoder{Src: b}
	kind := KindOfCode(d.Byte())
	if kind == None {
		d.Fail("an unknown kind")
	} else {
		*st = State{Kind: kind}
		d.Body(st)
	}
	d.FailIf(d.At != len(b), "bytes after the state")
	if d.Flaw != "" {
		*st = State{}
		return fmt.Errorf("buckets: %s", d.Flaw)
	}
	if st.Log != nil {
		st.Log = copyLog(st.Log)
	}
	return nil
}

// AppendBody appends the state without its code. It requires that the state holds something; an empty log holds nothing.
func (st *State) AppendBody(dst []byte) []byte { return algorithms[st.Kind].encode(dst, st) }

// Decoder reads states, and the fields around them, from bytes that need not be trusted. Once Flaw is set, the values
// that it returns are meaningless.
type Decoder struct {
	Src  []byte
	At   int    // offset of the next byte to read
	Flaw string // the first error in Src; "" while there is none

	log decodedLog
}

// cutShort is the flaw of input that ends too early.
const cutShort = "the section ends within the entry"

// Fail sets the flaw, unless one is set.
func (d *Decoder) Fail(flaw string) {
	if d.Flaw == "" {
		d.Flaw = flaw
	}
}

// FailIf sets the flaw if wrong is true, unless one is set. It reports whether a flaw is set.
func (d *Decoder) FailIf(wrong bool, flaw string) bool {
	if wrong {
		d.Fail(flaw)
	}
	return d.Flaw != ""
}

// Byte reads a byte.
func (d *Decoder) Byte() byte {
	if d.At == len(d.Src) {
		d.Fail(cutShort)
		return 0
	}
	d.At++
	return d.Src[d.At-1]
}

// Int64 reads eight bytes in little-endian order.
func (d *Decoder) Int64() int64 {
	b := d.Src[d.At:]
	if len(b) < 8 {
		d.Fail(cutShort)
		return 0
	}
	d.At += 8
	return int64(binary.LittleEndian.Uint64(b))
}

// Uvarint reads an unsigned varint of up to 64 bits. An encoding that is longer than necessary is a flaw.
func (d *Decoder) Uvarint() uint64 {
	b := d.Src[d.At:]
	if len(b) > 0 && b[0] < 0x80 {
		d.At++
		return uint64(b[0])
	}
	v, n := binary.Uvarint(b)
	switch {
	case n == 0:
		d.Fail(cutShort)
	case n < 0:
		d.Fail("a number of more than 64 bits")
	case b[n-1] == 0:
		d.Fail("a number in more bytes than it needs")
	default:
		d.At += n
	}
	return v
}

// Bytes reads n bytes and returns them as a part of Src.
func (d *Decoder) Bytes(n uint64) []byte {
	if d.FailIf(n > uint64(len(d.Src)-d.At), cutShort) {
		return nil
	}
	start := d.At
	d.At += int(n)
	return d.Src[start:d.At:d.At]
}

// After returns t + delta. A sum beyond int64 is a flaw.
func (d *Decoder) After(t int64, delta uint64) int64 {
	d.FailIf(delta > uint64(math.MaxInt64)-uint64(t), "a time beyond 64 bits")
	return int64(uint64(t) + delta)
}

// Body reads into st what AppendBody has appended. It requires that st.Kind is set. A Log is valid until the next one is
// read.
func (d *Decoder) Body(st *State) { algorithms[st.Kind].decode(d, st) }

// The flag of a log: its quantities are all 1, which is the usual case, or they are written with the records.
const (
	allOnes        = 0
	withQuantities = 1
)

func appendLog(dst []byte, log Log) []byte {
	quantities := hasQuantities(log)
	dst = binary.AppendUvarint(dst, uint64(log.Period()))
	dst = append(dst, flagOf(quantities))
	dst = binary.AppendUvarint(dst, uint64(log.Len()))
	first := log.Time(0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(first))
	return appendRecords(dst, log, first, quantities)
}

// AppendAmendment appends an amendment of a log: the interval in which its records stay, and the records of added. It
// requires that the records of added, of which there may be none, are later than kept.Newest.
func AppendAmendment(dst []byte, kept Kept, added Log) []byte {
	quantities := hasQuantities(added)
	dst = binary.AppendUvarint(dst, uint64(added.Period()))
	dst = append(dst, flagOf(quantities))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(kept.Oldest))
	dst = binary.AppendUvarint(dst, uint64(kept.Newest)-uint64(kept.Oldest))
	dst = binary.AppendUvarint(dst, uint64(added.Len()))
	return appendRecords(dst, added, kept.Newest, quantities)
}

// hasQuantities reports whether a log has quantities other than 1. No quantity is below 1, so it compares their sum with
// their number.
func hasQuantities(log Log) bool {
	n := log.Len()
	return log.Before(n)-log.Before(0) != uint64(n)
}

func flagOf(quantities bool) byte {
	if quantities {
		return withQuantities
	}
	return allOnes
}

// appendRecords appends the records of a log, each as its difference in time from the record before; the first as its
// difference from last.
func appendRecords(dst []byte, log Log, last int64, quantities bool) []byte {
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

func (d *Decoder) slide() Log {
	flag := d.periodAndFlag()
	declared := d.Uvarint()
	first := d.Int64()
	if d.FailIf(declared == 0, "an empty log") {
		return nil
	}
	log := d.records(flag, declared, first)
	d.FailIf(len(d.log.times) > 0 && d.log.times[0] != first, "a first record that is not at the first time")
	return log
}

// Amendment reads what AppendAmendment has appended. The Log is valid until the next one is read.
func (d *Decoder) Amendment() (kept Kept, added Log) {
	flag := d.periodAndFlag()
	kept.Oldest = d.Int64()
	kept.Newest = d.After(kept.Oldest, d.Uvarint())
	added = d.records(flag, d.Uvarint(), kept.Newest)
	d.FailIf(len(d.log.times) > 0 && d.log.times[0] == kept.Newest, "a new record that is not later than those that remain")
	return kept, added
}

// periodAndFlag reads the period and the flag that a log begins with. It keeps the period and returns the flag.
func (d *Decoder) periodAndFlag() byte {
	period := d.Uvarint()
	d.FailIf(period == 0 || period > uint64(MaxPeriod), "a period of 0, or beyond the longest")
	flag := d.Byte()
	d.FailIf(flag > withQuantities, "an unknown flag of a log")
	d.log.period = int64(period)
	return flag
}

// records reads the declared number of records, the first of which is written as its difference from t. It allocates room
// for the longest log only, at most ten bytes for each byte of Src.
func (d *Decoder) records(flag byte, declared uint64, t int64) Log {
	most := uint64(len(d.Src)-d.At) / (1 + uint64(flag)) // a record takes at least one byte, or two with a quantity
	g := &d.log
	g.times, g.sums = g.times[:0], g.sums[:0]
	if d.FailIf(declared > most, cutShort) {
		return nil
	}
	n := int(declared)
	g.times = slices.Grow(g.times, n)
	if flag == withQuantities {
		g.sums = append(slices.Grow(g.sums, n+1), 0)
	}
	sum := uint64(0)
	for range n {
		t = d.After(t, d.Uvarint())
		g.times = append(g.times, t)
		if flag == withQuantities {
			quantity := d.Uvarint()
			d.FailIf(quantity == 0 || quantity > math.MaxInt64-sum, "a quantity of 0, or a sum beyond 63 bits")
			sum += quantity
			g.sums = append(g.sums, sum)
		}
		if d.Flaw != "" {
			return nil
		}
	}
	d.FailIf(flag == withQuantities && sum == declared, "quantities written down though all are 1")
	return g
}

// decodedLog is the log that was read last. The next one reuses its memory.
type decodedLog struct {
	period int64
	times  []int64
	sums   []uint64 // sums[i] is the sum before record i, the last one is the total; empty if all quantities are 1
}

// Len implements Log.
func (g *decodedLog) Len() int { return len(g.times) }

// Time implements Log.
func (g *decodedLog) Time(i int) int64 { return g.times[i] }

// Period implements Log.
func (g *decodedLog) Period() int64 { return g.period }

// Before implements Log.
func (g *decodedLog) Before(i int) uint64 {
	if len(g.sums) == 0 {
		return uint64(i)
	}
	return g.sums[i]
}
