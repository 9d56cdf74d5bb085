// Package disk puts the persistence of a store behind the commands of the protocol: neither room looks at the other.
package disk

import (
	"errors"

	"cellserver/persistence"
	"cellserver/resp"
)

// Of is a persistence.Keeper as the protocol sees it.
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

// busy tells which of the two things is under way.
func (d disk) busy(err error) error {
	switch {
	case !errors.Is(err, persistence.ErrBusy):
		return err
	case d.Keeper.Status().Rewriting:
		return resp.ErrRewriteBusy
	}
	return resp.ErrDiskBusy
}

// Refusal is in Redis's words.
func (d disk) Refusal() string {
	switch err := d.Keeper.Refusal().(type) {
	case nil:
		return ""
	case *persistence.JournalFault:
		return resp.RefuseJournal(err.Error())
	}
	return resp.RefuseSnapshot
}

// Status translates.
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
