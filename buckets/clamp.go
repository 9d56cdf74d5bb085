package buckets

// Ahead reports whether the state lies later than now where no request could have left it: the clock was set back since. It
// is false for a TAT, which its limit cuts, and for what is absolute.
func (st *State) Ahead(now int64) bool {
	switch st.Kind {
	case Window:
		return st.Words[0] > now
	case Slide:
		log := st.log()
		return log.Len() > 0 && log.Time(log.Len()-1) > now
	}
	return false
}

// Clamp makes a state that is Ahead of now one that is not, so that nobody waits for longer than a full period: a window
// starts now and keeps its length, and the records of a log that are later are made now, and are one.
func (st *State) Clamp(now int64) {
	switch st.Kind {
	case Window:
		w := st.Window()
		*st = Windowed(WindowState{Start: now, End: addSat(now, subSat(w.End, w.Start)), Used: w.Used})
	case Slide:
		log := st.log()
		first := 0
		for log.Time(first) < now {
			first++
		}
		st.Log = clampedLog{Log: log, now: now, first: first}
	}
}

// clampedLog is a log of which the records from first on are one, which is made now.
type clampedLog struct {
	Log
	now   int64
	first int
}

// Len implements Log.
func (g clampedLog) Len() int { return g.first + 1 }

// Time implements Log.
func (g clampedLog) Time(i int) int64 {
	if i < g.first {
		return g.Log.Time(i)
	}
	return g.now
}

// Before implements Log.
func (g clampedLog) Before(i int) uint64 {
	if i <= g.first {
		return g.Log.Before(i)
	}
	return g.Log.Before(g.Log.Len())
}
