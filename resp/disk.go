package resp

import "time"

// Disk keeps the store on disk. What it does is not the protocol's business; when it is asked to is.
type Disk interface {
	// Save writes a snapshot and returns when it is durable. ErrDiskBusy is returned while one is being written.
	Save() error
	// SaveInBackground begins to.
	SaveInBackground() error
	// RewriteInBackground begins to make the journal anew.
	RewriteInBackground() error
	// Commit returns when what has been decided is as durable as a reply promises, or why it is not: the reply is not
	// sent then.
	Commit() error
	// Loading reports whether what was kept is still being loaded. It is asked for every batch, as Refusal is.
	Loading() bool
	// Refusal is the wire text of why commands that may change keys are refused; "" when they are not.
	Refusal() string
	// Status asks neither the store nor anybody who may be waiting for it: EXEC calls it with the store locked.
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

// DiskStatus is what INFO and LASTSAVE tell. Times are nanoseconds of Unix time; a duration below 0 is one that there has
// not been.
type DiskStatus struct {
	LastSave    int64
	SaveFailed  bool
	Saving      bool
	Began       int64 // what is being written now
	SaveTook    time.Duration
	Saved       uint64 // the changes that the last snapshot had, of those that Stats counts
	Journal     bool   // one is kept
	JournalBad  bool   // and cannot be written
	JournalSize int64  // bytes
	JournalBase int64  // bytes that it had when it was new
	Rewriting   bool
	RewriteTook time.Duration
	RewriteBad  bool
	LoadTotal   int64 // bytes
	LoadDone    int64
	LoadStarted int64
	LoadedSoFar int64 // keys
	SavesAtEnd  bool  // a snapshot is written when the server stops and nothing else is said
}

// noDisk keeps nothing.
type noDisk struct{}

func (noDisk) Save() error                { return errNoDisk }
func (noDisk) SaveInBackground() error    { return errNoDisk }
func (noDisk) RewriteInBackground() error { return errNoDisk }
func (noDisk) Commit() error              { return nil }
func (noDisk) Loading() bool              { return false }
func (noDisk) Refusal() string            { return "" }
func (noDisk) Status() DiskStatus         { return DiskStatus{SaveTook: -1, RewriteTook: -1} }

const errNoDisk = diskError("this server keeps nothing on disk")

// Ending says what is done with the store when the server stops.
type Ending int

// The endings that SHUTDOWN may ask for.
const (
	EndAsConfigured Ending = iota // write a snapshot if any are configured
	EndSaving                     // SAVE
	EndNotSaving                  // NOSAVE
)

// RefuseSnapshot is a Refusal: the last snapshot could not be written. In Redis's words.
const RefuseSnapshot = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. " +
	"Commands that may modify the data set are disabled, because this instance is configured to report errors during " +
	"writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about " +
	"the RDB error."

// RefuseJournal is a Refusal: the journal cannot be written, and why.
func RefuseJournal(why string) string {
	return "MISCONF Errors writing to the AOF file: " + oneLine(why)
}
