package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/cmd/cellserver/importer"
	"cellserver/cmd/cellserver/options"
	"cellserver/persistence"
	"cellserver/resp/script"
)

// commands are the subcommands of the program by name. Without a subcommand, the program serves.
var commands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error{
	"check":   check,
	"import":  importKeys,
	"scripts": listScripts,
}

const checkHelp = `check reads a snapshot or a journal and tells whether it is sound, and what is in it.

Usage:
  cellserver check [--repair NEWFILE] FILE

Options:
  --repair NEWFILE
        write what is whole to a new file, which must not exist; FILE is not changed
`

// check implements "cellserver check FILE". It returns an error if the file is not sound.
func check(_ context.Context, args []string, stdout, _ io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	repair := flags.String("repair", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		_, err = io.WriteString(stdout, checkHelp)
		return err
	case err != nil:
		return fmt.Errorf("%w (see cellserver check --help)", err)
	case flags.NArg() != 1:
		return errors.New("which file? (see cellserver check --help)")
	}
	name := flags.Arg(0)
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the file was only read
	stat, err := file.Stat()
	if err != nil {
		return err
	}
	report, sound := persistence.Check(file, stat.Size(), name)
	if err := writeReport(stdout, name, &report, sound); err != nil {
		return err
	}
	if *repair == "" {
		return sound
	}
	return repairTo(*repair, file, stat.Size(), name, stdout)
}

// writeReport writes the report as text. sound is the error of Check.
func writeReport(w io.Writer, name string, r *persistence.Report, sound error) error {
	when := func(t int64) string {
		if t == 0 {
			return "none"
		}
		return time.Unix(0, t).UTC().Format(time.RFC3339)
	}
	verdict := "sound"
	if sound != nil {
		verdict = "NOT SOUND"
	}
	if r.FileKind == 0 { // the header cannot be read
		_, err := fmt.Fprintf(w, "%s: %d bytes: %s\n", name, r.Bytes, verdict)
		return err
	}
	var sets []string
	byName := r.Sets
	byName[buckets.Counter] += byName[buckets.Float] // which has the same name
	for _, kind := range buckets.Kinds() {
		if kind != buckets.Float {
			sets = append(sets, fmt.Sprintf("%s %d", kind, byName[kind]))
		}
	}
	_, err := fmt.Fprintf(w, "%s: a %s of %d bytes, version %d, generation %d, begun %s: %s\n"+
		"  %s and changes of zslide %d with %d records; deletions %d, flushes %d, swaps %d; in %d sections; databases %d\n"+
		"  first expiry %s, last expiry %s\n",
		name, r.FileKind, r.Bytes, r.Version, r.Generation, when(r.Created), verdict,
		strings.Join(sets, ", "), r.Amends, r.Records, r.Deletes, r.Flushes, r.Swaps, r.Sections, r.Databases,
		when(r.Oldest), when(r.Newest))
	if err == nil && r.Torn != nil {
		_, err = fmt.Fprintf(w, "  its last %d bytes were not written whole: the server cuts them off when it loads it\n", r.Torn.Lost)
	}
	return err
}

// repairTo writes the whole sections of a file to a new one, and their number to stdout. After an error there is no new
// file.
func repairTo(to string, from io.ReaderAt, size int64, name string, stdout io.Writer) (err error) {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	kept, lost, err := persistence.Repair(from, size, name, out)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	_, err = fmt.Fprintf(stdout, "%s: %d sections kept, %d lost\n", to, kept, lost)
	return err
}

// listScripts runs "cellserver scripts": it lists the scripts that the server knows.
func listScripts(_ context.Context, args []string, stdout, _ io.Writer) error {
	if len(args) > 0 && args[0] != "--help" {
		return errors.New("scripts has no arguments")
	}
	library := ""
	for _, s := range script.Known() {
		if s.Library != library {
			library = s.Library
			if _, err := fmt.Fprintf(stdout, "%s\n", library); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(stdout, "  %s  %s (%s)\n", s.Digest, s.Name, s.Versions); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(stdout, "Beside these, scripts that are one call: return redis.call('<command>', arguments). docs/scripts.md has the details.")
	return err
}

// importKeys implements "cellserver import".
func importKeys(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return importer.Run(ctx, importer.Config{Open: openSnapshot, Engine: importInto, Target: "dump.cell"}, args, stdout, stderr)
}

// importInto returns a store for the keys that an import writes. The log of the store is for servers.
func importInto(s *options.Store) (*cluster.Store, error) {
	config, err := engineConfig(s, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return cluster.New(config, engineRules(&options.Settings{Store: *s}))
}

// openSnapshot begins a snapshot file of imported keys, which are of database db. It returns an error if target exists, or if a server uses its
// directory.
func openSnapshot(target string, db int) (importer.Sink, error) {
	if _, err := os.Stat(target); err == nil {
		return nil, fmt.Errorf("%s exists: name a new file, or move it away", target)
	}
	dir := filepath.Dir(target)
	lock, err := persistence.OS.Lock("lock", dir)
	if err != nil {
		return nil, err
	}
	sink, err := persistence.CreateSnapshot(persistence.OS, dir, filepath.Base(target), time.Now().UnixNano(), db)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lockedSink{sink, lock}, nil
}

// lockedSink holds the lock of the directory until the file is complete, so that no server loads or replaces it.
type lockedSink struct {
	*persistence.Sink
	lock io.Closer
}

func (s lockedSink) Close() error { return errors.Join(s.Sink.Close(), s.lock.Close()) }
func (s lockedSink) Abort() error { return errors.Join(s.Sink.Abort(), s.lock.Close()) }
