package persistence_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/crashfs"
	"cellserver/persistence"
)

func TestOSKeepsTheContractOfFS(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	fsys := persistence.OS

	f, err := fsys.Create("", path)
	require.NoError(t, err)
	_, err = f.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, f.Sync(""))
	got := make([]byte, 3)
	_, err = f.ReadAt(got, 1)
	require.NoError(t, err)
	assert.Equal(t, "ell", string(got))
	require.NoError(t, f.Close(""))
	require.Error(t, f.Close(""))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode())

	f, err = fsys.OpenAppend("", path)
	require.NoError(t, err)
	_, err = f.Write([]byte(" world"))
	require.NoError(t, err)
	size, err := f.Size("")
	require.NoError(t, err)
	assert.EqualValues(t, 11, size)
	require.NoError(t, fsys.Truncate("", path, 7))
	_, err = f.Write([]byte("!"))
	require.NoError(t, err)
	require.NoError(t, f.Close(""))

	require.NoError(t, fsys.Rename("", path, other))
	require.NoError(t, fsys.SyncDir("", dir))
	names, err := fsys.ReadDir("", dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"b"}, names)
	f, err = fsys.Open("", other)
	require.NoError(t, err)
	all, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	require.NoError(t, err)
	assert.Equal(t, "hello w!", string(all))
	_, err = f.Write([]byte("x"))
	require.Error(t, err)
	require.NoError(t, f.Close(""))
	require.NoError(t, fsys.Remove("", other))

	for what, err := range map[string]error{
		"open":     errorOf(fsys.Open("", path)),
		"append":   errorOf(fsys.OpenAppend("", path)),
		"remove":   fsys.Remove("", path),
		"rename":   fsys.Rename("", path, other),
		"truncate": fsys.Truncate("", path, 1),
		"sync":     fsys.SyncDir("", path),
		"read":     errorOf(fsys.ReadDir("", path)),
		"lock":     errorOf(fsys.Lock("", path)),
		"create":   errorOf(fsys.Create("", filepath.Join(path, "c"))),
	} {
		assert.ErrorIs(t, err, fs.ErrNotExist, what)
		assert.ErrorContains(t, err, path, what)
	}
}

func errorOf[T any](_ T, err error) error { return err }

