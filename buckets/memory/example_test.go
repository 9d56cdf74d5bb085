package memory_test

import (
	"context"
	"fmt"
	"time"

	"cellserver/buckets"
	"cellserver/buckets/memory"
)

// Rate limits inside a Go program, without a server. A program passes time.Now().UnixNano(); the example advances a clock
// of its own.
func Example() {
	store := memory.NewStore(0)                                      // the usual number of shards
	store.SetMemory(64<<20, true)                                    // at most 64 MB; beyond it the bucket that is nearest to full is forgotten
	perMinute, err := buckets.NewThrottle(4, 30, int64(time.Minute)) // 30 a minute, and 4 more at once
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for range 7 {
		d, err := store.Take(now, []byte("user123"), perMinute, 1, false)
		switch {
		case err != nil:
			fmt.Println(err)
		case d.Limited:
			fmt.Println("429 Too Many Requests, Retry-After:", buckets.CeilDiv(d.RetryAfter, int64(time.Second)))
		default:
			fmt.Println("200 OK,", d.Remaining, "left")
		}
	}
	// Output:
	// 200 OK, 4 left
	// 200 OK, 3 left
	// 200 OK, 2 left
	// 200 OK, 1 left
	// 200 OK, 0 left
	// 429 Too Many Requests, Retry-After: 2
	// 429 Too Many Requests, Retry-After: 2
}

// Several limits in one operation: either every check is taken, or none.
func ExampleStore_Apply() {
	store := memory.NewStore(0)
	perMinute, err := buckets.NewSlide(3, int64(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	perDay, err := buckets.NewAlignedWindow(4, int64(24*time.Hour), 0) // the UTC day
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for _, wait := range []time.Duration{0, time.Second, time.Minute} {
		now += int64(wait)
		ops := []buckets.Op{{
			Code: buckets.OpTakeAll,
			Checks: []buckets.Check{
				{Key: []byte("sms:alice:minute"), Limit: perMinute, Quantity: 2},
				{Key: []byte("sms:alice:day"), Limit: perDay, Quantity: 2},
			},
			Answers: make([]buckets.Decision, 2),
		}}
		store.Apply(context.Background(), now, ops)
		op := &ops[0]
		if op.Err != nil {
			fmt.Println(op.Err)
			return
		}
		if op.Which != 0 { // the check that refuses for longest
			wait := time.Duration(op.Answers[op.Which-1].RetryAfter)
			fmt.Printf("check %d refuses, retry after %v; left of the day: %d\n", op.Which, wait, op.Answers[1].Remaining)
			continue
		}
		fmt.Printf("sent; left of the minute: %d, of the day: %d\n", op.Answers[0].Remaining, op.Answers[1].Remaining)
	}
	// Output:
	// sent; left of the minute: 1, of the day: 2
	// check 1 refuses, retry after 59s; left of the day: 2
	// sent; left of the minute: 1, of the day: 0
}

// A store removes a key whose bucket is full again when a request uses the key. Sweep finds the keys that no request
// uses. A program calls it from a goroutine, some hundred times a second.
func ExampleStore_Sweep() {
	store := memory.NewStore(8)
	limit, err := buckets.NewWindow(5, int64(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for i := range 1000 {
		if _, err := store.Take(now, fmt.Appendf(nil, "visitor:%d", i), limit, 1, false); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("stored:", store.Keys())

	now += int64(time.Minute) // every window has ended
	expired := 0
	for done := false; !done; {
		swept := store.Sweep(now)
		expired += swept.Expired
		done = swept.Round
	}
	fmt.Println("expired:", expired, "stored:", store.Keys())
	// Output:
	// stored: 1000
	// expired: 1000 stored: 0
}
