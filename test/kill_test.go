package test

// These tests kill a server under load, again and again. The next server must have every acknowledged change, no change that
// nobody sent, and no part of a change.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// killRounds is the number of servers that are killed, in all lanes together. scripts/soak sets it.
	killRounds        = "CELLSERVER_KILL_ROUNDS"
	defaultKillRounds = 50

	// everysecKeeps is the promise of appendfsync everysec: a change acknowledged that long before the kill is kept. The journal
	// is written within one second, and a busy machine may take another.
	everysecKeeps = 2 * time.Second

	unlimited int64 = 1_000_000_000_000 // the limit of every bucket in these tests
	forever   int64 = 1_000_000_000     // the period of every bucket, in seconds
)

// lane is one directory and the servers that run on it one after the other.
type lane struct {
	name   string
	always bool // whether appendfsync is always; otherwise everysec
	dir    string
	own    [][]*group // by client: the groups that only it uses
	shared []*group   // groups that all clients use; their values only grow
	last   *killing   // the previous server; nil at first
}

// group is a number and the keys that store it.
type group struct {
	kind   groupKind
	keys   []string
	loaded int64 // the number after the start of the server
	value  int64 // the number after all commands sent so far; unused in shared groups
	holder int   // index of the key that holds the number; for a roamer
}

type groupKind int

const (
	counter groupKind = iota // one window
	twins                    // two windows that change together
	mixed                    // a window and a log that change together
	roamer                   // a window that is renamed from one key to the other and back
	groupKinds
)

// deed is a command that was sent.
type deed struct {
	of    *group
	value int64     // the group's number after the command; in a shared group, the increment
	acked time.Time // when the reply came; zero if it did not
}

// newLane makes a lane for a number of clients. A single client also sends FLUSHALL.
func newLane(name string, always bool, clients int) *lane {
	l := &lane{name: name, always: always}
	for n := range clients {
		var own []*group
		for kind := range groupKinds {
			key := fmt.Sprintf("own:%d:%d", n, kind)
			own = append(own, &group{kind: kind, keys: []string{key, key + ":other"}})
		}
		l.own = append(l.own, own)
	}
	for n := range 4 * min(1, clients-1) {
		key := fmt.Sprint("shared:", n)
		l.shared = append(l.shared, &group{kind: groupKind(n % 2), keys: []string{key, key + ":other"}})
	}
	return l
}

// take returns the command that adds n.
func (g *group) take(n int64) []any {
	switch g.kind {
	case twins:
		return []any{"CL.ALL", "WINDOW", g.keys[0], unlimited, forever, n, "WINDOW", g.keys[1], unlimited, forever, n}
	case mixed:
		return []any{"CL.ALL", "ZSLIDE", g.keys[0], unlimited, forever, n, "WINDOW", g.keys[1], unlimited, forever, n}
	}
	return []any{"CL.WINDOW", g.keys[g.holder], unlimited, forever, n}
}

// killing is one server of a lane.
type killing struct {
	*lane
	t     *testing.T
	s     *server
	deeds [][]deed // by client

	enough  int64         // the server is killed after this number of replies
	least   time.Duration // and this long after the first one
	calm    bool          // without rewrites and snapshots: only the journal keeps the changes
	replies atomic.Int64
	first   atomic.Int64 // time of the first reply, in nanoseconds since began
	began   time.Time
	over    atomic.Bool
	kill    func()
	killed  time.Time
	longest atomic.Int64 // longest time of an INFO, which waits while the journal is written, in nanoseconds
}

// options returns the options of the server of a round.
func (l *lane) options(round int) []string {
	fsync := "everysec"
	if l.always {
		fsync = "always"
	}
	args := []string{"--dir", l.dir, "--appendonly", "yes", "--appendfsync", fsync,
		"--auto-aof-rewrite-min-size", "4kb", "--auto-aof-rewrite-percentage", "1"}
	if round%2 == 1 {
		args = append(args, "--save", "1 1")
	}
	return args
}

