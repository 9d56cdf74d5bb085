package memory

import (
	"encoding/binary"
	"math"
	"sort"

	"cellserver/buckets"
)

// The journal receives most changes of a sliding log as amendments. An amendment says which of the records in the journal
// remain and which records are new. The head of a log counts the unreported records: the newest ones, which have changed
// since the last amendment. The journal has all records before them.
//
// A record is identified by its time, and an amendment is a statement about intervals of time: there are no records
// before Kept.Oldest, no new records from Kept.Oldest to Kept.Newest, and exactly the records of Log after Kept.Newest.
// So an amendment may be applied to a log that already contains some or all of it, or of later amendments, such as a log
// in a copy that was made after it. Once every amendment up to the first one after the copy has been applied in order,
// the log is what it was at that amendment: for any time, the last amendment that covers it decides, and if none covers
// it, nothing has changed at that time since before the copy. Until then the log may have contents that it never had,
// even none.

// unreportedAfterAdd returns how many records are unreported after an addition, either as a new record or to the newest
// record.
func (g *ringLog) unreportedAfterAdd(newRecord bool) uint32 {
	if newRecord && g.unreported < allUnreported {
		return g.unreported + 1
	}
	return max(g.unreported, 1)
}

// unreportedAfterRemove returns how many records are unreported after the newest records, removed in number, are removed
// and the newest of the rest may have changed.
func (g *ringLog) unreportedAfterRemove(removed int) uint32 {
	switch {
	case g.unreported == allUnreported:
		return allUnreported
	case removed >= int(g.unreported):
		return 1
	}
	return g.unreported - uint32(removed)
}

// reported returns how many of the oldest records the journal has in their current form.
func (g *ringLog) reported() int {
	if g.unreported == 0 {
		return g.n
	}
	if g.unreported == allUnreported || int(g.unreported) >= g.n {
		return 0
	}
	// An amendment identifies records by their time, so records with the same time are reported together.
	n := g.n - int(g.unreported)
	for n > 0 && g.age(n-1) == g.age(n) {
		n--
	}
	return n
}

// markReported sets the head of a log to say that the journal has all of its records.
func markReported(head []byte) {
	shape := binary.LittleEndian.Uint32(head[headShape:])
	binary.LittleEndian.PutUint32(head[headShape:], shape&(1<<shapeUnreported-1))
}

// logTail is a view of the newest records of a log.
type logTail struct {
	*ringLog
	from int
}

// Len implements buckets.Log.
func (t *logTail) Len() int { return t.n - t.from }

// Time implements buckets.Log.
func (t *logTail) Time(i int) int64 { return t.ringLog.Time(t.from + i) }

// Before implements buckets.Log.
func (t *logTail) Before(i int) uint64 { return t.ringLog.Before(t.from + i) }

// alwaysAmendFrom is the number of remaining records from which on an amendment is always shorter than the whole log: a
// record takes at least one byte, and an amendment has fewer than 20 bytes that the whole log does not need.
const alwaysAmendFrom = 20

// appendChange encodes the change of a record for the journal. st, e and tail are scratch memory.
func appendChange(enc Encoder, dst, r []byte, deadline int64, st *state, e *buckets.Entry, tail *logTail) []byte {
	fill(e, r, deadline, st)
	if e.Kind.Words() > 0 {
		return enc.AppendSet(dst, e)
	}
	g := &st.ring
	reported := g.reported()
	_, _, body := split(r)
	markReported(body)
	if reported == 0 {
		return enc.AppendSet(dst, e)
	}
	*tail = logTail{g, reported}
	e.Log, e.Kept = tail, buckets.Kept{Oldest: g.Time(0), Newest: g.Time(reported - 1)}
	amended := enc.AppendAmend(dst, e)
	if reported >= alwaysAmendFrom {
		return amended
	}
	e.Log, e.Kept = g, buckets.Kept{}
	both := enc.AppendSet(amended, e)
	whole := both[len(amended):]
	if len(whole) > len(amended)-len(dst) {
		return amended
	}
	return append(amended[:len(dst)], whole...)
}

// amend applies an amendment.
func (g *ringLog) amend(kept buckets.Kept, tail buckets.Log) {
	g.period = tail.Period()
	if n := sort.Search(g.n, func(i int) bool { return g.Time(i) >= kept.Oldest }); n > 0 {
		g.drop(n)
	}
	switch n := sort.Search(g.n, func(i int) bool { return g.Time(i) > kept.Newest }); n {
	case g.n:
	case 0:
		*g = ringLog{period: g.period}
	default:
		g.newest, g.n = g.Time(n-1), n
	}
	n := tail.Len()
	if n == 0 {
		return
	}
	newest := tail.Time(n - 1)
	if g.n == 0 {
		*g = ringLog{period: g.period}
		g.rebuild(max(n, smallestRing), max(widthOf(newest, tail.Time(0)), timeWidth(g.period)), false, math.MaxInt64)
	} else if width := widthOf(newest, g.Time(0)); width > g.width {
		g.rebuild(grownRing(g.n+n), width, g.sums, math.MaxInt64)
	}
	for i := range n {
		g.add(tail.Time(i), int64(tail.Before(i+1)-tail.Before(i)), true)
	}
	g.unreported = allUnreported
}

// widthOf returns how many of the low bytes of a time distinguish all times from oldest to newest.
func widthOf(newest, oldest int64) (width int8) {
	span := uint64(newest) - uint64(oldest)
	for width = 1; width < 8 && span>>(8*uint(width)) != 0; width++ {
	}
	return width
}

// Amend applies an amendment to the log of a key, whether or not it has expired. A missing key has an empty log. A key of
// another kind stays unchanged, because a later entry replaces it. Like Restore, Amend ignores the limit on memory, and
// its changes are not reported by Changes.
func (s *Store) Amend(e *buckets.Entry) {
	s = s.database(int32(e.Database))
	hash, sh := s.lockKey(e.Key)
	defer s.unlockShard(sh)
	var st state
	place := sh.table.find(hash, e.Key)
	if place != 0 && sh.table.load(place, &st) != buckets.Slide {
		return
	}
	st.Kind, st.Log = buckets.Slide, &st.ring
	st.ring.amend(e.Kept, e.Log)
	switch {
	case st.ring.n == 0 && place == 0:
		return
	case st.ring.n == 0:
		sh.remove(place)
		return
	case place == 0:
		place = sh.insert(hash, e.Key, &st)
	default:
		sh.notifyWatchesAt(place)
		place = sh.table.save(place, &st)
		sh.account()
	}
	if at := e.Deadline; at != 0 && at < st.FullAt() {
		sh.setDeadline(place, at)
	} else if sh.table.deadline(place) != 0 {
		sh.setDeadline(place, 0)
	}
}
