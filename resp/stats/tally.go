package stats

// Counted is what a Tally counts the calls of: a pointer to a row of the command table.
type Counted interface {
	comparable
	Add(calls uint64, each int64)
}

// Tally counts the calls of one session that are not timed one by one, because reading the clock for each costs more than
// some of them take. The calls of a stretch share its time. A stretch begins and ends where the clock is read anyway: with
// a batch, and with a command that is timed by itself.
type Tally[R Counted] struct {
	// Together says that the calls of a stretch wait together for another program, so that each takes all of its time.
	Together bool

	since int64 // when the stretch began
	rows  [8]struct {
		row   R
		calls uint64
	}
	n  int // of rows
	at int // the row of the latest call

	Hits, Misses uint64 // keys that reading commands found, and did not find
}

// Begin begins a batch that was read at now. A batch that is answered in parts begins with the same reading for each part:
// the clock is read again then, so that the time of sending counts for no command.
func (t *Tally[R]) Begin(now int64, clock func() int64) {
	if now <= t.since {
		now = clock()
	}
	t.since = now
}

// Repeat counts a call of row and reports true if row is that of the latest call, and does nothing otherwise.
func (t *Tally[R]) Repeat(row R) bool {
	if t.n == 0 || t.rows[t.at].row != row {
		return false
	}
	t.rows[t.at].calls++
	return true
}

// Count counts a call of row. It reports false, and counts nothing, if the stretch has no room for another row: Settle
// makes room.
func (t *Tally[R]) Count(row R) bool {
	if t.n == 0 || t.rows[t.at].row != row {
		if !t.turnTo(row) {
			return false
		}
	}
	t.rows[t.at].calls++
	return true
}

// turnTo makes row the row of the latest call, if there is room for it.
func (t *Tally[R]) turnTo(row R) bool {
	for i := range t.rows[:t.n] {
		if t.rows[i].row == row {
			t.at = i
			return true
		}
	}
	if t.n == len(t.rows) {
		return false
	}
	t.at = t.n
	t.rows[t.at].row, t.rows[t.at].calls = row, 0
	t.n++
	return true
}

// Pending reports whether calls have been counted since the stretch began.
func (t *Tally[R]) Pending() bool { return t.n > 0 }

// Settle ends the stretch at now and begins the next. Each call gets an equal part of its time, or all of it if they wait
// Together. This is returned with the row of the latest call; ok is false if there was no call. into gets the hits and misses.
func (t *Tally[R]) Settle(now int64, into *Counters) (latest R, each int64, ok bool) {
	took := max(0, now-t.since)
	t.since = now
	if t.Hits|t.Misses != 0 {
		into.Hits.Add(t.Hits)
		into.Misses.Add(t.Misses)
		t.Hits, t.Misses = 0, 0
	}
	if t.n == 0 {
		return latest, 0, false
	}
	calls := uint64(0)
	for i := range t.rows[:t.n] {
		calls += t.rows[i].calls
	}
	each = took
	if !t.Together {
		each /= int64(calls)
	}
	for i := range t.rows[:t.n] {
		t.rows[i].row.Add(t.rows[i].calls, each)
	}
	t.n = 0
	return t.rows[t.at].row, each, true
}

// LookUp counts a key that a command looked for to read it. As in Redis, a key that a command looks for to change it is
// neither a hit nor a miss: DEL, EXPIRE, and limit commands without PEEK.
func (t *Tally[R]) LookUp(found bool) {
	if found {
		t.Hits++
	} else {
		t.Misses++
	}
}