// round starts a server, checks that it has what the previous one promised, loads it with commands and kills it.
func (l *lane) round(t *testing.T, n int) {
	k := &killing{lane: l, t: t, deeds: make([][]deed, len(l.own)), began: time.Now()}
	k.begin(n)
	// Every third server lives long enough to rewrite its journal and write snapshots on schedule, and with everysec to keep
	// at least some promises.
	switch {
	case l.always && n%3 > 0:
		k.enough = rand.Int64N(3000)
	case l.always:
		k.least = time.Second + rand.N(time.Second/2)
	case n%3 > 0:
		k.least = rand.N(time.Second)
	default:
		k.least, k.calm = everysecKeeps+rand.N(time.Second), true
	}
	k.kill = sync.OnceFunc(func() {
		k.killed = time.Now()
		k.over.Store(true)
		assert.NoError(t, k.s.cmd.Process.Kill())
	})
	var clients sync.WaitGroup
	for n := range k.own {
		clients.Go(func() { k.client(n) })
	}
	clients.Go(k.meddler)
	clients.Wait()
	require.False(t, t.Failed(), "its clients have seen something")
	require.Equal(t, -1, k.s.exit())
	l.last = k
}

// begin starts the server and checks what it has loaded.
func (k *killing) begin(n int) {
	if k.last == nil {
		k.s = start(k.t, k.options(n)...)
		return
	}
	left := k.copyFiles()
	for _, name := range []string{"appendonly.cell", "dump.cell"} {
		path := filepath.Join(left, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		out, said, code := run(k.t, nil, "check", path)
		require.Zero(k.t, code, "%s%s", out, said)
		if name == "dump.cell" && n%4 == 0 {
			// A snapshot alone is older than the journal, but it must be consistent as well.
			snapshot := start(k.t, "--dir", left)
			k.values(snapshot)
			snapshot.signal(os.Kill)
		}
	}
	torn := n%5 == 2 // simulates a torn write, which power loss causes but a kill hardly ever does
	if torn {
		f, err := os.OpenFile(filepath.Join(k.dir, "appendonly.cell"), os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(k.t, err)
		_, err = f.WriteString("less than a header!"[:1+rand.IntN(19)])
		require.NoError(k.t, errors.Join(err, f.Close()))
	}
	k.s = start(k.t, k.options(n)...)
	if torn {
		require.Contains(k.t, k.s.log.String(), "which is cut off")
	}
	values := k.values(k.s)
	for client, own := range k.own {
		for _, g := range own {
			may := g.history(k.last.deeds[client], k.last.promised)
			require.Contains(k.t, may, values[g], "%s: of %d values, the last one %d", g.keys[0], len(may), may[len(may)-1])
		}
	}
	for _, g := range k.shared {
		low, high := g.loaded, g.loaded
		for _, deeds := range k.last.deeds {
			for _, d := range deeds {
				switch {
				case d.of != g:
				case k.last.promised(d):
					low, high = low+d.value, high+d.value
				default:
					high += d.value
				}
			}
		}
		require.True(k.t, low <= values[g] && values[g] <= high, "%s: %d is not within %d and %d", g.keys[0], values[g], low, high)
	}
	for g, value := range values {
		g.loaded, g.value = value, value
	}
}

// history returns the values that a group may have after these commands: those from the last promised command on.
func (g *group) history(deeds []deed, promised func(deed) bool) []int64 {
	may := []int64{g.loaded}
	for _, d := range deeds {
		if d.of != g {
			continue
		}
		if promised(d) {
			may = may[:0]
		}
		may = append(may, d.value)
	}
	return may
}

// promised reports whether the effect of a command must have survived.
func (k *killing) promised(d deed) bool {
	switch {
	case d.acked.IsZero():
		return false
	case k.always:
		return true
	}
	return d.acked.Before(k.killed.Add(-everysecKeeps - k.disk()))
}

// disk returns by how much a slow disk may delay the journal with everysec.
func (k *killing) disk() time.Duration { return 2 * time.Duration(k.longest.Load()) }

// copyFiles copies the files that the last server left, and returns the directory of the copy. It stays if the test fails.
func (k *killing) copyFiles() string {
	left, err := os.MkdirTemp("", "cellserver-killed")
	require.NoError(k.t, err)
	require.NoError(k.t, os.CopyFS(left, os.DirFS(k.dir)))
	k.t.Cleanup(func() {
		if k.t.Failed() {
			k.t.Logf("the files as they were found: %s", left)
			return
		}
		os.RemoveAll(left)
	})
	return left
}

// values returns the number of every group. The keys of a group must agree, and there must be no other keys.
func (k *killing) values(s *server) map[*group]int64 {
	c := s.patient()
	defer c.Close()
	keys := c.DBSize(k.t.Context()).Val()
	values := make(map[*group]int64)
	for _, g := range slices.Concat(slices.Concat(k.own...), k.shared) {
		var of [2]int64
		for i, key := range g.keys {
			bucket, err := c.Do(k.t.Context(), "CL.GET", key).Result()
			if err == redis.Nil {
				continue
			}
			require.NoError(k.t, err)
			fields := bucket.(map[any]any)
			used, found := fields["used"]
			if !found {
				used = fields["sum"]
			}
			of[i] = used.(int64)
			keys--
		}
		switch g.kind {
		case counter:
			require.Zero(k.t, of[1])
		case twins, mixed:
			require.Equal(k.t, of[0], of[1], g.keys)
		case roamer:
			require.True(k.t, of[0] == 0 || of[1] == 0, "%s: %d", g.keys, of)
			if g.holder = 0; of[1] > 0 {
				g.holder = 1
			}
		}
		values[g] = max(of[0], of[1])
	}
	require.Zero(k.t, keys, "other keys")
	return values
}

// patient returns a go-redis client with one connection and without retries.
func (s *server) patient() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
		ReadTimeout: patience, WriteTimeout: patience})
}

