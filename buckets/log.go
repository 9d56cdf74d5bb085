package buckets

// slidingLog is the log of one sliding window. A nil *slidingLog is an empty one.
type slidingLog struct {
	records []record
	head    int    // records before it have been dropped
	base    uint64 // the running sum before records[head]
	period  int64  // of the request that was stored last
}

type record struct {
	time    int64
	through uint64 // the running sum through this record, modulo 2^64
}

const recordBytes, logBytes = 16, 56

// Len implements Log.
func (g *slidingLog) Len() int {
	if g == nil {
		return 0
	}
	return len(g.records) - g.head
}

// Time implements Log.
func (g *slidingLog) Time(i int) int64 { return g.records[g.head+i].time }

// Before implements Log.
func (g *slidingLog) Before(i int) uint64 {
	switch {
	case g == nil:
		return 0
	case i == 0:
		return g.base
	}
	return g.records[g.head+i-1].through
}

// Period implements Log.
func (g *slidingLog) Period() int64 { return g.period }

// full returns when the newest record leaves the window; an empty log has been full for ever.
func (g *slidingLog) full() int64 {
	if g.Len() == 0 {
		return 0
	}
	return addSat(g.records[len(g.records)-1].time, g.period)
}

func (g *slidingLog) bytes() int {
	if g == nil {
		return 0
	}
	return logBytes + cap(g.records)*recordBytes
}

// drop forgets the n oldest records. Room is reclaimed when half of it lies idle, so each record is moved at most once
// for each record dropped.
func (g *slidingLog) drop(n int) {
	g.base = g.Before(n)
	g.head += n
	if 2*g.head < len(g.records) {
		return
	}
	rest := g.records[g.head:]
	if live := len(rest); cap(g.records) > 16 && 4*live < cap(g.records) {
		g.records = append(make([]record, 0, 2*live), rest...)
	} else {
		g.records = g.records[:copy(g.records, rest)]
	}
	g.head = 0
}

// apply carries out an edit that is Stored.
func (g *slidingLog) apply(e LogEdit, now, period int64) {
	g.period = period
	if e.Clear {
		g.records, g.head, g.base = nil, 0, 0
		return
	}
	if e.Drop > 0 {
		g.drop(e.Drop)
	}
	// What was recorded later than now counts as now, and from here on is.
	for i := len(g.records) - 1; i >= g.head && g.records[i].time > now; i-- {
		g.records[i].time = now
	}
	for back := e.Back; back > 0; {
		newest := g.Len() - 1
		quantity := int64(g.Before(newest+1) - g.Before(newest))
		if quantity > back {
			g.records[g.head+newest].through -= uint64(back)
			break
		}
		g.records = g.records[:g.head+newest]
		back -= quantity
	}
	if e.Add > 0 {
		through := g.Before(g.Len()) + uint64(e.Add)
		if e.Grows {
			g.records = append(g.records, record{time: now, through: through})
		} else {
			g.records[len(g.records)-1].through = through
		}
	}
}
