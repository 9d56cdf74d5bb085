package crashfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/persistence"
)

var errDisk = errors.New("the disk says no")

// must returns what a call returned that has to succeed.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

func put(t *testing.T, f persistence.File, text string) {
	t.Helper()
	n, err := f.Write([]byte(text))
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

// texts returns what each outcome finds at path, "-" where there is no file, sorted.
func texts(f *FS, path string, bytes Bytes, names Names) []string {
	found := map[string]bool{}
	for seed := range uint64(200) {
		text, err := f.Crash(Outcome{bytes, names, seed}).ReadFile(path)
		if err != nil {
			text = []byte("-")
		}
		found[string(text)] = true
	}
	return slices.Sorted(maps.Keys(found))
}

func TestFiles(t *testing.T) {
	f := New()
	a := must(f.Create("", "/d/a"))(t)
	put(t, a, "hello")
	b := must(f.OpenAppend("", "/d/../d/a"))(t)
	put(t, b, " world")
	require.NoError(t, f.Truncate("", "/d/a", 8))
	put(t, b, "!")
	put(t, a, "_")
	assert.EqualValues(t, 9, must(a.Size(""))(t))
	assert.Equal(t, "hello_wo!", string(must(f.ReadFile("/d/a"))(t)))

	some := make([]byte, 4)
	assert.Equal(t, 4, must(a.ReadAt(some, 4))(t))
	assert.Equal(t, "o_wo", string(some))
	n, err := a.ReadAt(some, 7)
	assert.Equal(t, 2, n)
	assert.Equal(t, io.EOF, err)
	n, err = a.ReadAt(some, 100)
	assert.Zero(t, n)
	assert.Equal(t, io.EOF, err)
	_, err = a.ReadAt(some, -1)
	require.Error(t, err)

	must(f.Create("", "/d/e/deep"))(t)
	must(f.Create("", "/d/b"))(t)
	assert.Equal(t, []string{"a", "b"}, must(f.ReadDir("", "/d/"))(t))
	require.NoError(t, f.Rename("", "/d/a", "/d/b"))
	assert.Equal(t, []string{"b"}, f.Names("/d"))
	require.NoError(t, f.Rename("", "/d/b", "/d/b"))
	require.Error(t, f.Rename("", "/d/b", "/b"))
	require.NoError(t, f.Remove("", "/d/b"))
	put(t, b, "?") // somebody has it open
	assert.EqualValues(t, 10, must(a.Size(""))(t))

	r := New()
	r.WriteFile("/x", []byte("x"))
	x := must(r.Open("", "/x"))(t)
	_, err = x.Write([]byte("y"))
	require.ErrorIs(t, err, fs.ErrPermission)
	require.NoError(t, x.Close(""))
	for _, err := range []error{x.Close(""), x.Sync(""), second(x.Size("")), second(x.Write(nil)), second(x.ReadAt(nil, 0))} {
		require.ErrorIs(t, err, fs.ErrClosed)
	}
	for _, err := range []error{
		second(r.Open("", "/y")), second(r.OpenAppend("", "/y")), r.Rename("", "/y", "/z"), r.Remove("", "/y"),
		r.Truncate("", "/y", 1), second(r.ReadFile("/y")),
	} {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	require.ErrorIs(t, r.Truncate("", "/x", -1), fs.ErrInvalid)
}

func second[T any](_ T, err error) error { return err }

func TestBytes(t *testing.T) {
	f := New()
	f.WriteFile("/a", []byte("ab"))
	a := must(f.OpenAppend("", "/a"))(t)
	put(t, a, "c")
	require.NoError(t, a.Sync(""))
	put(t, a, "de")
	put(t, a, "f")
	assert.Equal(t, []string{"abc"}, texts(f, "/a", BytesLost, NamesKept))
	assert.Equal(t, []string{"abc", "abcd", "abcde", "abcdef"}, texts(f, "/a", BytesPrefix, NamesLost))
	assert.Equal(t, []string{"abc\x00\x00\x00", "abcd\x00\x00", "abcde\x00", "abcdef"}, texts(f, "/a", BytesZeros, NamesLost))
	assert.Equal(t, []string{"abcdef"}, texts(f, "/a", BytesKept, NamesLost))

	require.NoError(t, f.Truncate("", "/a", 1))
	put(t, a, "X")
	assert.Equal(t, []string{"abc"}, texts(f, "/a", BytesLost, NamesLost))
	assert.Equal(t, []string{"a", "aX", "abc", "abcd", "abcde", "abcdef"}, texts(f, "/a", BytesPrefix, NamesLost))
	assert.Equal(t, []string{"a\x00", "aX"}, texts(f, "/a", BytesZeros, NamesLost))
	require.NoError(t, a.Sync(""))
	assert.Equal(t, []string{"aX"}, texts(f, "/a", BytesLost, NamesLost))

	must(f.Create("", "/a"))(t)
	assert.Equal(t, []string{"", "aX"}, texts(f, "/a", BytesPrefix, NamesLost), "emptying a file is not durable either")
}

func TestNames(t *testing.T) {
	f := New()
	f.WriteFile("/d/old", []byte("1"))
	n := must(f.Create("", "/d/new"))(t)
	put(t, n, "2")
	require.NoError(t, n.Sync(""))
	assert.Equal(t, []string{"-"}, texts(f, "/d/new", BytesKept, NamesLost), "a synced file has no synced name")
	assert.Equal(t, []string{"-", "2"}, texts(f, "/d/new", BytesKept, NamesSome))
	require.NoError(t, f.SyncDir("", "/other"))
	assert.Equal(t, []string{"-"}, texts(f, "/d/new", BytesKept, NamesLost))
	require.NoError(t, f.SyncDir("", "/d"))
	assert.Equal(t, []string{"2"}, texts(f, "/d/new", BytesLost, NamesLost))

	require.NoError(t, f.Rename("", "/d/new", "/d/old"))
	assert.Equal(t, []string{"1"}, texts(f, "/d/old", BytesKept, NamesLost))
	assert.Equal(t, []string{"2"}, texts(f, "/d/old", BytesKept, NamesKept))
	for o := range uint64(100) {
		found := f.Crash(Outcome{BytesKept, NamesSome, o})
		names := found.Names("/d")
		text := string(must(found.ReadFile("/d/old"))(t))
		assert.True(t, text == "2" && len(names) == 1 || text == "1" && len(names) == 2, "%q %q", names, text)
	}
	assert.Equal(t, []string{"1", "2"}, texts(f, "/d/old", BytesKept, NamesSome))
	require.NoError(t, f.Remove("", "/d/old"))
	assert.Equal(t, []string{"-", "1", "2"}, texts(f, "/d/old", BytesKept, NamesSome))
}

// Independent names may come in any order; a later change of a name presupposes the earlier one.
func TestOrderOfNames(t *testing.T) {
	f := New()
	for _, p := range []string{"/a", "/b"} {
		must(f.Create("", p))(t)
	}
	require.NoError(t, f.Rename("", "/b", "/c"))
	found := map[string]bool{}
	for seed := range uint64(200) {
		found[fmt.Sprint(f.Crash(Outcome{BytesKept, NamesSome, seed}).Names("/"))] = true
	}
	assert.Equal(t, []string{"[]", "[a b]", "[a c]", "[a]", "[b]", "[c]"}, slices.Sorted(maps.Keys(found)))
}

// A file that was renamed in time, and not synced, is there and empty.
func TestNamesKnowNothingOfBytes(t *testing.T) {
	f := New()
	f.WriteFile("/a", []byte("old"))
	n := must(f.Create("", "/n"))(t)
	put(t, n, "new")
	require.NoError(t, f.Rename("", "/n", "/a"))
	require.NoError(t, f.SyncDir("", "/"))
	assert.Equal(t, []string{""}, texts(f, "/a", BytesLost, NamesLost))
	assert.Equal(t, []string{"\x00\x00\x00", "n\x00\x00", "ne\x00", "new"}, texts(f, "/a", BytesZeros, NamesLost))
}

func TestCrashLeavesTheFirstOneAlone(t *testing.T) {
	f := New()
	f.Fail(100, errDisk)
	must(f.Lock("", "/"))(t)
	a := must(f.Create("", "/a"))(t)
	put(t, a, "a")
	found := f.Crash(Outcome{Bytes: BytesKept, Names: NamesKept})
	put(t, a, "b")
	assert.Equal(t, "a", string(must(found.ReadFile("/a"))(t)))
	assert.Equal(t, "ab", string(must(f.ReadFile("/a"))(t)))
	assert.Zero(t, found.Calls())
	assert.Equal(t, []string{"a"}, texts(found, "/a", BytesLost, NamesLost), "what was found is durable")
	must(found.Lock("", "/"))(t)
	for range 100 {
		must(found.ReadDir("", "/"))(t)
	}
	b := must(found.OpenAppend("", "/a"))(t)
	put(t, b, "xyz")
	assert.Equal(t, "ab", string(must(f.ReadFile("/a"))(t)))
}

func TestSeedsRepeat(t *testing.T) {
	f := New()
	for i := range 20 {
		a := must(f.Create("", fmt.Sprint("/", i)))(t)
		put(t, a, "0123456789")
	}
	for _, o := range Outcomes(5) {
		one, two := f.Crash(o), f.Crash(o)
		require.Equal(t, one.Names("/"), two.Names("/"))
		for _, n := range one.Names("/") {
			assert.Equal(t, must(one.ReadFile("/"+n))(t), must(two.ReadFile("/"+n))(t))
		}
	}
}

func TestFailures(t *testing.T) {
	f := New()
	f.Fail(2, errDisk)
	f.FailLabel("a: write", 2, errDisk)
	a := must(f.Create("a", "/a"))(t)
	require.ErrorIs(t, f.Remove("remove", "/a"), errDisk)
	put(t, a, "1234")
	n, err := a.Write([]byte("5678"))
	assert.Equal(t, 2, n)
	require.ErrorIs(t, err, errDisk)
	put(t, a, "x")
	assert.Equal(t, "123456x", string(must(f.ReadFile("/a"))(t)))
	assert.Equal(t, []string{"a", "remove", "a: write", "a: write", "a: write"}, f.Labels())

	f.FailFrom(f.Calls()+2, errDisk)
	must(a.Size("size"))(t)
	n, err = a.Write([]byte("yz"))
	assert.Equal(t, 1, n)
	require.ErrorIs(t, err, errDisk)
	n, err = a.Write([]byte("yz"))
	assert.Zero(t, n)
	for _, err := range []error{
		err, f.Rename("", "/a", "/b"), f.Remove("", "/a"), f.SyncDir("", "/"), f.Truncate("", "/a", 0), a.Sync(""),
		second(f.Create("", "/b")), second(f.Open("", "/a")), second(f.ReadDir("", "/")), second(f.Lock("", "/")),
		second(a.ReadAt(nil, 0)), second(a.Size("")), a.Close(""),
	} {
		require.ErrorIs(t, err, errDisk)
	}
	assert.Equal(t, "123456xy", string(must(f.ReadFile("/a"))(t)))
	assert.Equal(t, []string{"a"}, f.Names("/"))
	assert.Empty(t, f.Crash(Outcome{Bytes: BytesKept, Names: NamesLost}).Names("/"))
}

func TestFailedSyncIsForGood(t *testing.T) {
	f := New()
	f.WriteFile("/a", []byte("1"))
	f.FailLabel("sync", 2, errDisk)
	a := must(f.OpenAppend("", "/a"))(t)
	put(t, a, "2")
	require.NoError(t, a.Sync("sync"))
	put(t, a, "3")
	require.ErrorIs(t, a.Sync("sync"), errDisk)
	put(t, a, "4")
	require.NoError(t, a.Sync("sync"))
	assert.Equal(t, []string{"12"}, texts(f, "/a", BytesLost, NamesLost))
	require.NoError(t, f.Truncate("", "/a", 3))
	require.NoError(t, a.Sync("sync"))
	assert.Equal(t, []string{"12"}, texts(f, "/a", BytesLost, NamesLost), "what was lost is still in it")
	require.NoError(t, f.Truncate("", "/a", 2))
	put(t, a, "3")
	require.NoError(t, a.Sync("sync"))
	assert.Equal(t, []string{"123"}, texts(f, "/a", BytesLost, NamesLost), "written anew")
}

func TestLock(t *testing.T) {
	f := New()
	l := must(f.Lock("", "/d"))(t)
	must(f.Lock("", "/e"))(t)
	_, err := f.Lock("", "/d/")
	require.ErrorIs(t, err, persistence.ErrLocked)
	require.EqualError(t, err, "dir /d is in use by another cellserver")
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Close(), fs.ErrClosed)
	must(f.Lock("", "/d"))(t)
}

func TestConcurrently(t *testing.T) {
	f := New()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				path := fmt.Sprintf("/%d", (i+j)%4)
				if a, err := f.Create("", path); assert.NoError(t, err) {
					a.Write([]byte("x"))
					a.Sync("")
					a.Close("")
				}
				f.SyncDir("", "/")
				f.Crash(Outcome{BytesPrefix, NamesSome, uint64(j)})
				f.Labels()
			}
		})
	}
	all.Wait()
	assert.Equal(t, 8*50*5, f.Calls())
}

