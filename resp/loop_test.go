package resp_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/resp"
)

// An event loop serves connections whose commands do not block. These tests are about the handover between the loop and the
// goroutines of connections. They run on every network, also on those without a loop.

// stuck is a store whose scans block.
type stuck struct {
	*memory.Store
	began, over chan struct{}
}

func (s *stuck) Scan(context.Context, int64, uint64, int, func([]byte, buckets.Kind)) (uint64, error) {
	s.began <- struct{}{}
	<-s.over
	return 0, nil
}

func TestSlowCommandDelaysNoOtherClient(t *testing.T) {
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			store := &stuck{memory.NewStore(1), make(chan struct{}), make(chan struct{})}
			dial := network.serve(newSubject(t, store), t)
			slow := connect(t, dial)
			others := make([]*peer, 2*runtime.GOMAXPROCS(0)+1) // each goroutine that serves several connections serves some of these
			for i := range others {
				others[i] = connect(t, dial)
				others[i].ask("PING", "+PONG\r\n")
			}
			slow.send("PING 1\r\nSCAN 0\r\nPING 2\r\nCL.THROTTLE k 15 30 60\r\n")
			<-store.began
			for range 3 {
				for i, p := range others {
					p.ask(fmt.Sprintf("CL.THROTTLE k%d 15 30 60 0", i), "*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n")
				}
			}
			close(store.over)
			slow.expect("$1\r\n1\r\n" + "*2\r\n$1\r\n0\r\n*0\r\n" + "$1\r\n2\r\n" + "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n")
		})
	}
}

// remote is a store like one on another machine: it decides by Apply only, and Apply waits.
type remote struct {
	buckets.Store
	came, answer chan struct{}
}

func (r *remote) Apply(ctx context.Context, now int64, ops []buckets.Op) {
	if slices.ContainsFunc(ops, func(op buckets.Op) bool { return string(op.Key) == "wait" }) {
		r.came <- struct{}{}
		<-r.answer
	}
	r.Store.Apply(ctx, now, ops)
}

func TestStoreThatWaitsDelaysOnlyItsClient(t *testing.T) {
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			store := &remote{memory.NewStore(1), make(chan struct{}), make(chan struct{})}
			dial := network.serve(newSubject(t, store), t)
			waiting := make([]*peer, 2*runtime.GOMAXPROCS(0)+1) // more than the loops
			for i := range waiting {
				waiting[i] = connect(t, dial)
				waiting[i].ask("PING", "+PONG\r\n")
				waiting[i].send("CL.THROTTLE wait 15 30 60 0\r\n")
				<-store.came
			}
			for i := range 3 {
				connect(t, dial).ask(fmt.Sprintf("CL.THROTTLE k%d 15 30 60 0", i), "*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n")
			}
			close(store.answer)
			for _, p := range waiting {
				p.expect("*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n")
			}
		})
	}
}

// The replies to a mix of blocking and non-blocking commands, sent in pieces of any size, come in order.
func TestRepliesKeepTheirOrder(t *testing.T) {
	kinds := []struct{ line, reply string }{
		{"PING", "+PONG\r\n"},
		{"ECHO x", "$1\r\nx\r\n"},
		{"CL.THROTTLE k 15 30 60 0", "*5\r\n:0\r\n:16\r\n:16\r\n:-1\r\n:0\r\n"},
		{"DEL nothing", ":0\r\n"},
		{"KEYS nothing", "*0\r\n"},
		{"CONFIG GET nothing", "*0\r\n"},
		{"CLIENT GETNAME", "$-1\r\n"},
		{"foo", "-ERR unknown command 'foo', with args beginning with: \r\n"},
		{"MULTI\r\nPING\r\nKEYS nothing\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n*0\r\n"},
		{"CLIENT REPLY SKIP\r\nDEL nothing", ""},
		{"CLIENT REPLY SKIP\r\nPING", ""},
		{"UNLINK" + strings.Repeat(" nothing", 1000), ":0\r\n"}, // non-blocking only with few keys
		{"*1\r\n$4\r\nPING", "+PONG\r\n"},
		{"", ""},
	}
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 1))
			dial := network.serve(newSubject(t, nil), t)
			for range 3 {
				p := connect(t, dial)
				var in, want strings.Builder
				for range 300 {
					k := kinds[random.IntN(len(kinds))]
					in.WriteString(k.line + "\r\n")
					want.WriteString(k.reply)
				}
				p.expectAfter(in.String(), want.String(), func(left int) int { return 1 + random.IntN(min(left, 3000)) })
			}
		})
	}
}

