package test

// These tests check the files of the program: what a restart finds after each way to stop, and how the program reports a
// damaged file or a failing disk and recovers.

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
	"cellserver/persistence"
)

// take takes n from a window of 10 a day and checks how many are left.
func (c *raw) take(key string, n, left int) {
	c.t.Helper()
	c.ask(fmt.Sprintf("CL.WINDOW %s 10 86400 %d", key, n), fmt.Sprintf("*5\r\n:0\r\n:10\r\n:%d\r\n:-1\r\n", left))
	_, err := c.r.ReadString('\n') // the reset time
	require.NoError(c.t, err)
}

// info returns the fields of INFO persistence.
func (c *raw) info() map[string]string {
	c.t.Helper()
	_, err := io.WriteString(c, "INFO persistence\r\n")
	require.NoError(c.t, err)
	return c.readInfo()
}

// readInfo reads a reply to INFO.
func (c *raw) readInfo() map[string]string {
	c.t.Helper()
	line, err := c.r.ReadString('\n')
	require.NoError(c.t, err)
	size, err := strconv.Atoi(strings.Trim(line, "$\r\n"))
	require.NoError(c.t, err, line)
	text := make([]byte, size+2)
	_, err = io.ReadFull(c.r, text)
	require.NoError(c.t, err)
	fields := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields
}

// until waits until a field of INFO persistence has a value.
func (c *raw) until(field, value string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.info()[field] == value }, patience, time.Millisecond, "%s:%s", field, value)
}

// journalSize waits until the journal is longer than the given number of bytes, and returns its length.
func (c *raw) journalSize(above int) (size int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		fields := c.info()
		size, _ = strconv.Atoi(fields["aof_current_size"])
		return size > above && fields["aof_rewrite_in_progress"] == "0"
	}, patience, time.Millisecond)
	return size
}

// save has the server write a snapshot, as soon as no other one is being written.
func (c *raw) save() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		_, err := io.WriteString(c, "SAVE\r\n")
		require.NoError(c.t, err)
		line, err := c.r.ReadString('\n')
		require.NoError(c.t, err)
		if line != "+OK\r\n" {
			require.Contains(c.t, line, "-ERR Background ")
		}
		return line == "+OK\r\n"
	}, patience, time.Millisecond)
}

