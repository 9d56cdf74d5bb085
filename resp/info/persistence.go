package info

import "time"

// Disk is the status of what is kept on disk. Times are nanoseconds of Unix time; a duration is negative if there has been
// none.
type Disk struct {
	LastSave    int64
	SaveFailed  bool
	Saving      bool
	Began       int64 // when the running save or rewrite began
	SaveTook    time.Duration
	Saved       uint64 // Stats.Changes of the store at the last snapshot
	Journal     bool   // the journal is turned on
	JournalBad  bool   // the journal cannot be written
	JournalSize int64  // bytes
	JournalBase int64  // bytes after the last rewrite
	Rewriting   bool
	RewriteTook time.Duration
	RewriteBad  bool
	LoadTotal   int64 // bytes
	LoadDone    int64
	LoadStarted int64
	LoadedSoFar int64 // keys
	SavesAtEnd  bool  // EndAsConfigured writes a snapshot
}

// Persistence is what INFO tells of the files.
type Persistence struct {
	Disk
	Loading bool
	Changes uint64 // as buckets.Stats counts them
	Now     int64  // nanoseconds of Unix time
}

func (p Persistence) write(t *text) {
	current := func(yes bool) int64 {
		if !yes {
			return -1
		}
		return max(0, p.Now-p.Began) / second
	}
	took := func(d time.Duration) int64 {
		if d < 0 {
			return -1
		}
		return int64(d / time.Second)
	}
	t.field("loading", flag(p.Loading))
	t.field("async_loading", 0)
	t.field("rdb_changes_since_last_save", p.Changes-min(p.Changes, p.Saved))
	t.field("rdb_bgsave_in_progress", flag(p.Saving))
	t.field("rdb_last_save_time", p.LastSave/second)
	t.field("rdb_last_bgsave_status", okUnless(p.SaveFailed))
	t.field("rdb_last_bgsave_time_sec", took(p.SaveTook))
	t.field("rdb_current_bgsave_time_sec", current(p.Saving))
	t.field("aof_enabled", flag(p.Journal))
	t.field("aof_rewrite_in_progress", flag(p.Rewriting))
	t.field("aof_rewrite_scheduled", 0)
	t.field("aof_last_rewrite_time_sec", took(p.RewriteTook))
	t.field("aof_current_rewrite_time_sec", current(p.Rewriting))
	t.field("aof_last_bgrewrite_status", okUnless(p.RewriteBad))
	t.field("aof_last_write_status", okUnless(p.JournalBad))
	if p.Journal {
		t.field("aof_current_size", p.JournalSize)
		t.field("aof_base_size", p.JournalBase)
	}
	if !p.Loading {
		return
	}
	part := float64(p.LoadDone) / float64(max(1, p.LoadTotal))
	passed := float64(max(0, p.Now-p.LoadStarted)) / float64(second)
	t.field("loading_start_time", p.LoadStarted/second)
	t.field("loading_total_bytes", p.LoadTotal)
	t.field("loading_loaded_bytes", p.LoadDone)
	t.fieldf("loading_loaded_perc", "%.2f", 100*part)
	t.field("loading_eta_seconds", int64(passed*(1/max(part, 0.001)-1)))
}

func okUnless(bad bool) string {
	if bad {
		return "err"
	}
	return "ok"
}