// expectAfter sends text in pieces and reads the expected replies meanwhile.
func (p *peer) expectAfter(text, want string, piece func(left int) int) {
	p.t.Helper()
	sent := make(chan error, 1)
	go func() {
		for len(text) > 0 {
			n := piece(len(text))
			if _, err := p.Write([]byte(text[:n])); err != nil {
				sent <- err
				return
			}
			text = text[n:]
		}
		sent <- nil
	}()
	p.expect(want)
	require.NoError(p.t, <-sent)
}

// There are repeatedly more connections than one turn of the loop handles, so that their slots are reused.
func TestConnectionsThatComeAndGoAreAnsweredCorrectly(t *testing.T) {
	s := newSubject(t, nil)
	dial := s.onSocket(t)
	for range 3 {
		peers := make([]*peer, 300)
		for i := range peers {
			peers[i] = connect(t, dial)
		}
		for range 3 {
			for i, p := range peers {
				p.send(fmt.Sprintf("ECHO %d\r\n", i))
			}
			for i, p := range peers {
				n := fmt.Sprint(i)
				p.expect(fmt.Sprintf("$%d\r\n%s\r\n", len(n), n))
			}
		}
		for i, p := range peers {
			switch i % 3 {
			case 0:
				p.ask("QUIT", "+OK\r\n")
				p.expectEOF()
			case 1:
				p.closeWrite()
				p.expectEOF()
			}
			require.NoError(t, p.Close())
		}
	}
	last := connect(t, dial)
	require.Eventually(t, func() bool {
		last.send("CLIENT LIST\r\n")
		line, err := last.r.ReadString('\n')
		require.NoError(t, err)
		var size int
		_, err = fmt.Sscanf(line, "$%d", &size)
		require.NoError(t, err)
		list := make([]byte, size+2)
		for n := 0; n < len(list); {
			m, err := last.r.Read(list[n:])
			require.NoError(t, err)
			n += m
		}
		return strings.Count(string(list), "\n") == 2 // one client, and the line end of the reply
	}, patience, time.Millisecond, "all others are forgotten")
}

// Of several connections on a loop, timeout ends the silent one only. The test takes as long as the shortest timeout, because
// sockets do not use the fake clock.
func TestSilentSocketTimesOutAlone(t *testing.T) {
	dial := newSubject(t, nil, "timeout 1").onSocket(t)
	began := time.Now()
	silent, busy := connect(t, dial), connect(t, dial)
	silent.ask("PING", "+PONG\r\n")
	for time.Since(began) < 1200*time.Millisecond {
		busy.ask("PING", "+PONG\r\n")
	}
	silent.expectEOF()
	assert.GreaterOrEqual(t, time.Since(began), time.Second)
	busy.ask("CONFIG SET timeout 0", "+OK\r\n")
	busy.ask("PING", "+PONG\r\n")
}

// ledger is a disk whose commits succeed at once, or fail.
type ledger struct {
	resp.Disk
	commits atomic.Int64
	broken  atomic.Bool
}

func (*ledger) Loading() bool           { return false }
func (*ledger) Refusal() string         { return "" }
func (*ledger) Status() resp.DiskStatus { return resp.DiskStatus{SaveTook: -1, RewriteTook: -1} }

func (l *ledger) Commit() error {
	if l.broken.Load() {
		return errors.New("the disk is full")
	}
	l.commits.Add(1)
	return nil
}