// ends checks that the connection ends without further bytes.
func (c *raw) ends() {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	require.NoError(c.t, err)
	require.Empty(c.t, string(rest))
	c.Close()
}

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestRestartLoadsWhatWasSaved(t *testing.T) {
	term := func(s *server, c *raw) { s.signal(syscall.SIGTERM) }
	says := func(line string) func(*server, *raw) {
		return func(_ *server, c *raw) {
			_, err := io.WriteString(c, line+"\r\n")
			require.NoError(c.t, err)
		}
	}
	nothing, snapshot, journal := []string(nil), []string{"--save", "3600 1000000"}, []string{"--appendonly", "yes"}
	both := append(journal, snapshot...)
	for _, row := range []struct {
		name  string
		args  []string
		saved bool // whether a snapshot is written after 3 are taken
		ends  func(*server, *raw)
		left  int // of 10, after 5 were taken
		files []string
	}{
		{"nothing is kept unless it is asked for", nothing, false, term, 10, nil},
		{"nor by SHUTDOWN", nothing, false, says("SHUTDOWN"), 10, nil},
		{"but by SHUTDOWN SAVE", nothing, false, says("SHUTDOWN SAVE"), 5, []string{"dump.cell"}},
		{"what SAVE has written is loaded, and all that came after it forgotten", nothing, true, term, 7, []string{"dump.cell"}},
		{"with save points, SIGTERM saves", snapshot, false, term, 5, []string{"dump.cell"}},
		{"with save points, ctrl-C saves", snapshot, false, func(s *server, _ *raw) { s.signal(os.Interrupt) }, 5, []string{"dump.cell"}},
		{"with save points, SHUTDOWN saves", snapshot, true, says("SHUTDOWN"), 5, []string{"dump.cell"}},
		{"SHUTDOWN NOSAVE does not", snapshot, true, says("SHUTDOWN NOSAVE"), 7, []string{"dump.cell"}},
		{"SHUTDOWN NOSAVE before there is a snapshot", snapshot, false, says("SHUTDOWN NOSAVE"), 10, nil},
		{"a journal is whole after SIGTERM", journal, false, term, 5, []string{"appendonly.cell"}},
		{"and after SHUTDOWN", journal, false, says("SHUTDOWN"), 5, []string{"appendonly.cell"}},
		{"and after SHUTDOWN NOSAVE", journal, false, says("shutdown nosave now force"), 5, []string{"appendonly.cell"}},
		{"a journal comes before a snapshot", both, true, says("SHUTDOWN NOSAVE"), 5, []string{"appendonly.cell", "dump.cell"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			args := append([]string{"--dir", dir}, row.args...)
			s := start(t, args...)
			c := s.raw(t)
			c.take("k", 3, 7)
			if row.saved {
				c.save()
			}
			c.take("k", 2, 5)
			row.ends(s, c)
			c.ends()
			assert.Zero(t, s.exit())
			assert.NotContains(t, s.log.String(), "level=ERROR")
			assert.Equal(t, row.files, names(t, dir))

			start(t, args...).raw(t).take("k", 0, row.left)
		})
	}
	t.Run("SHUTDOWN stays when it cannot save, unless it is forced", func(t *testing.T) {
		dir := t.TempDir()
		s := start(t, "--dir", dir, "--save", "3600 1000000", "--dbfilename", "there")
		// Not even root can write a file where a directory is.
		require.NoError(t, os.Mkdir(filepath.Join(dir, "there.tmp"), 0o700))
		c := s.raw(t)
		c.take("k", 3, 7)
		c.ask("SHUTDOWN", "-ERR Errors trying to SHUTDOWN. Check logs.\r\n")
		s.says("the snapshot could not be written")
		c.ask("EXISTS k", ":1\r\n")
		c.ask("SHUTDOWN FORCE", "")
		c.ends()
		assert.Equal(t, 1, s.exit(), "whoever started it is told")
		s.says("\ncellserver: ")
		assert.Equal(t, []string{"there.tmp"}, names(t, dir))
	})
}

func TestSecondServerOfADirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := start(t, "--dir", dir, "--appendonly", "yes")
	for _, args := range [][]string{{"--save", "60 1"}, {"--appendonly", "yes"}} {
		stdout, stderr, code := run(t, nil, append(args, "--dir", dir, "--port", freePort(t))...)
		assert.Equal(t, 1, code)
		assert.Empty(t, stdout)
		want := fmt.Sprintf("cellserver: dir %s is in use by another cellserver", dir)
		if runtime.GOOS == "linux" {
			want += fmt.Sprintf(" (pid %d)", s.cmd.Process.Pid)
		}
		assert.Equal(t, want+"\n", stderr)
	}

	// A server without persistence does not lock the directory until persistence is turned on.
	other := start(t, "--dir", dir)
	c := other.raw(t)
	c.ask("CONFIG SET appendonly yes", "-ERR CONFIG SET failed")
	line, err := c.r.ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, dir+" is in use by another cellserver")
	c.ask("SAVE", "-ERR dir "+dir+" is in use by another cellserver")
	_, err = c.r.ReadString('\n')
	require.NoError(t, err)

	s.signal(os.Kill)
	s.exit()
	c.ask("CONFIG SET appendonly yes", "+OK\r\n")
}

