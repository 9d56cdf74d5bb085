package buckets

// Never is a Decision's RetryAfter when there is nothing to wait for: the request was admitted, or never can be.
const Never int64 = -1

// Decision is the answer to one request.
type Decision struct {
	Limited    bool  // the request is refused
	Cut        bool  // nothing was taken, but what was stored was beyond the limit and has been cut to it: a change
	Limit      int64 // the most that can be admitted at once
	Remaining  int64 // how much could be admitted right now, 0..Limit
	RetryAfter int64 // nanoseconds until this same request would be admitted, or Never
	ResetAfter int64 // nanoseconds until the bucket is back at its full limit; 0 when it is full
}

// Refuse fills in the refusal of a quantity above 0; wait is the time until it would fit, if it ever can.
func (d *Decision) Refuse(quantity, wait int64) {
	d.Limited = true
	if quantity <= d.Limit {
		d.RetryAfter = wait
	}
}

// RefusesLonger reports whether d refuses for longer than other. It requires that both are refusals; one that can never be
// admitted refuses for longest.
func (d *Decision) RefusesLonger(other *Decision) bool {
	if other.RetryAfter == Never {
		return false
	}
	return d.RetryAfter == Never || d.RetryAfter > other.RetryAfter
}
