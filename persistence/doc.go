// Package persistence keeps buckets on disk: the snapshot, the journal of changes, and loading both. FORMAT.md beside the
// code fixes the bytes.
package persistence
