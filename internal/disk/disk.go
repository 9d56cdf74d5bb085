// Package disk adapts persistence.Keeper to resp.Disk, so that packages persistence and resp do not import each other.
package disk

import (
	"errors"

	"cellserver/persistence"
	"cellserver/resp"
)

// Of returns k as a resp.Disk. Its errors are in Redis's words where Redis has them.
func Of(k *persistence.Keeper) resp.Disk { return disk{k} }

type disk struct {
	*persistence.Keeper
}

func (d disk) Save() error { return d.busy(d.Keeper.Save()) }

func (d disk) SaveInBackground() error { return d.busy(d.Keeper.SaveInBackground()) }

func (d disk) RewriteInBackground() error {
	if !d.Rules().Journal {
		return errNoJournal
	}
	return d.busy(d.Keeper.RewriteInBackground())
}

var errNoJournal = errors.New("there is no journal to rewrite: appendonly is no")

// busy translates persistence.ErrBusy to the error of what is being written, and returns other errors unchanged.
func (d disk) busy(err error) error {
	switch {
	case !errors.Is(err, persistence.ErrBusy):
		return err
	case d.Keeper.Status().Rewriting:
		return resp.ErrRewriteBusy
	}
	return resp.ErrDiskBusy
}

// Refusal returns the error reply to commands that change something, in Redis's words, or "" if they are not refused.
func (d disk) Refusal() string {
	switch err := d.Keeper.Refusal().(type) {
	case nil:
		return ""
	case *persistence.JournalFault:
		return resp.RefuseJournal(err.Error())
	}
	return resp.RefuseSnapshot
}

// Status returns the status of the Keeper as resp has it.
func (d disk) Status() resp.DiskStatus {
	s := d.Keeper.Status()
	return resp.DiskStatus{
		LastSave: s.LastSave, SaveFailed: s.SaveFailed, Saving: s.Saving, Began: s.SaveBegan, SaveTook: s.SaveTook,
		Saved: s.Saved, Journal: s.Journal, JournalBad: s.JournalFault != nil, JournalSize: s.JournalSize,
		JournalBase: s.JournalBase, Rewriting: s.Rewriting, RewriteTook: s.RewriteTook, RewriteBad: s.RewriteBad,
		LoadTotal: s.LoadTotal, LoadDone: s.LoadDone, LoadStarted: s.LoadStarted, LoadedSoFar: s.LoadKeys,
		SavesAtEnd: len(d.Rules().SavePoints) > 0,
	}
}
