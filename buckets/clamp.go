package buckets

// Ahead reports whether the state is later than now where no request could have left it: the clock was set back since. It
// is false for a TAT, which its limit cuts, and for calendar windows.
func (st *State) Ahead(now int64) bool {
	ahead := algorithms[st.Kind].ahead
	return ahead != nil && ahead(st, now)
}

// Clamp makes a state that is Ahead of now one that is not, so that nobody waits for longer than a full period: a window
// starts now and keeps its length, and the records of a log that are later become one, which is made now.
func (st *State) Clamp(now int64) {
	if clamp := algorithms[st.Kind].clamp; clamp != nil {
		clamp(st, now)
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
