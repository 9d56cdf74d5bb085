package memory

import (
	"encoding/binary"
	"math"
	"sort"

	"cellserver/buckets"
)

// What the journal is told of a sliding log is mostly an amendment of what it was told before: which records remain, and
// those that are new. The head of a log counts the newest records that the journal has not been told of as they are now;
// all before them it knows.
//
// A record is identified by its time, and an amendment is a statement about stretches of time: before Kept.Oldest there is
// nothing, from there to Kept.Newest nothing is new, and after that there is what Log has and nothing else. So it may be
// applied to a log that has already seen some or all of what it tells, and of what later amendments tell, as a copy has
// that was made after it: once every amendment up to the first one after the copy has been applied in order, the log is
// what it was then. Of any time, the last amendment that tells of it has the last word, and if there is none, then nothing
// has happened at that time since before the copy was made. In between, the log may be what it never was, even empty.

// freshWith returns how many records are fresh when the newest has been added or changed.
func (g *ringLog) unreportedAfterAdd(newRecord bool) uint32 {
	if newRecord && g.unreported < allUnreported {
		return g.unreported + 1
	}
	return max(g.unreported, 1)
}

// freshWithout returns how many records are fresh when so many of the newest have been removed and the newest of what is
// left may have changed.
func (g *ringLog) unreportedAfterRemove(removed int) uint32 {
	switch {
	case g.unreported == allUnreported:
		return allUnreported
	case removed >= int(g.unreported):
		return 1
	}
	return g.unreported - uint32(removed)
}

// told returns how many of the oldest records are as the journal was told.
func (g *ringLog) reported() int {
	if g.unreported == 0 {
		return g.n
	}
	if g.unreported == allUnreported || int(g.unreported) >= g.n {
		return 0
	}
	// Records of one time are one to an amendment.
	n := g.n - int(g.unreported)
	for n > 0 && g.age(n-1) == g.age(n) {
		n--
	}
	return n
}

// setTold writes into the head of a log that the journal has been told all.
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

// wholeBelow is how many records have to be kept before an amendment is shorter than the whole log for sure: a record is at
// least a byte, and the two times are at most so many more than the whole log has.
const alwaysAmendFrom = 20

// tell appends what the journal has to be told of a record that has changed. st, e and tail are for its use.
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

// widthOf returns how many bytes of a time tell times apart that are not after newest and not before oldest.
func widthOf(newest, oldest int64) (width int8) {
	span := uint64(newest) - uint64(oldest)
	for width = 1; width < 8 && span>>(8*uint(width)) != 0; width++ {
	}
	return width
}

// Amend changes the log of a key as an amendment says, whether or not it has expired; of a key that is not there, the log
// is empty. A key that holds another kind of bucket is left as it is: it is replaced by what comes later. Like Restore, it
// takes no notice of the limit on memory, and is no change that Changes tells of.
func (s *Store) Amend(e *buckets.Entry) {
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
