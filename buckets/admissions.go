package buckets

// Admission is one record of a sliding log: how much was admitted, and when, in nanoseconds of Unix time.
type Admission struct {
	At       int64
	Quantity int64
}

// Admissions is a sliding log kept as a list, oldest first. The zero value is an empty log. A store that holds many logs
// packs them more tightly.
type Admissions struct {
	records []Admission
	through []uint64 // through[i] is the running sum up to and including record i
	base    uint64   // the running sum before the oldest record
	period  int64
}

// NewAdmissions returns a log of records, stored with a period in nanoseconds. It requires that the records are in order
// of time and that every quantity is above 0.
func NewAdmissions(period int64, records ...Admission) *Admissions {
	g := &Admissions{period: period}
	for _, r := range records {
		g.push(r)
	}
	return g
}

// copyLog returns a copy of any log.
func copyLog(from Log) *Admissions {
	g := &Admissions{period: from.Period()}
	for i := range from.Len() {
		g.push(Admission{At: from.Time(i), Quantity: int64(from.Before(i+1) - from.Before(i))})
	}
	return g
}

func (g *Admissions) push(r Admission) {
	g.through = append(g.through, g.Before(len(g.records))+uint64(r.Quantity))
	g.records = append(g.records, r)
}

// Len implements Log.
func (g *Admissions) Len() int { return len(g.records) }

// Time implements Log.
func (g *Admissions) Time(i int) int64 { return g.records[i].At }

// Period implements Log.
func (g *Admissions) Period() int64 { return g.period }

// Before implements Log.
func (g *Admissions) Before(i int) uint64 {
	if i == 0 {
		return g.base
	}
	return g.through[i-1]
}

// Apply implements EditableLog.
func (g *Admissions) Apply(e LogEdit, now, period int64) {
	if e.Stored {
		g.period = period
	}
	if e.Clear {
		*g = Admissions{period: g.period}
		return
	}
	if e.Drop > 0 {
		g.base = g.Before(e.Drop)
		g.records, g.through = g.records[e.Drop:], g.through[e.Drop:]
	}
	for i := len(g.records) - 1; e.Stored && i >= 0 && g.records[i].At > now; i-- {
		g.records[i].At = now // a record later than now counts as now, so it is stored as now
	}
	for back := e.Back; back > 0; {
		last := len(g.records) - 1
		r := &g.records[last]
		if r.Quantity > back {
			r.Quantity -= back
			g.through[last] -= uint64(back)
			break
		}
		back -= r.Quantity
		g.records, g.through = g.records[:last], g.through[:last]
	}
	switch last := len(g.records) - 1; {
	case e.Add == 0:
	case e.Grows:
		g.push(Admission{At: now, Quantity: e.Add})
	default:
		g.records[last].Quantity += e.Add
		g.through[last] += uint64(e.Add)
	}
}
