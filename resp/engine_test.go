package resp_test

// These tests run servers whose keys are in a real Valkey or Redis, on a clock that the test sets.

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/internal/testing/engines"
	"cellserver/resp"
)

// openEngine returns a store whose keys are in an engine, and which decides at the times that it is given. It is closed when the
// test ends.
func openEngine(t *testing.T, addr, prefix string, cache time.Duration) *cluster.Store {
	t.Helper()
	s, err := cluster.New(cluster.Config{
		Addrs: []string{addr}, Prefix: prefix, Local: clock.New().Now, OwnTime: true, Slack: time.Hour,
	}, cluster.Rules{Timeout: patience, RefusalCache: cache})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, s.Ready(ctx))
	return s
}

// Clients of several servers that share an engine see one order of all commands. If refusals are remembered, that is true of who is
// admitted and who is refused.
func TestHistoriesOverSeveralServersAreLinearizable(t *testing.T) {
	const servers, perServer = 3, 2
	for _, version := range []engines.Version{engines.Valkey81, engines.Redis70} { // by IFEQ, and by WATCH
		n := engines.Standalone(t, version)
		for _, row := range []struct {
			name   string
			cache  time.Duration
			limits linearLimits
			n      int
		}{
			{"every answer confirmed", 0, linearLimits{apart: true}, 60},
			{"refusals remembered", time.Minute, linearLimits{apart: true, takes: true}, 60},
		} {
			t.Run(fmt.Sprintf("%s, %s", version, row.name), func(t *testing.T) {
				var now atomic.Int64
				now.Store(1_700_000_123 * int64(time.Second))
				var talk []conversation
				var stores []*cluster.Store
				for range servers {
					live := options.NewLive(options.Defaults(), func(options.Settings) error { return nil })
					store := openEngine(t, n.Addr(), row.name, row.cache)
					stores = append(stores, store)
					s := &subject{log: new(logged), now: now.Load, Server: resp.NewServer(resp.Config{
						Store: store, Now: now.Load, Log: slog.New(slog.DiscardHandler), Version: "test",
						Options: live, Bounds: live.Settings().Wire,
					})}
					l := s.inMemory(t)
					for range perServer {
						c := connect(t, l.Dial)
						stream := overStream(c.Conn)
						talk = append(talk, func(sent []byte, replies int) (string, error) {
							if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
								return "", err
							}
							return stream(sent, replies)
						})
					}
				}
				rounds := row.n
				if os.Getenv("CELLSERVER_SOAK") == "1" {
					rounds *= 20
				}
				histories(t, rounds, 5, &now, talk, row.limits)
				for _, s := range stores {
					r := s.Remote()
					t.Logf("%d decisions, %d conflicts, %d refused without asking", r.Decisions, r.Conflicts, r.Local)
					assert.Positive(t, r.Conflicts)
					assert.Equal(t, row.cache > 0, r.Local > 0)
				}
			})
		}
	}
}

// Transcripts about keys are the same over an engine, but for what a store there does not offer or does not know.
func TestTranscriptsOverAnEngine(t *testing.T) {
	about := []string{
		"all", "arguments", "counters", "expire", "get", "keys", "multi", "resp3", "scan", "scripts", "throttle", "tracking", "window",
		"window-aligned", "zslide",
	}
	for _, version := range []engines.Version{engines.Valkey81, engines.Redis70} {
		n := engines.Standalone(t, version)
		for _, s := range transcripts(t) {
			name := strings.TrimSuffix(filepath.Base(s.path), ".txt")
			if !slices.Contains(about, name) {
				continue
			}
			t.Run(version.String()+", "+name, func(t *testing.T) { s.runOverEngine(t, name, openEngine(t, n.Addr(), name+":", 0)) })
		}
	}
}

// bytesOfKey is how CL.GET tells the memory of a key, which a store does not know of another program.
var bytesOfKey = regexp.MustCompile(`(\$5\r\nbytes\r\n)(:|\$\d+\r\n)\d+\r\n`)

// runOverEngine plays a transcript. It stops where a database is selected, because the rest is about that.
func (s *transcript) runOverEngine(t *testing.T, name string, store *cluster.Store) {
	compared, left := 0, 0
	stopped := false
	s.runOn(1, 1<<30, func(*memory.Store) buckets.Store { return store }, func(step *step, reply []byte, closed bool) {
		command := strings.Join(step.words, " ")
		if n, found := strings.CutPrefix(command, "CONFIG SET zslide-max-log "); found {
			most, err := strconv.Atoi(n)
			require.NoError(t, err)
			store.SetRules(cluster.Rules{Timeout: patience, MaxLog: most})
		}
		stopped = stopped || strings.Contains(string(reply), "is not allowed in cluster mode") && name == "scripts"
		want := *step
		want.want = bytesOfKey.ReplaceAllString(step.want, "$1")
		switch {
		case want.answered(bytesOfKey.ReplaceAll(reply, []byte("$1")), closed):
			compared++
		case stopped, isDifferentOverEngine(name, command, string(reply)):
			left++
		default:
			t.Errorf("%s:%d: %s\nwant:\n%s\ngot:\n%s", s.path, step.line, s.lines[step.line-1],
				strings.Join(s.lines[step.first:step.last], "\n"), strings.Join(step.answer(reply, closed), "\n"))
		}
	})
	assert.Less(t, 5*left, compared, "most replies are the same")
	t.Logf("%d replies are the same, and %d are not", compared, left)
}

// isDifferentOverEngine reports whether a reply may be another one than that of a server whose keys are in memory.
func isDifferentOverEngine(name, command, reply string) bool {
	switch {
	case strings.HasPrefix(reply, "-ERR not possible while the keys are in an engine"), strings.Contains(reply, "is not allowed in cluster mode"):
		return true
	case strings.HasPrefix(command, "MEMORY USAGE "): // the memory of another program
		return true
	case command == "DBSIZE": // may count what has expired on the clock of the test
		return true
	case name == "scan" && strings.HasPrefix(command, "SCAN 1844674"): // cursors that nobody was given
		return true
	case name == "multi" && command == "DEL a": // a transaction of all keys has not stored it
		return true
	case name == "multi" && command == "EXEC" && reply == "*-1\r\n": // a refusal that cuts is a change in the engine
		return true
	}
	return false
}