func TestDamagedFileStopsTheStart(t *testing.T) {
	const keys = 60_000 // a few sections
	for _, row := range []struct {
		name, file string
		options    []string
		make       func(t *testing.T, dir string)
		at         string // where the file is damaged, as reported
		lost       string // what the report of the repair says is lost
		whole      func(c *raw)
	}{
		{
			name: "snapshot", file: "dump.cell", at: "key 30000",
			make: func(t *testing.T, dir string) { makeSnapshot(t, dir, keys, time.Hour) },
			lost: "1 lost\n",
			whole: func(c *raw) {
				for _, key := range []int{0, keys - 1} {
					c.ask(fmt.Sprintf("EXISTS %q", keyOf(key)), ":1\r\n")
				}
			},
		},
		{
			name: "journal", file: "appendonly.cell", at: "second",
			options: []string{"--appendonly", "yes", "--appendfsync", "always"},
			make: func(t *testing.T, dir string) {
				s := start(t, "--dir", dir, "--appendonly", "yes", "--appendfsync", "always")
				c := s.raw(t)
				for _, key := range []string{"first", "second", "third"} {
					c.take(key, 3, 7)
				}
				s.signal(os.Kill)
				s.exit()
			},
			lost:  "1 lost\n",
			whole: func(c *raw) { c.take("first", 0, 7); c.take("second", 0, 10); c.take("third", 0, 7) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, row.file)
			row.make(t, dir)
			stdout, stderr, code := run(t, nil, "check", path)
			assert.Zero(t, code)
			assert.Empty(t, stderr)
			assert.Contains(t, stdout, fmt.Sprintf("%s: a %s of ", path, row.name))
			assert.Contains(t, stdout, ": sound\n")

			content, err := os.ReadFile(path)
			require.NoError(t, err)
			at := bytes.Index(content, []byte(row.at))
			require.Positive(t, at)
			content[at] ^= 0x20
			require.NoError(t, os.WriteFile(path, content, 0o600))

			args := append([]string{"--dir", dir}, row.options...)
			_, stderr, code = run(t, nil, append(args, "--port", freePort(t))...)
			assert.Equal(t, 1, code)
			assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
			var offset int
			rest, found := strings.CutPrefix(stderr, "cellserver: "+path+" is corrupt at byte ")
			require.True(t, found, stderr)
			_, err = fmt.Sscanf(rest, "%d: ", &offset)
			require.NoError(t, err, stderr)
			assert.Less(t, offset, at, "its section begins before it")
			assert.Greater(t, offset, 0)
			assert.True(t, strings.HasSuffix(stderr, "; run: cellserver check "+path+"\n"), stderr)

			// The command that the message recommends.
			stdout, stderr, code = run(t, nil, "check", path)
			assert.Equal(t, 1, code)
			assert.Contains(t, stdout, ": NOT SOUND\n")
			assert.Contains(t, stderr, fmt.Sprintf("is corrupt at byte %d: ", offset))

			mended := filepath.Join(dir, "mended")
			stdout, stderr, code = run(t, nil, "check", "--repair", mended, path)
			assert.Zero(t, code)
			assert.Empty(t, stderr)
			assert.True(t, strings.HasSuffix(stdout, row.lost), stdout)
			unchanged, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(content, unchanged), "the damaged file is left alone")
			_, stderr, code = run(t, nil, "check", "--repair", mended, path)
			assert.Equal(t, 1, code, "nothing is written over")
			assert.Contains(t, stderr, "mended")

			_, stderr, code = run(t, nil, "check", mended)
			require.Zero(t, code, stderr)
			require.NoError(t, os.Rename(mended, path))
			row.whole(start(t, args...).raw(t))
		})
	}
	t.Run("no file of ours", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "dump.cell"), []byte(strings.Repeat("REDIS0010", 9)), 0o600))
		_, stderr, code := run(t, nil, "--dir", dir, "--port", freePort(t))
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, "dump.cell is corrupt at byte 0: it does not begin as a file of cellserver does; run: ")
		assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
	})
	t.Run("no directory", func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "missing")
		_, stderr, code := run(t, nil, "--dir", missing, "--appendonly", "yes", "--port", freePort(t))
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, missing+": no such file or directory")
		assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)

		// A server without persistence starts without the directory. Only a command that needs the directory fails.
		c := start(t, "--dir", missing).raw(t)
		c.ask("SAVE", "-ERR open "+missing+": no such file or directory\r\n")
		c.ask("BGSAVE", "+Background saving started\r\n")
		c.until("rdb_last_bgsave_status", "err")
		c.take("k", 3, 7)
	})
}

func keyOf(n int) string { return fmt.Sprintf("key %d", n) }

