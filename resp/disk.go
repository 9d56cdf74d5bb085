package resp

import "cellserver/resp/info"

// Disk persists the store.
type Disk interface {
	// Save writes a snapshot, and returns when it is durable. It returns ErrDiskBusy or ErrRewriteBusy while a snapshot or
	// the journal is being written.
	Save() error
	// SaveInBackground begins to write a snapshot. It returns the errors of Save that are known at once.
	SaveInBackground() error
	// RewriteInBackground begins to rewrite the journal. It returns the errors of Save that are known at once.
	RewriteInBackground() error
	// Commit returns when all earlier changes are as durable as appendfsync promises. If it returns an error, their
	// replies are not sent.
	Commit() error
	// Loading reports whether the store is still being loaded. Every batch calls it, and Refusal.
	Loading() bool
	// Refusal returns the error reply for commands that write, if they are refused, or "".
	Refusal() string
	// Status returns the status. It must not wait for the store, because EXEC calls it with the store locked.
	Status() DiskStatus
}

// Errors of a Disk.
const (
	// ErrDiskBusy is returned while a snapshot is being written.
	ErrDiskBusy = diskError("Background save already in progress")
	// ErrRewriteBusy is returned while the journal is being rewritten.
	ErrRewriteBusy = diskError("Background append only file rewriting already in progress")
)

type diskError string

func (e diskError) Error() string { return string(e) }

// DiskStatus is the status of a Disk, for INFO and LASTSAVE.
type DiskStatus = info.Disk

// noDisk is the Disk of a server without persistence.
type noDisk struct{}

func (noDisk) Save() error                { return errNoDisk }
func (noDisk) SaveInBackground() error    { return errNoDisk }
func (noDisk) RewriteInBackground() error { return errNoDisk }
func (noDisk) Commit() error              { return nil }
func (noDisk) Loading() bool              { return false }
func (noDisk) Refusal() string            { return "" }
func (noDisk) Status() DiskStatus         { return DiskStatus{SaveTook: -1, RewriteTook: -1} }

const errNoDisk = diskError("this server keeps nothing on disk")

// Ending is whether a snapshot is written when the server stops.
type Ending int

// The endings of SHUTDOWN.
const (
	EndAsConfigured Ending = iota // write a snapshot if save points are configured
	EndSaving                     // SHUTDOWN SAVE
	EndNotSaving                  // SHUTDOWN NOSAVE
)

// RefuseSnapshot is the Refusal after a snapshot could not be written, in Redis's words.
const RefuseSnapshot = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. " +
	"Commands that may modify the data set are disabled, because this instance is configured to report errors during " +
	"writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about " +
	"the RDB error."

// RefuseJournal returns the Refusal while the journal cannot be written.
func RefuseJournal(why string) string {
	return "MISCONF Errors writing to the AOF file: " + oneLine(why)
}