// replied counts replies and kills the server after enough of them.
func (k *killing) replied(n int) {
	now, least := int64(time.Since(k.began)), k.least
	if k.calm {
		least += k.disk()
	}
	k.first.CompareAndSwap(0, now)
	if k.replies.Add(int64(n)) >= k.enough && time.Duration(now-k.first.Load()) >= least {
		k.kill()
	}
}

// failed fails the test with an error, unless the kill caused it.
func (k *killing) failed(err error) {
	if !k.over.Load() {
		assert.NoError(k.t, err)
		k.kill()
	}
}

// client sends commands, one by one and in pipelines, until the server is killed.
func (k *killing) client(n int) {
	c := k.s.patient()
	defer c.Close()
	for !k.over.Load() {
		pipe := c.Pipeline()
		acked := len(k.deeds[n])
		var until []int // by command of the pipeline: the number of deeds up to it
		for range 1 + rand.IntN(2)*rand.IntN(20) {
			pipe.Do(k.t.Context(), k.next(n)...)
			until = append(until, len(k.deeds[n]))
		}
		replies, err := pipe.Exec(k.t.Context())
		now := time.Now()
		for i, reply := range replies {
			if reply.Err() != nil {
				break
			}
			for ; acked < until[i]; acked++ {
				k.deeds[n][acked].acked = now
			}
			if fault := k.wrong(k.deeds[n][acked-1], reply.(*redis.Cmd)); fault != nil {
				k.failed(fault)
			}
		}
		if err != nil {
			k.failed(err)
			return
		}
		k.replied(len(replies))
	}
}