// makeSnapshot writes a snapshot of keys with the given lifetime, and returns its size.
func makeSnapshot(t *testing.T, dir string, keys int, life time.Duration) (size int64) {
	t.Helper()
	now := time.Now().UnixNano()
	sink, err := persistence.CreateSnapshot(persistence.OS, dir, "dump.cell", now, 0)
	require.NoError(t, err)
	var key []byte
	for n := range keys {
		key = strconv.AppendInt(append(key[:0], "key "...), int64(n), 10)
		require.NoError(t, sink.Set(key, now+int64(life)))
	}
	require.NoError(t, sink.Close())
	info, err := os.Stat(filepath.Join(dir, "dump.cell"))
	require.NoError(t, err)
	return info.Size()
}

// startListening starts a server on a free port and connects to it as soon as it listens.
func startListening(t *testing.T, env []string, args ...string) (*server, *raw) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		port := freePort(t)
		s := &server{process: launch(t, env, append(args, "--port", port)...), addr: "127.0.0.1:" + port, port: port}
		for ended := false; !ended; {
			if c, err := net.Dial("tcp", s.addr); err == nil {
				c.Close()
				return s, s.raw(t)
			}
			select {
			case <-s.ended:
				require.Contains(t, s.log.String(), "is in use")
				ended = true
			default:
				require.True(t, time.Now().Before(deadline), "nobody listens")
				runtime.Gosched()
			}
		}
	}
}

// loadingReply is the reply during loading to a command that needs the keys.
const loadingReply = "-LOADING Redis is loading the dataset in memory\r\n"

// whileLoading sends commands until the server has loaded its file. It returns the replies to INFO persistence before that,
// and how many other commands were refused.
func (c *raw) whileLoading() (infos []map[string]string, refused int) {
	c.t.Helper()
	for {
		_, err := io.WriteString(c, "CL.THROTTLE none 15 30 60 0\r\nPING\r\nECHO hello\r\nINFO persistence\r\n")
		require.NoError(c.t, err)
		for _, answer := range []string{"*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n", "+PONG\r\n"} {
			if first, err := c.r.Peek(1); err == nil && first[0] == '-' {
				answer = loadingReply
				refused++
			}
			c.ask("", answer)
		}
		c.ask("", "$5\r\nhello\r\n")
		info := c.readInfo()
		if info["loading"] == "0" {
			return infos, refused
		}
		infos = append(infos, info)
	}
}

func TestInfoShowsTheProgressOfLoading(t *testing.T) {
	var s *server
	var c *raw
	var infos []map[string]string
	var refused int
	var size int64
	// If the keys are loaded before INFO can see it, try with twice as many.
	keys := 500_000
	for len(infos) == 0 || refused == 0 {
		keys *= 2
		require.Less(t, keys, 50_000_000, "loading cannot be seen")
		dir := t.TempDir()
		size = makeSnapshot(t, dir, keys, time.Hour)
		s, c = startListening(t, []string{"GOMAXPROCS=1"}, "--dir", dir)
		infos, refused = c.whileLoading()
	}
	loaded := int64(0)
	for _, info := range infos {
		number := func(name string) (n int64) {
			n, err := strconv.ParseInt(info[name], 10, 64)
			require.NoError(t, err, "%s in %v", name, info)
			return n
		}
		require.Equal(t, "1", info["loading"])
		require.Contains(t, []int64{size, 0}, number("loading_total_bytes"), "0 before the file has been opened")
		if number("loading_total_bytes") > 0 {
			require.InDelta(t, time.Now().Unix(), number("loading_start_time"), 600)
		}
		require.GreaterOrEqual(t, number("loading_eta_seconds"), int64(0))
		require.GreaterOrEqual(t, number("loading_loaded_bytes"), loaded, "it grows")
		loaded = number("loading_loaded_bytes")
		require.LessOrEqual(t, loaded, size)
		require.Regexp(t, `^[0-9]+\.[0-9][0-9]$`, info["loading_loaded_perc"])
	}
	assert.Positive(t, loaded)
	t.Logf("%d keys: INFO saw loading %d times, %d of other commands were refused", keys, len(infos), refused)

	s.says("is ready")
	assert.Contains(t, s.log.String(), fmt.Sprintf(" keys=%d entries=%d ", keys, keys))
	assert.NotContains(t, c.info(), "loading_total_bytes")
	c.ask("DBSIZE", fmt.Sprintf(":%d\r\n", keys))
	// The bucket is full again in an hour: with 10 per two hours, half of it is used.
	c.ask(`CL.THROTTLE "key 7" 9 10 7200 0`, "*5\r\n:0\r\n:10\r\n:5\r\n:-1\r\n")
}

