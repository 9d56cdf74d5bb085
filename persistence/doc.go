// Package persistence will keep buckets across restarts: snapshots, and a journal of changes.
//
// This version keeps them in memory only, and the options save and appendonly say so.
package persistence