// wrong returns an error if the reply for a window that only this client uses is not the expected one.
func (k *killing) wrong(d deed, reply *redis.Cmd) error {
	if reply.Name() != "cl.window" || slices.Contains(k.shared, d.of) {
		return nil
	}
	got, err := reply.Int64Slice()
	if err == nil && (len(got) != 5 || got[0] != 0 || got[2] != unlimited-d.value) {
		err = fmt.Errorf("%s of %d is answered with %d", reply.Args(), d.value, got)
	}
	return err
}

// next draws the next command of a client and records it.
func (k *killing) next(client int) []any {
	note := func(g *group, value int64) { k.deeds[client] = append(k.deeds[client], deed{of: g, value: value}) }
	n := 1 + rand.Int64N(3)
	switch {
	case len(k.shared) > 0 && rand.IntN(3) == 0:
		g := k.shared[rand.IntN(len(k.shared))]
		note(g, n)
		return g.take(n)
	case len(k.shared) == 0 && rand.IntN(300) == 0:
		for _, g := range k.own[client] {
			g.value = 0
			note(g, 0)
		}
		return []any{"FLUSHALL"}
	}
	g := k.own[client][rand.IntN(int(groupKinds))]
	odds := rand.IntN(100)
	switch {
	case odds < 2:
		g.value = 0
		note(g, 0)
		return []any{"DEL", g.keys[0], g.keys[1]}
	case odds < 25 && g.kind == roamer && g.value > 0:
		from := g.holder
		g.holder = 1 - from
		note(g, g.value)
		return []any{"RENAME", g.keys[from], g.keys[1-from]}
	}
	g.value += n
	note(g, g.value)
	return g.take(n)
}

// meddler asks for rewrites and snapshots repeatedly, and records how long the disk takes.
func (k *killing) meddler() {
	c := k.s.patient()
	defer c.Close()
	for !k.over.Load() {
		asked := time.Now()
		info, err := c.Info(k.t.Context(), "persistence").Result()
		if err == nil && strings.Contains(info, ":err") {
			err = errors.New(info)
		}
		if err == nil {
			k.longest.Store(max(k.longest.Load(), int64(time.Since(asked)))) // this is its only writer
			switch odds := rand.IntN(30); {
			case k.calm:
			case odds == 0:
				err = c.BgRewriteAOF(k.t.Context()).Err()
			case odds == 1:
				err = c.BgSave(k.t.Context()).Err()
			}
			if err != nil && strings.HasPrefix(err.Error(), "ERR Background ") {
				err = nil // a rewrite or snapshot is running already
			}
		}
		if err != nil {
			k.failed(err)
			return
		}
		k.replied(1)
	}
}

func TestKilledServerKeepsWhatItPromised(t *testing.T) {
	rounds := defaultKillRounds
	if text := os.Getenv(killRounds); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err, killRounds)
	}
	lanes := []*lane{
		newLane("always", true, 4), newLane("everysec", false, 3),
		newLane("always, many clients", true, 12), newLane("everysec again", false, 3),
		newLane("always, one client", true, 1), newLane("everysec, one client", false, 1),
	}
	var wait sync.WaitGroup
	for i, l := range lanes {
		wait.Go(func() {
			t.Run(l.name, func(t *testing.T) {
				l.dir = t.TempDir()
				promised := 0
				for n := range (rounds + len(lanes) - 1 - i) / len(lanes) {
					ok := t.Run(fmt.Sprint("round ", n), func(t *testing.T) { l.round(t, n) })
					require.True(t, ok)
					for _, deeds := range l.last.deeds {
						for _, d := range deeds {
							if l.last.promised(d) {
								promised++
							}
						}
					}
				}
				if l.last == nil {
					return
				}
				t.Run("the last one", func(t *testing.T) { (&killing{lane: l, t: t}).begin(0) })
				t.Logf("%d commands had to survive", promised)
				assert.Positive(t, promised)
			})
		})
	}
	wait.Wait()
	complaints.take() // of go-redis about servers that were killed
}
