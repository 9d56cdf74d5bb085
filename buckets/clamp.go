package buckets

// Ahead reports whether the state is later than now by more than any request can have left it, because the clock has been
// set back since. It is false for a kind whose limit cuts such a state.
func (st *State) Ahead(now int64) bool {
	ahead := algorithms[st.Kind].ahead
	return ahead != nil && ahead(st, now)
}

// Clamp changes a state that is Ahead of now so that a request waits at most one period: a window starts now and keeps
// its length, and the records of a log that are later than now become one record at now.
func (st *State) Clamp(now int64) {
	if clamp := algorithms[st.Kind].clamp; clamp != nil {
		clamp(st, now)
	}
}

// clampedLog is a view of a log in which the records from first on are one record at now.
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