// fileSizes limits the size of files that a running process may write; -1 means no limit. A write beyond the limit fails as on
// a full disk.
func fileSizes(t *testing.T, s *server, most int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs prlimit, which only Linux has")
	}
	limit := "unlimited"
	if most >= 0 {
		limit = strconv.Itoa(most)
	}
	out, err := exec.Command(testenv.Tool(t, "prlimit"), "--fsize="+limit+":", "--pid", strconv.Itoa(s.cmd.Process.Pid)).CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestFullDiskRefusesWritesUntilThereIsRoom(t *testing.T) {
	const noSnapshot = "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. "
	const noJournal = "-MISCONF Errors writing to the AOF file: writing appendonly.cell: "
	// refused checks that a command gets an error that begins with want.
	refused := func(c *raw, line, want string) {
		c.t.Helper()
		c.ask(line, want)
		_, err := c.r.ReadString('\n')
		require.NoError(c.t, err)
	}
	// reads checks that reading commands are answered.
	reads := func(c *raw) {
		c.t.Helper()
		c.ask("PING", "+PONG\r\n")
		c.ask("EXISTS k", ":1\r\n")
		c.ask("CL.GET nobody", "$-1\r\n")
	}
	t.Run("for a snapshot", func(t *testing.T) {
		t.Parallel() // the subtests mostly wait for the next attempt
		dir := t.TempDir()
		s := start(t, "--dir", dir, "--save", "3600 1")
		c := s.raw(t)
		c.take("k", 3, 7)
		fileSizes(t, s, 0)
		c.ask("SAVE", "-ERR ")
		_, err := c.r.ReadString('\n')
		require.NoError(t, err)
		c.ask("BGSAVE", "+Background saving started\r\n")
		c.until("rdb_bgsave_in_progress", "0")
		assert.Equal(t, "err", c.info()["rdb_last_bgsave_status"])
		assert.Equal(t, "ok", c.info()["aof_last_write_status"])
		assert.Empty(t, names(t, dir), "what was begun is removed")
		refused(c, "CL.WINDOW k 10 86400 1", noSnapshot)
		refused(c, "CL.ALL WINDOW k 10 86400 1", noSnapshot)
		refused(c, "DEL k", noSnapshot)
		reads(c)
		c.ask("CONFIG SET stop-writes-on-bgsave-error no", "+OK\r\n")
		c.take("k", 1, 6)
		c.ask("CONFIG SET stop-writes-on-bgsave-error yes", "+OK\r\n")
		refused(c, "CL.WINDOW k 10 86400 1", noSnapshot)

		fileSizes(t, s, -1)
		c.until("rdb_last_bgsave_status", "ok") // without a command
		c.take("k", 1, 5)
		s.signal(os.Kill)
		start(t, "--dir", dir).raw(t).take("k", 0, 6)
	})
	for _, fsync := range []string{"everysec", "always"} {
		t.Run("for a journal, "+fsync, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := []string{"--dir", dir, "--appendonly", "yes", "--appendfsync", fsync}
			s := start(t, args...)
			c := s.raw(t)
			empty := c.journalSize(0)
			c.take("k", 3, 7)
			size := c.journalSize(empty)
			fileSizes(t, s, size+7)
			if fsync == "always" {
				// With appendfsync always a reply would be a promise.
				_, err := io.WriteString(c, "CL.WINDOW k 10 86400 1\r\n")
				require.NoError(t, err)
				c.ends()
				c = s.raw(t)
			} else {
				c.take("k", 1, 6)
			}
			c.until("aof_last_write_status", "err")
			s.says("the journal cannot be written")
			refused(c, "CL.WINDOW k 10 86400 1", noJournal)
			refused(c, "FLUSHALL", noJournal)
			reads(c)
			c.ask("CONFIG SET stop-writes-on-bgsave-error no", "+OK\r\n")
			c.take("k", 1, 5)
			c.ask("CONFIG SET stop-writes-on-bgsave-error yes", "+OK\r\n")
			refused(c, "CL.WINDOW k 10 86400 1", noJournal)

			fileSizes(t, s, -1)
			c.until("aof_last_write_status", "ok") // without a command
			c.take("k", 1, 4)
			if fsync == "always" {
				s.signal(os.Kill)
			} else {
				s.signal(syscall.SIGTERM)
			}
			s.exit()
			start(t, args...).raw(t).take("k", 0, 4)
		})
	}
}