func TestRepliesWaitForTheDisk(t *testing.T) {
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			disk, log := new(ledger), new(logged)
			s := &subject{log: log, now: clock.New().Now}
			store := memory.NewStore(8)
			limit, err := buckets.NewWindow(1, 1e18)
			require.NoError(t, err)
			s.Server = resp.NewServer(resp.Config{
				Store: store, Now: s.now, Log: slog.New(slog.NewTextHandler(log, nil)),
				Options: options.NewLive(options.Defaults(), func(options.Settings) error { return nil }),
				Bounds:  options.Defaults().Wire, Disk: disk,
			})
			dial := network.serve(s, t)
			writer, reader := connect(t, dial), connect(t, dial)
			for i := range int64(30) {
				_, err := store.Take(s.now(), fmt.Appendf(nil, "%d%s", i, strings.Repeat("x", 5000)), limit, 1, false)
				require.NoError(t, err)
			}
			for i := range int64(10) {
				writer.ask(fmt.Sprintf("CL.WINDOW k 10 60\r\nCL.WINDOW k%d 10 60", i),
					fmt.Sprintf("*5\r\n:0\r\n:10\r\n:%d\r\n:-1\r\n:60\r\n*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:60\r\n", 9-i))
				assert.GreaterOrEqual(t, disk.commits.Load(), i+1, "what is answered has been committed")
			}
			before := disk.commits.Load()
			writer.ask("CL.WINDOW k 10 60", "*5\r\n:1\r\n:10\r\n:0\r\n:60\r\n:60\r\n")
			reader.ask("PING", "+PONG\r\n")
			assert.Equal(t, before, disk.commits.Load(), "what changes nothing waits for nothing")

			cuts := map[string]string{
				"CL.THROTTLE cut1 0 1 2":   "*5\r\n:1\r\n:1\r\n:0\r\n:2\r\n:2\r\n",
				"CL.THROTTLE cut2 0 1 2 0": "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:2\r\n",
				"CL.ALL THROTTLE cut3 0 1 2 0 WINDOW fresh 10 60 11": "*4\r\n:1\r\n:2\r\n" +
					"*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:2\r\n*5\r\n:1\r\n:10\r\n:10\r\n:-1\r\n:0\r\n",
			}
			for line, want := range cuts {
				words := strings.Fields(line)
				key := words[slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "cut") })]
				writer.ask("CL.THROTTLE "+key+" 0 1 10000", "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:10000\r\n")
				before := disk.commits.Load()
				reader.ask(line, want)
				assert.Greater(t, disk.commits.Load(), before, "a cut is a change: "+line)
			}

			disk.broken.Store(true)
			writer.send("PING\r\nCL.WINDOW other 10 60\r\n")
			writer.expectEOF() // without a reply, because the change may not be durable

			long := connect(t, dial) // the same holds for a reply that is sent in parts
			long.send("CL.WINDOW another 10 60\r\nKEYS *\r\n")
			long.expectEOF()
			reader.ask("PING", "+PONG\r\n")
			require.Eventually(t, func() bool {
				return strings.Contains(log.String(), "the disk is full")
			}, patience, time.Millisecond)
		})
	}
}

// Shutdown ends the connections of a loop, busy ones among them.
func TestShutdownReclaimsConnectionsFromTheLoop(t *testing.T) {
	s := newSubject(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	peers := make([]*peer, 50)
	for i := range peers {
		peers[i] = connect(t, func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) })
		peers[i].ask("PING", "+PONG\r\n")
	}
	for _, p := range peers[:25] {
		p.send("KEYS *\r\nPING\r\n")
	}
	for _, p := range peers[:25] {
		p.expect("*0\r\n+PONG\r\n")
	}
	require.NoError(t, s.Shutdown(t.Context()))
	require.NoError(t, <-served)
	for _, p := range peers {
		p.expectEOF()
	}
}

// The replies to a batch of short requests are written in several parts.
func TestBatchOfLargeRepliesArrivesWhole(t *testing.T) {
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			p := connect(t, network.serve(newSubject(t, nil), t))
			p.ask("CL.THROTTLE k 15 30 60", "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n")
			p.ask("PEXPIRE k 3600000", ":1\r\n") // the key exists although the bucket is full
			const n = 1500
			p.send(strings.Repeat("CL.GET k\r\n", n) + "PING\r\n")
			for range n {
				line, err := p.r.ReadString('\n')
				require.NoError(t, err)
				var words int
				_, err = fmt.Sscanf(line, "*%d", &words)
				require.NoError(t, err)
				for range words {
					line, err := p.r.ReadString('\n')
					require.NoError(t, err)
					if line[0] == '$' && line[1] != '-' {
						_, err = p.r.ReadString('\n')
						require.NoError(t, err)
					}
				}
			}
			p.expect("+PONG\r\n")
		})
	}
}

func TestPauseHoldsWritesOnSockets(t *testing.T) {
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			store := &counting{Store: memory.NewStore(1)}
			dial := network.serve(newSubject(t, store), t)
			operator, other, p := connect(t, dial), connect(t, dial), connect(t, dial)
			p.ask("PING", "+PONG\r\n")
			operator.ask("CLIENT PAUSE 3600000 WRITE", "+OK\r\n")
			p.send("PING\r\nCL.WINDOW k 10 60\r\n") // both arrive together
			p.expect("+PONG\r\n")
			for range 3 {
				other.ask("PING", "+PONG\r\n")
			}
			assert.Zero(t, store.taken.Load())
			operator.ask("CLIENT UNPAUSE", "+OK\r\n")
			p.expect("*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:60\r\n")
		})
	}
}

// Something other than the goroutine of the connection closes it.
func TestConnectionClosedFromOutsideIsForgotten(t *testing.T) {
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			dial := network.serve(newSubject(t, nil), t)
			operator := connect(t, dial)
			for range 3 {
				p := connect(t, dial)
				p.send("CLIENT ID\r\n")
				line, err := p.r.ReadString('\n')
				require.NoError(t, err)
				p.ask("PING", "+PONG\r\n")
				operator.ask("CLIENT KILL ID "+strings.TrimSpace(line[1:]), ":1\r\n")
				p.expectEOF()
				require.Eventually(t, func() bool {
					operator.send("CLIENT KILL ID " + strings.TrimSpace(line[1:]) + "\r\n")
					n, err := operator.r.ReadString('\n')
					require.NoError(t, err)
					return n == ":0\r\n"
				}, patience, time.Millisecond)
			}
		})
	}
}

