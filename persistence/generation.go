package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
)

// generationOf returns the generation of a file without reading all of it. In a journal it reads section headers up to
// the first invalid one; loading refuses or cuts off what follows that.
func generationOf(r io.ReaderAt, size int64, name string, kind FileKind) (uint64, error) {
	f, err := NewReader(r, size, name)
	if err != nil {
		return 0, err
	}
	if f.Kind() != kind {
		return 0, &kindError{name, f.Kind(), kind}
	}
	generation := f.Generation()
	if kind == SnapshotFile || f.Version() < 2 {
		return generation, nil
	}
	var b [sectionHeaderBytes + generationBytes]byte
	for at := int64(fileHeaderBytes); size-at >= sectionHeaderBytes; {
		n, err := r.ReadAt(b[:min(int64(len(b)), size-at)], at)
		if n < sectionHeaderBytes {
			return 0, fmt.Errorf("reading %s at byte %d: %w", name, at, err)
		}
		h, flaw := parseSectionHeader(b[:])
		if flaw != "" {
			break
		}
		if payload := b[sectionHeaderBytes:n]; h.typ == GenerationSection {
			if len(payload) < generationBytes || crc32.Checksum(payload, castagnoli) != h.sum {
				break
			}
			generation = max(generation, min(binary.LittleEndian.Uint64(payload), MaxGeneration))
		}
		at += sectionHeaderBytes + h.length
	}
	return generation, nil
}

// kindError is returned for a snapshot under the name of the journal, and for a journal under that of the snapshot.
type kindError struct {
	file     string
	is, want FileKind
}

func (e *kindError) Error() string {
	return fmt.Sprintf("%s is a %s, and not a %s", e.file, e.is, e.want)
}

// candidate is a file that Load may choose.
type candidate struct {
	path       string
	found      bool
	generation uint64
	flaw       error // why the file cannot be loaded
}

// examine reads the generation of a file. A file that cannot be loaded is no error but the candidate's flaw.
func (k *Keeper) examine(name string, kind FileKind) (candidate, error) {
	c := candidate{path: filepath.Join(k.c.Dir, name)}
	file, err := k.c.FS.Open("look", c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	} else if err != nil {
		return c, err
	}
	defer func() { _ = file.Close("look: close") }() // it was only read
	c.found = true
	size, err := file.Size("look: size")
	if err != nil {
		return c, err
	}
	c.generation, err = generationOf(file, size, c.path, kind)
	var (
		corrupt *CorruptError
		version *VersionError
		another *kindError
	)
	if errors.As(err, &corrupt) || errors.As(err, &version) || errors.As(err, &another) {
		c.flaw, err = err, nil
	}
	return c, err
}

// readGenerations examines both files, and gives all files that are written from now on a higher generation.
func (k *Keeper) readGenerations() (journal, snapshot candidate, err error) {
	if journal, err = k.examine(k.c.Journal, JournalFile); err != nil {
		return journal, snapshot, err
	}
	if snapshot, err = k.examine(k.c.Snapshot, SnapshotFile); err != nil {
		return journal, snapshot, err
	}
	k.journal.mu.Lock()
	defer k.journal.mu.Unlock()
	k.journal.latest = max(k.journal.latest, journal.generation, snapshot.generation)
	return journal, snapshot, nil
}

// chooseJournal reports whether to load the journal instead of the snapshot: if the rules keep one and its generation
// is not lower than that of the snapshot. A flaw of a file is an error only if the choice depends on that file.
func (k *Keeper) chooseJournal(kept bool) (useJournal bool, err error) {
	journal, snapshot, err := k.readGenerations()
	if err != nil {
		return false, err
	}
	generations := []any{"journal", journal.path, "journal_generation", journal.generation,
		"snapshot", snapshot.path, "snapshot_generation", snapshot.generation}
	switch {
	case !kept:
		if journal.flaw == nil && journal.generation > snapshot.generation {
			k.c.Log.Warn("the journal is newer than the snapshot and is not loaded, because appendonly is no", generations...)
		}
		return false, nil
	case !journal.found:
		return false, nil
	case journal.flaw != nil:
		var corrupt *CorruptError
		if errors.As(journal.flaw, &corrupt) && corrupt.cannotBeRepaired() {
			then := "nothing is loaded"
			if snapshot.found {
				then = snapshot.path + " is loaded"
			}
			return false, fmt.Errorf("%w (%s then)", journal.flaw, then)
		}
		return false, journal.flaw
	case !snapshot.found:
		return true, nil
	case isEmpty(snapshot.flaw):
		k.c.Log.Warn("the snapshot is empty, and the journal is loaded", "file", snapshot.path)
		return true, nil
	case snapshot.flaw != nil:
		return false, fmt.Errorf("whether the snapshot is newer than the journal is not known: %w", snapshot.flaw)
	case snapshot.generation > journal.generation:
		k.c.Log.Warn("the snapshot is loaded, and not the journal, because its generation is higher: "+
			"it was taken after the journal was last written", generations...)
		return false, nil
	}
	k.c.Log.Info("the journal is loaded, and not the snapshot, because its generation is not lower", generations...)
	return true, nil
}
