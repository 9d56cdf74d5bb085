package test

// These tests start the program on a full disk, and on a snapshot and a journal of different ages.

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// smallDisk mounts a file system of the given size until the end of the test, and returns its directory. It skips the test if
// this user may not mount one: TestFullDiskRefusesWritesUntilThereIsRoom limits the sizes of files instead, and the tests of
// package persistence have a simulated disk of any size.
func smallDisk(t *testing.T, bytes int) (dir string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs tmpfs, which only Linux has")
	}
	dir = t.TempDir()
	mount, umount := testenv.Tool(t, "mount"), testenv.Tool(t, "umount")
	if out, err := exec.Command(mount, "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", bytes), "cellserver-test", dir).CombinedOutput(); err != nil {
		t.Skipf("needs the right to mount a file system: %s", out)
	}
	t.Cleanup(func() {
		out, err := exec.Command(umount, dir).CombinedOutput()
		assert.NoError(t, err, string(out))
	})
	return dir
}

// fill writes a file that takes all free space, and returns its size.
func fill(t *testing.T, path string) (size int64) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	for block := make([]byte, 4096); err == nil; {
		var n int
		n, err = f.Write(block)
		size += int64(n)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
	return size
}

// A real disk fills up and then has free space again, but much less than a second journal needs: the journal continues, and
// no acknowledged change is lost.
func TestFullFileSystemKeepsEarlierReplies(t *testing.T) {
	for _, fsync := range []string{"everysec", "always"} {
		t.Run(fsync, func(t *testing.T) {
			dir := smallDisk(t, 4<<20)
			args := []string{"--dir", dir, "--appendonly", "yes", "--appendfsync", fsync}
			s := start(t, args...)
			c := s.raw(t)
			long := func(i int) string { return fmt.Sprintf("%d:%s", i, strings.Repeat("x", 600)) }
			client, many := s.client(t), 4500
			for from := 0; from < many; from += 500 {
				_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
					for i := range 500 {
						p.Do(t.Context(), "CL.WINDOW", long(from+i), 10, 86400, 1)
					}
					return nil
				})
				require.NoError(t, err)
			}
			size := c.journalSize(many * 600)
			filler := filepath.Join(dir, "filler")
			filled := fill(t, filler)
			require.Less(t, filled, int64(size), "a rewrite has no room, so that there is a point in this")

			acknowledged := many
			for acknowledged < many+100 && c.info()["aof_last_write_status"] == "ok" { // the last page of the file has room left
				if _, err := fmt.Fprintf(c, "CL.WINDOW %s 10 86400 1\r\n", long(acknowledged)); err != nil {
					break
				}
				reply := make([]byte, len("*5\r\n:0\r\n"))
				if _, err := io.ReadFull(c.r, reply); err != nil { // with appendfsync always a change that cannot be synced gets no reply
					break
				}
				if string(reply) != "*5\r\n:0\r\n" {
					require.Equal(t, "-MISCONF", string(reply[:8]))
					break
				}
				for range 4 {
					_, err := c.r.ReadString('\n')
					require.NoError(t, err)
				}
				acknowledged++
			}
			s.says("no space left on device")
			c = s.raw(t)
			c.until("aof_last_write_status", "err")
			c.ask("CL.WINDOW k 10 86400 1", "-MISCONF ")
			_, err := c.r.ReadString('\n')
			require.NoError(t, err)
			c.ask(fmt.Sprintf("EXISTS %s", long(0)), ":1\r\n")

			const room = 256 << 10 // for the changes that wait to be written
			require.NoError(t, os.Truncate(filler, filled-room))
			c.until("aof_last_write_status", "ok")
			s.says("the journal is written again")
			c.take("k", 3, 7)
			if fsync == "always" {
				s.signal(os.Kill)
			} else {
				s.signal(syscall.SIGTERM)
			}
			s.exit()
			c = start(t, args...).raw(t)
			for _, i := range []int{0, many - 1, many, acknowledged - 1} {
				if i < acknowledged {
					c.ask(fmt.Sprintf("EXISTS %s", long(i)), ":1\r\n")
				}
			}
			c.take("k", 0, 7)
		})
	}
}

// If the journal is turned off and a later snapshot exists, the next start with a journal loads the snapshot.
func TestOlderJournalIsNotLoaded(t *testing.T) {
	dir := t.TempDir()
	s := start(t, "--dir", dir, "--appendonly", "yes", "--save", "3600 1")
	c := s.raw(t)
	c.take("k", 3, 7)
	c.journalSize(0)
	c.ask("CONFIG SET appendonly no", "+OK\r\n")
	c.take("k", 5, 2)
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())

	s = start(t, "--dir", dir, "--appendonly", "yes")
	s.says("the snapshot is loaded, and not the journal, because its generation is higher")
	c = s.raw(t)
	c.take("k", 1, 1)
	c.journalSize(0)
	s.signal(syscall.SIGTERM)
	assert.Zero(t, s.exit())
	stdout, _, code := run(t, nil, "check", filepath.Join(dir, "appendonly.cell"))
	assert.Zero(t, code)
	assert.Contains(t, stdout, ", version 3, generation ")

	s = start(t, "--dir", dir)
	s.says("the journal is newer than the snapshot and is not loaded, because appendonly is no")
	s.raw(t).take("k", 0, 2)
}

// An empty file, which a full disk can leave, makes the start fail with advice, and the advice works.
func TestEmptyFileStopsTheStart(t *testing.T) {
	for name, options := range map[string][]string{
		"dump.cell": {"--save", "3600 1"}, "appendonly.cell": {"--appendonly", "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			args := append([]string{"--dir", dir}, options...)
			want := path + " is empty, as when the disk was full; nothing in it can be repaired: put a copy of the file in its " +
				"place, or start without it after: rm " + path
			_, stderr, code := run(t, nil, append(args, "--port", freePort(t))...)
			assert.Equal(t, 1, code)
			assert.Contains(t, stderr, want)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)

			stdout, stderr, code := run(t, nil, "check", path)
			assert.Equal(t, 1, code)
			assert.Equal(t, path+": 0 bytes: NOT SOUND\n", stdout)
			assert.Equal(t, "cellserver: "+want+"\n", stderr)
			_, stderr, code = run(t, nil, "check", "--repair", path+".new", path)
			assert.Equal(t, 1, code)
			assert.Equal(t, "cellserver: "+want+"\n", stderr)
			assert.NoFileExists(t, path+".new")

			require.NoError(t, os.Remove(path))
			start(t, args...).raw(t).take("k", 1, 9)
		})
	}
}
