// Package persistence keeps buckets on disk: it writes snapshots and a journal of changes, and loads them. FORMAT.md
// specifies the bytes of both files.
//
// [Keeper] does all of that for a server. [Reader], [Writer], [Check] and [Repair] work on single files, and [FS] is
// the file system below them.
package persistence