func TestADirectoryIsLockedOnce(t *testing.T) {
	dir := t.TempDir()
	lock, err := persistence.OS.Lock("", dir)
	require.NoError(t, err)
	_, err = persistence.OS.Lock("", dir)
	require.ErrorIs(t, err, persistence.ErrLocked)
	assert.True(t, strings.HasPrefix(err.Error(), "dir "+dir+" is in use by another cellserver"), err)
	require.NoError(t, lock.Close())
	lock, err = persistence.OS.Lock("", dir)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

// lockedDir is the environment variable that tells TestALockNamesTheProcessAndEndsWithIt to be the other process.
const lockedDir = "CELLSERVER_TEST_LOCK"

func TestALockNamesTheProcessAndEndsWithIt(t *testing.T) {
	if dir := os.Getenv(lockedDir); dir != "" {
		_, err := persistence.OS.Lock("", dir)
		require.NoError(t, err)
		os.Stdout.WriteString("locked\n")
		io.ReadAll(os.Stdin) // holds the lock until stdin is closed
		return
	}
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	other := exec.Command(self, "-test.run=^TestALockNamesTheProcessAndEndsWithIt$")
	other.Env = append(os.Environ(), lockedDir+"="+dir)
	in, err := other.StdinPipe()
	require.NoError(t, err)
	defer in.Close()
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	said := make([]byte, len("locked\n"))
	_, err = io.ReadFull(out, said)
	require.NoError(t, err)

	_, err = persistence.OS.Lock("", dir)
	require.ErrorIs(t, err, persistence.ErrLocked)
	if strings.Contains(err.Error(), "pid") {
		assert.ErrorContains(t, err, "(pid "+strconv.Itoa(other.Process.Pid)+")")
	}
	require.NoError(t, other.Process.Kill())
	require.Error(t, other.Wait())
	lock, err := persistence.OS.Lock("", dir)
	require.NoError(t, err, "a process that was killed holds no lock")
	require.NoError(t, lock.Close())
}

const dumpDir, dumpName = "/data", "dump.cell"

func dumpPath(name string) string { return filepath.Join(dumpDir, name) }

var errDiskSaysNo = errors.New("the disk says no")

func bytewise(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, c := range []byte(text) {
			if _, err := w.Write([]byte{c}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestWriteDurablyReplacesAFile(t *testing.T) {
	fsys := crashfs.New()
	require.NoError(t, persistence.WriteDurably(fsys, "snapshot", dumpDir, dumpName, bytewise("new")))
	assert.Equal(t, []string{"snapshot", "snapshot: write", "snapshot: sync", "snapshot: close", "snapshot: rename",
		"snapshot: sync dir"}, fsys.Labels())
	for _, o := range crashfs.Outcomes(3) {
		assertDump(t, fsys.Crash(o), "new")
	}
}

func assertDump(t *testing.T, fsys *crashfs.FS, text string) {
	t.Helper()
	got, err := fsys.ReadFile(dumpPath(dumpName))
	require.NoError(t, err)
	assert.Equal(t, text, string(got))
}

// After a failure of the disk or a loss of power at any call, the file is either the old one or the new one.
func TestWriteDurablyIsAllOrNothing(t *testing.T) {
	const calls = 6
	for _, fail := range map[string]func(*crashfs.FS, int){
		"one call":   func(f *crashfs.FS, n int) { f.Fail(n, errDiskSaysNo) },
		"all of now": func(f *crashfs.FS, n int) { f.FailFrom(n, errDiskSaysNo) },
	} {
		for n := 1; n <= calls; n++ {
			fsys := crashfs.New()
			fsys.WriteFile(dumpPath(dumpName), []byte("old"))
			fail(fsys, n)
			err := persistence.WriteDurably(fsys, "snapshot", dumpDir, dumpName, bytewise("new one"))
			require.ErrorIs(t, err, errDiskSaysNo)
			last := n == calls
			if last {
				assertDump(t, fsys, "new one")
			} else {
				assertDump(t, fsys, "old")
			}
			for _, o := range crashfs.Outcomes(20) {
				found := fsys.Crash(o)
				got, err := found.ReadFile(dumpPath(dumpName))
				require.NoError(t, err, "call %d, %+v", n, o)
				assert.True(t, string(got) == "old" || last && string(got) == "new one", "call %d, %+v: %q", n, o, got)
				require.NoError(t, persistence.RemoveLeftovers(found, dumpDir, dumpName, "journal"))
				assert.Equal(t, []string{dumpName}, found.Names(dumpDir))
				require.NoError(t, persistence.WriteDurably(found, "snapshot", dumpDir, dumpName, bytewise("again")))
				assertDump(t, found.Crash(o), "again")
			}
		}
	}
}

func TestWriteDurablyLeavesNothingBehind(t *testing.T) {
	for n := 1; n <= 6; n++ {
		fsys := crashfs.New()
		fsys.Fail(n, errDiskSaysNo)
		require.ErrorIs(t, persistence.WriteDurably(fsys, "x", dumpDir, dumpName, bytewise("new")), errDiskSaysNo)
		if n < 6 {
			assert.Empty(t, fsys.Names(dumpDir), "call %d", n)
		}
	}
	fsys := crashfs.New()
	require.ErrorIs(t, persistence.WriteDurably(fsys, "x", dumpDir, dumpName, func(w io.Writer) error {
		_, err := w.Write([]byte("half"))
		return errors.Join(err, errDiskSaysNo)
	}), errDiskSaysNo)
	assert.Panics(t, func() {
		persistence.WriteDurably(fsys, "x", dumpDir, dumpName, func(io.Writer) error { panic("a bug") })
	})
	assert.Empty(t, fsys.Names(dumpDir))
}

// An error of the disk is returned although write itself ignores it.
func TestWriteDurablyReturnsErrorsThatWriteIgnores(t *testing.T) {
	fsys := crashfs.New()
	fsys.FailLabel("x: write", 2, errDiskSaysNo)
	err := persistence.WriteDurably(fsys, "x", dumpDir, dumpName, func(w io.Writer) error {
		for range 100 {
			w.Write(make([]byte, 100_000))
		}
		return nil
	})
	require.ErrorIs(t, err, errDiskSaysNo)
	assert.Empty(t, fsys.Names(dumpDir))
}

func TestAReplacementRefusesCallsAfterCommit(t *testing.T) {
	fsys := crashfs.New()
	r, err := persistence.Replace(fsys, "x", dumpDir, dumpName)
	require.NoError(t, err)
	require.NoError(t, r.Commit())
	calls := fsys.Calls()
	r.Abort()
	require.Error(t, r.Commit())
	_, err = r.Write([]byte("late"))
	require.Error(t, err)
	assert.Equal(t, calls, fsys.Calls())
	assertDump(t, fsys, "")
}

func TestRemoveLeftoversRemovesTemporaryFilesOnly(t *testing.T) {
	fsys := crashfs.New()
	for _, n := range []string{"a", "a.tmp", "b.tmp", "c.tmp"} {
		fsys.WriteFile(dumpPath(n), nil)
	}
	require.NoError(t, persistence.RemoveLeftovers(fsys, dumpDir, "a", "b", "none"))
	assert.Equal(t, []string{"a", "c.tmp"}, fsys.Names(dumpDir))
	fsys.FailLabel("leftovers: remove", 4, errDiskSaysNo)
	require.ErrorIs(t, persistence.RemoveLeftovers(fsys, dumpDir, "c"), errDiskSaysNo)
}

// TestReplacementSyncsAsItGoes writes much and requires that little of it is left to sync at the end.
func TestReplacementSyncsAsItGoes(t *testing.T) {
	const size = 10 << 20
	fsys := crashfs.New()
	require.NoError(t, persistence.WriteDurably(fsys, "dump", dumpDir, "dump", func(w io.Writer) error {
		for range size / 1000 {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				return err
			}
		}
		return nil
	}))
	unsynced, most := 0, 0
	for _, label := range fsys.Labels() {
		switch label {
		case "dump: write":
			unsynced += 64 << 10
			most = max(most, unsynced)
		case "dump: sync":
			unsynced = 0
		}
	}
	assert.Less(t, most, 5<<20)
	assert.Greater(t, most, 1<<20, "but not all the time")
}

// GOMAXPROCS is at least 2 during calls that may block, and back at its value afterwards.
func TestBlockingCallsHaveASpareProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "1") // otherwise the last call restores the number of processors of the machine
	inside, leave := make(chan int), make(chan struct{})
	const calls = 3
	for range calls {
		go func() {
			_ = persistence.WithSpareProcessor(func() error {
				inside <- runtime.GOMAXPROCS(0)
				<-leave
				return nil
			})
			inside <- 0
		}()
	}
	for range calls {
		assert.Equal(t, 2, <-inside)
	}
	for left := calls; left > 0; left-- {
		assert.Equal(t, 2, runtime.GOMAXPROCS(0))
		leave <- struct{}{}
		<-inside
	}
	assert.Equal(t, 1, runtime.GOMAXPROCS(0))

	runtime.GOMAXPROCS(3)
	require.EqualError(t, persistence.WithSpareProcessor(func() error {
		assert.Equal(t, 3, runtime.GOMAXPROCS(0), "where there are several, there are enough")
		return errors.New("no")
	}), "no")
	assert.Equal(t, 3, runtime.GOMAXPROCS(0))
}