func TestFileMadeByImportIsLoaded(t *testing.T) {
	const keys = 2500 // several batches of SCAN
	r := redis.NewClient(&redis.Options{Network: "unix", Addr: testenv.Redis(t)})
	defer r.Close()
	// In the form of redis-cell: buckets of 10 a day that are full again after one to nine days.
	pipe := r.Pipeline()
	now := time.Now()
	for n := range keys {
		full := time.Duration(1+n%9) * 24 * time.Hour
		pipe.Do(t.Context(), "SET", keyOf(n), now.Add(full).UnixNano())
		pipe.Do(t.Context(), "PEXPIRE", keyOf(n), full.Milliseconds())
	}
	pipe.Do(t.Context(), "SET", "a session", "no bucket", "EX", "3600")
	pipe.Do(t.Context(), "LPUSH", "a queue", "1")
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)

	dir := t.TempDir()
	dump := filepath.Join(dir, "dump.cell")
	stdout, stderr, code := run(t, nil, "import", "--to", dump, "unix://"+r.Options().Addr)
	require.Zero(t, code, stderr)
	assert.Contains(t, stdout, fmt.Sprintf("%d keys scanned in ", keys+2))
	assert.Contains(t, stdout, fmt.Sprintf("\n%d taken into %s\n2 skipped\n", keys, dump))
	assert.Equal(t, []string{"dump.cell"}, names(t, dir))
	assert.EqualValues(t, keys+2, r.DBSize(t.Context()).Val(), "nothing is changed there")

	_, stderr, code = run(t, nil, "import", "--to", dump, "unix://"+r.Options().Addr)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, dump+" exists")

	s := start(t, "--dir", dir, "--appendonly", "yes")
	_, stderr, code = run(t, nil, "import", "--to", filepath.Join(dir, "other.cell"), "unix://"+r.Options().Addr)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "in use by another cellserver", "its directory is the server's")

	c := s.client(t)
	assert.EqualValues(t, keys, c.DBSize(t.Context()).Val())
	for n := range keys {
		used := int64(1 + n%9)
		// With 10 per ten days, a bucket of which 3 are used is full in three days.
		require.Equal(t, []int64{0, 10, 10 - used, -1}, integers(t, c, "CL.THROTTLE", keyOf(n), 9, 10, 864000, 0)[:4], n)
	}
	assert.Equal(t, []int64{1, 10, 5}, integers(t, c, "CL.THROTTLE", keyOf(4), 9, 10, 864000, 6)[:3])
}

func TestJournalBegunLaterHoldsEarlierKeys(t *testing.T) {
	dir := t.TempDir()
	s := start(t, "--dir", dir)
	c := s.raw(t)
	c.take("before", 3, 7)
	c.take("k", 1, 9)
	assert.NotContains(t, c.info(), "aof_current_size")
	c.ask("CONFIG SET appendonly yes", "+OK\r\n")
	size := c.journalSize(0)
	c.take("k", 1, 8)
	c.journalSize(size)

	// Changes made without a journal are in the next journal.
	c.ask("CONFIG SET appendonly no", "+OK\r\n")
	c.take("k", 1, 7)
	c.ask("DEL before", ":1\r\n")
	c.ask("CONFIG SET appendonly yes", "+OK\r\n")
	size = c.journalSize(0)
	c.take("after", 4, 6)
	c.journalSize(size)
	s.signal(os.Kill)
	s.exit()

	c = start(t, "--dir", dir, "--appendonly", "yes").raw(t)
	c.take("before", 0, 10)
	c.take("k", 0, 7)
	c.take("after", 0, 6)
	assert.Equal(t, []string{"appendonly.cell"}, names(t, dir))

	c = start(t, "--dir", dir).raw(t)
	c.take("k", 0, 10)
}
