package transaction

import (
	"context"

	"cellserver/buckets"
)

// watchCost is about how many bytes a watch costs beside its key, here and in the store.
const watchCost = 200

// Watches is the keys that a client watches. The zero Watches is empty.
type Watches struct {
	byKey map[watched]buckets.Watch
	bytes int64
}

// watched is a key of the database of that number.
type watched struct {
	database int
	key      string
}

// Add makes watcher, which is the store of database, watch a key from now on, unless the client watches it already.
func (w *Watches) Add(ctx context.Context, watcher buckets.Watcher, now int64, database int, key []byte) error {
	of := watched{database, string(key)}
	if _, twice := w.byKey[of]; twice {
		return nil
	}
	watch, err := watcher.Watch(ctx, now, key)
	if err != nil {
		return err
	}
	if w.byKey == nil {
		w.byKey = make(map[watched]buckets.Watch)
	}
	w.byKey[of] = watch
	w.bytes += int64(len(key)) + watchCost
	return nil
}

// Size returns about how many bytes the watches hold in memory, that of the store included.
func (w *Watches) Size() int64 { return w.bytes }

// AppendKeys appends the keys that are watched, in whatever database.
func (w *Watches) AppendKeys(keys [][]byte) [][]byte {
	for of := range w.byKey {
		keys = append(keys, []byte(of.key))
	}
	return keys
}

// Changed reports whether a key has changed since it was added. watcher is of any database, and nil if no key is watched.
func (w *Watches) Changed(ctx context.Context, watcher buckets.Watcher, now int64) (bool, error) {
	for _, watch := range w.byKey {
		if changed, err := watcher.Changed(ctx, now, watch); changed || err != nil {
			return changed, err
		}
	}
	return false, nil
}

// Clear ends all watches. watcher is as for Changed.
func (w *Watches) Clear(watcher buckets.Watcher) {
	for _, watch := range w.byKey {
		watcher.Unwatch(watch)
	}
	*w = Watches{}
}