func TestLimit(t *testing.T) {
	f := New()
	f.WriteFile("/a", []byte("12345"))
	f.Limit(8)
	assert.Equal(t, 5, f.Used())
	a := must(f.OpenAppend("", "/a"))(t)
	put(t, a, "67")
	n, err := a.Write([]byte("89"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, 1, n)
	n, err = a.Write([]byte("9"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Zero(t, n)
	b := must(f.Create("", "/b"))(t)
	n, err = b.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.Zero(t, n)
	require.ErrorIs(t, a.Truncate("", 9), syscall.ENOSPC)
	require.ErrorIs(t, f.Truncate("", "/b", 1), syscall.ENOSPC)
	require.NoError(t, a.Truncate("cut", 6))
	f.FailLabel("cut", 2, errDisk)
	require.ErrorIs(t, a.Truncate("cut", 0), errDisk)
	require.Error(t, a.Truncate("", -1))
	put(t, b, "xy")
	assert.Equal(t, "123456", string(must(f.ReadFile("/a"))(t)))
	require.NoError(t, f.Rename("", "/b", "/a"))
	put(t, must(f.Create("", "/c"))(t), "123456")
	f.Limit(3)
	require.NoError(t, a.Truncate("", 0), "shorter is always possible")
	f.Limit(-1)
	put(t, a, "123456789")
	require.Error(t, must(f.Open("", "/a"))(t).Truncate("", 0), "it was opened for reading")
}
