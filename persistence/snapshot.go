package persistence

import (
	"io"
	"time"

	"cellserver/buckets"
	"cellserver/buckets/memory"
)

// sectionBytes is about how large the payload of a records section is: enough that headers do not matter, and little
// enough that several processors share the loading of a small file.
const sectionBytes = 256 << 10

// A snapshot works for so long, and then lets others work: a third of the time at most.
const (
	workFor  = 100 * time.Microsecond
	pauseFor = 200 * time.Microsecond
)

// writeSnapshot writes all that the store holds as the records sections of a file, and their end. It returns how many
// keys that were. An operation on several keys is in it wholly or not at all.
func writeSnapshot(f *Writer, store *memory.Store, now int64) (keys int64, err error) {
	payload, count := make([]byte, 0, sectionBytes+sectionBytes/8), 0
	section := func() error {
		if count == 0 {
			return nil
		}
		err := f.Records(payload, count)
		keys += int64(count)
		payload, count = payload[:0], 0
		return err
	}
	// Requests come first, also where there is one processor: giving it up is not enough, as Go's scheduler would come back
	// before it looks at the network again.
	resumed := time.Now()
	yield := func() {
		if time.Since(resumed) > workFor {
			time.Sleep(pauseFor)
			resumed = time.Now()
		}
	}
	var failed error
	err = store.Copy(now, func(part *memory.Part) error {
		part.Each(func(e *buckets.Entry) {
			if failed != nil {
				return
			}
			payload = AppendSet(payload, e)
			if count++; count%256 == 0 {
				yield()
			}
			if len(payload) >= sectionBytes {
				failed = section()
			}
		})
		yield()
		return failed
	})
	if err != nil {
		return keys, err
	}
	if err := section(); err != nil {
		return keys, err
	}
	return keys, f.End()
}

// WriteSnapshot writes a whole snapshot file of what the store holds at now, and returns how many keys that are.
func WriteSnapshot(w io.Writer, store *memory.Store, now int64, generation uint64) (keys int64, err error) {
	f, err := NewWriter(w, SnapshotFile, now, generation)
	if err != nil {
		return 0, err
	}
	return writeSnapshot(f, store, now)
}
