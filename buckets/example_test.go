package buckets_test

import (
	"fmt"
	"time"

	"cellserver/buckets"
)

// A single state, without a store. The caller keeps the state and passes the time.
func ExampleState_Take() {
	limit, err := buckets.NewThrottle(1, 6, int64(time.Minute)) // 6 a minute, and 1 more at once
	if err != nil {
		fmt.Println(err)
		return
	}
	var state buckets.State // the zero State is a full bucket
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, wait := range []time.Duration{0, 0, 0, 10 * time.Second} {
		now = now.Add(wait)
		var d buckets.Decision
		if _, err := state.Take(&limit, now.UnixNano(), 1, 0, &d); err != nil {
			fmt.Println(err)
			return
		}
		if d.Limited {
			fmt.Printf("%s: refused, retry after %v\n", now.Format(time.TimeOnly), time.Duration(d.RetryAfter))
		} else {
			fmt.Printf("%s: admitted, %d of %d left\n", now.Format(time.TimeOnly), d.Remaining, d.Limit)
		}
	}
	fmt.Println("full again at", time.Unix(0, state.FullAt()).UTC().Format(time.TimeOnly))
	// Output:
	// 12:00:00: admitted, 1 of 2 left
	// 12:00:00: admitted, 0 of 2 left
	// 12:00:00: refused, retry after 10s
	// 12:00:10: admitted, 0 of 2 left
	// full again at 12:00:30
}

// A state as bytes, for a file or another database. The format is that of the snapshot.
func ExampleState_AppendBinary() {
	limit, err := buckets.NewSlide(3, int64(time.Minute)) // 3 in any minute
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	var state buckets.State
	var d buckets.Decision
	if _, err := state.Take(&limit, now, 2, 1000, &d); err != nil { // at most 1000 records in the log
		fmt.Println(err)
		return
	}
	b, err := state.AppendBinary(nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	var restored buckets.State
	if err := restored.UnmarshalBinary(b); err != nil {
		fmt.Println(err)
		return
	}
	restored.Peek(&limit, now+int64(20*time.Second), 2, &d)
	fmt.Printf("%s: %d of %d left, 2 more in %v\n", restored.Kind, d.Remaining, d.Limit, time.Duration(d.RetryAfter))
	// Output:
	// zslide: 1 of 3 left, 2 more in 40s
}