// A long reply is sent in parts, has every key, and other clients are answered between the parts.
func TestLongRepliesAreSentInPartsBetweenOtherAnswers(t *testing.T) {
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			kept := memory.NewStore(8)
			s := newSubject(t, kept, "multi-max-commands 20000")
			limit, err := buckets.NewWindow(1, 1e18)
			require.NoError(t, err)
			want := map[string]bool{}
			for i := range 20_000 {
				key := fmt.Sprintf("key:%09d", i)
				want[key] = true
				_, err := kept.Take(s.now(), []byte(key), limit, 1, false)
				require.NoError(t, err)
			}
			p := connect(t, network.serve(s, t))
			read := func(before string) {
				p.expect(before + "*20000\r\n")
				left := maps.Clone(want)
				for range want {
					p.expect("$13\r\n")
					line, err := p.r.ReadString('\n')
					require.NoError(t, err)
					delete(left, strings.TrimSpace(line))
				}
				assert.Empty(t, left)
			}
			p.send("PING\r\nKEYS *\r\nPING\r\n")
			read("+PONG\r\n")
			p.expect("+PONG\r\n")
			p.send("CLIENT REPLY SKIP\r\nKEYS *\r\nPING\r\n")
			p.expect("+PONG\r\n")
			p.send("MULTI\r\nPING\r\nKEYS *\r\nEXEC\r\nDBSIZE\r\n")
			read("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n")
			p.expect(":20000\r\n")

			p.send("KEYS *\r\nCL.WINDOW k x 60\r\nINFO commandstats\r\n")
			read("")
			p.expect("-ERR value is not an integer or out of range\r\n")
			stats, err := p.r.ReadString('=') // the length, and the beginning of the first line
			for err == nil && !strings.Contains(stats, "cmdstat_cl.window:calls=1,") && len(stats) < 10_000 {
				var more string
				more, err = p.r.ReadString('\n')
				stats += more
			}
			require.NoError(t, err)
			assert.Regexp(t, `cmdstat_cl.window:calls=1,.*failed_calls=1\r`, stats, "an error behind a long reply is counted")
		})
	}
}

// gate is a store that waits before it decides on keys with a certain name, and records the times of its other decisions.
type gate struct {
	*memory.Store
	came, open chan struct{}
	decided    chan int64
}

func (g *gate) Decide(now int64, key []byte, l *buckets.Limit, quantity int64, peek bool, d *buckets.Decision) error {
	if string(key) == "wait" {
		g.came <- struct{}{}
		<-g.open
	} else {
		g.decided <- now
	}
	return g.Store.Decide(now, key, l, quantity, peek, d)
}

// A request arrives while earlier requests of the same turn of a loop take long. If it were decided at the time of the beginning
// of the turn, a client that waited for its retry-after would be refused.
func TestRequestIsDecidedAtATimeAfterItArrived(t *testing.T) {
	for _, network := range networks[:3] {
		t.Run(network.name, func(t *testing.T) {
			store := &gate{memory.NewStore(1), make(chan struct{}), make(chan struct{}), make(chan int64, 1)}
			s := newSubject(t, nil)
			var clock atomic.Int64
			clock.Store(1_700_000_000 * int64(time.Second))
			s.Server = resp.NewServer(resp.Config{
				Store: store, Now: clock.Load, Log: slog.New(slog.NewTextHandler(s.log, nil)), Bounds: options.Defaults().Wire,
				Options: options.NewLive(options.Defaults(), func(options.Settings) error { return nil }),
			})
			dial := network.serve(s, t)
			loops := min(runtime.GOMAXPROCS(0), runtime.NumCPU())
			next := func() *peer { // the next connection on the same loop
				for range loops - 1 {
					connect(t, dial).ask("PING", "+PONG\r\n")
				}
				p := connect(t, dial)
				p.ask("PING", "+PONG\r\n")
				return p
			}
			first, second, third := next(), next(), next()
			const wait, reply = "CL.WINDOW wait 10 60\r\n", "*5\r\n:0\r\n:10\r\n"
			first.send(wait)
			<-store.came // the loop is busy with a turn, and the next requests belong to the next turn
			second.send(wait)
			third.send("PING\r\n")
			store.open <- struct{}{}
			<-store.came
			asked := clock.Add(int64(time.Second))
			third.send("CL.WINDOW k 10 60\r\n")
			store.open <- struct{}{}
			assert.Equal(t, asked, <-store.decided)
			first.expect(reply)
			second.expect(reply)
			third.expect("+PONG\r\n" + reply)
		})
	}
}
