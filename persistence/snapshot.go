package persistence

import (
	"io"
	"time"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/pace"
)

// sectionBytes is the approximate size of the payload of a records section: large enough that headers do not matter,
// and small enough that several processors share the loading of a small file.
const sectionBytes = 256 << 10

// A snapshot pauses for pauseFor after workFor of work, so that it takes at most a third of a processor.
const (
	workFor  = 100 * time.Microsecond
	pauseFor = 200 * time.Microsecond
)

// writeSnapshot writes everything that copyStore copies as the base of a file, with its end section, and returns the number
// of keys. The base has all of an operation on several keys or nothing of it.
func writeSnapshot(f *Writer, copyStore func(visit func(*memory.Part) error) error) (keys int64, err error) {
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
	pacer := pace.Pacer{Work: workFor, Pause: pauseFor}
	pacer.Resume()
	var failed error
	err = copyStore(func(part *memory.Part) error {
		part.Each(func(e *buckets.Entry) {
			if failed != nil {
				return
			}
			payload = AppendSet(payload, e)
			if count++; count%256 == 0 {
				pacer.YieldIfLong()
			}
			if len(payload) >= sectionBytes {
				failed = section()
			}
		})
		pacer.YieldIfLong()
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

// WriteSnapshot writes a complete snapshot file of what the store holds at now, in nanoseconds of Unix time, and
// returns the number of keys. Its errors are those of w and of NewWriter.
func WriteSnapshot(w io.Writer, store *memory.Store, now int64, generation uint64) (keys int64, err error) {
	f, err := NewWriter(w, SnapshotFile, now, generation)
	if err != nil {
		return 0, err
	}
	return writeSnapshot(f, func(visit func(*memory.Part) error) error { return store.Copy(now, visit) })
}
