package buckets

// Never is the RetryAfter of a Decision when no wait helps: the request was admitted, or can never be.
const Never int64 = -1

// Decision is the answer to one request.
type Decision struct {
	Limited    bool  // the request is refused
	Cut        bool  // nothing was taken, but the stored state exceeded the limit and was cut to it
	Limit      int64 // the most that can be admitted at once
	Remaining  int64 // how much could be admitted right now, 0..Limit
	RetryAfter int64 // nanoseconds until this same request would be admitted, or Never
	ResetAfter int64 // nanoseconds until the bucket is back at its full limit; 0 when it is full
}

// Refuse fills in the refusal of a quantity above 0. wait is the time until the quantity fits, unless it exceeds the
// limit and never does.
func (d *Decision) Refuse(quantity, wait int64) {
	d.Limited = true
	if quantity <= d.Limit {
		d.RetryAfter = wait
	}
}

// RefusesLonger reports whether d refuses for longer than other. A refusal that no wait ends is the longest. It requires
// that both are refusals.
func (d *Decision) RefusesLonger(other *Decision) bool {
	if other.RetryAfter == Never {
		return false
	}
	return d.RetryAfter == Never || d.RetryAfter > other.RetryAfter
}
