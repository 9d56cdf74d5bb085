package resp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/testenv"
	"cellserver/resp"
)

// transactions are lines that one connection sends, and that get the same replies as from Redis.
var transactions = map[string][]string{
	"of nothing":                  {"MULTI", "EXEC"},
	"of several":                  {"MULTI", "PING", "ECHO a", "PING b", "EXEC", "PING"},
	"one after the other":         {"MULTI", "PING", "EXEC", "MULTI", "ECHO a", "EXEC"},
	"in any case":                 {"multi", "Ping", "exec"},
	"large":                       {"MULTI", "ECHO {x*100000}", "ECHO {y*100000}", "EXEC"},
	"discarded":                   {"MULTI", "PING", "DISCARD", "PING", "EXEC", "MULTI", "EXEC"},
	"never begun":                 {"EXEC", "DISCARD", "UNWATCH", "EXEC"},
	"discarded twice":             {"MULTI", "DISCARD", "DISCARD"},
	"run twice":                   {"MULTI", "EXEC", "EXEC"},
	"nested":                      {"MULTI", "PING", "MULTI", "PING", "EXEC"},
	"nested and nothing else":     {"MULTI", "MULTI", "EXEC"},
	"nested and discarded":        {"MULTI", "MULTI", "DISCARD", "PING"},
	"an unknown command":          {"MULTI", "foo a b", "PING", "EXEC", "PING"},
	"an unknown command, later":   {"MULTI", "PING", "foo", "EXEC", "EXEC"},
	"an unknown command, DISCARD": {"MULTI", "foo", "DISCARD", "MULTI", "PING", "EXEC"},
	"unknown before it":           {"foo", "MULTI", "PING", "EXEC"},
	"arity":                       {"MULTI", "ECHO", "PING", "EXEC"},
	"arity of a subcommand":       {"MULTI", "CLIENT SETNAME", "EXEC"},
	"an unknown subcommand":       {"MULTI", "CLIENT FOO", "EXEC"},
	"a container alone":           {"MULTI", "CLIENT", "EXEC"},
	"arity that PING finds":       {"MULTI", "PING a b", "PING", "EXEC"},
	"arity of MULTI":              {"MULTI a", "EXEC"},
	"arity of MULTI inside":       {"MULTI", "MULTI a", "EXEC"},
	"arity of DISCARD":            {"MULTI", "DISCARD a", "EXEC", "DISCARD"},
	"arity of WATCH":              {"WATCH", "MULTI", "WATCH", "EXEC"},
	"arity of UNWATCH":            {"UNWATCH a", "MULTI", "UNWATCH a", "EXEC"},
	"WATCH inside":                {"MULTI", "WATCH a", "PING", "EXEC"},
	"only WATCH inside":           {"MULTI", "WATCH a b", "EXEC", "MULTI", "EXEC"},
	"errors when it runs":         {"MULTI", "SELECT x", "EXPIRE a x", "PING", "EXPIRE a 1 FOO", "EXEC", "PING"},
	"keys that do not exist":      {"MULTI", "TTL a", "DEL a b", "TYPE a", "EXISTS a", "RENAME a b", "KEYS *", "DBSIZE", "RANDOMKEY", "SCAN 0", "EXEC"},
	"everything":                  {"MULTI", "FLUSHALL", "DBSIZE", "EXEC"},
	"nulls of RESP2":              {"MULTI", "OBJECT ENCODING a", "CLIENT GETNAME", "EXEC"},
	"RESET inside":                {"MULTI", "PING", "RESET", "PING", "EXEC"},
	"RESET behind what is wrong":  {"MULTI", "foo", "RESET", "MULTI", "PING", "EXEC"},
	"RESET while watching":        {"WATCH a", "RESET", "MULTI", "PING", "EXEC"},
	"QUIT inside":                 {"MULTI", "PING", "QUIT", "EXEC"},
	"QUIT with words inside":      {"MULTI", "QUIT a b", "EXEC"},
	"what has no reply":           {"CLIENT REPLY OFF", "MULTI", "PING", "EXEC", "CLIENT REPLY ON", "PING"},
	"MULTI without a reply":       {"CLIENT REPLY SKIP", "MULTI", "PING", "EXEC"},
	"queued without a reply":      {"CLIENT REPLY SKIP", "MULTI", "ECHO a", "EXEC", "PING"},
	"EXEC without a reply":        {"MULTI", "PING", "CLIENT REPLY ON", "EXEC", "PING"},
	"a name":                      {"MULTI", "CLIENT SETNAME me", "CLIENT GETNAME", "EXEC", "CLIENT GETNAME"},
	"subcommands":                 {"MULTI", "CLIENT NO-EVICT on", "CLIENT REPLY FOO", "EXEC"},
	"scripts are unknown, too":    {"MULTI", "foo \"a\\r\\nb\"", "EXEC"},
	"WATCH, twice the same key":   {"WATCH a a", "WATCH a", "MULTI", "PING", "EXEC"},
	"WATCH, and nobody comes":     {"WATCH a b", "MULTI", "PING", "EXEC", "MULTI", "PING", "EXEC"},
	"EXEC with a word too many":   {"EXEC a", "PING", "MULTI", "PING", "EXEC a", "EXEC", "PING"},
	"DISCARD ends what EXEC may":  {"WATCH a", "MULTI", "foo", "EXEC", "EXEC", "DISCARD"},
}

func TestTransactionsAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	for name, lines := range transactions {
		sent := words(t, lines...) + theEnd
		assert.Equal(t, askRedis(t, socket, sent), askOurs(sent), name)
	}
	// As inline commands, and with empty frames.
	sent := "MULTI\r\nPING\r\nECHO \"two words\"\r\nEXEC\r\n\r\nMULTI\r\n*0\r\nEXEC\r\n" + theEnd
	assert.Equal(t, askRedis(t, socket, sent), askOurs(sent))
}

// UNWATCH in the queue has no effect, because EXEC unwatches all keys anyway.
func TestUnwatchInsideATransactionChangesNothing(t *testing.T) {
	socket := testenv.Redis(t)
	for _, lines := range [][]string{
		{"WATCH a", "MULTI", "UNWATCH", "EXEC"},
		{"WATCH a b", "MULTI", "PING", "UNWATCH", "DEL a", "UNWATCH", "PING", "EXEC", "MULTI", "PING", "EXEC"},
		{"WATCH a", "MULTI", "ECHO {x*30000}", "UNWATCH", "ECHO a", "EXEC"},
		{"MULTI", "UNWATCH", "ECHO a", "EXEC"},
	} {
		sent := words(t, lines...) + theEnd
		assert.Equal(t, askRedis(t, socket, sent), askOurs(sent), "%.200q", lines)
	}
}

// change is a change of the key a, in Redis and here.
var change = map[bool]string{true: "SET a b PX 3600000", false: "CL.THROTTLE a 15 30 60"}

// A second connection sends the lines that begin with !, and its replies are not compared. !change changes the key a.
var watching = map[string][]string{
	"a change":                        {"WATCH a", "!change", "MULTI", "PING", "EXEC", "MULTI", "PING", "EXEC"},
	"a change behind MULTI":           {"WATCH a", "MULTI", "!change", "PING", "EXEC", "EXEC"},
	"a change behind the queue":       {"WATCH a", "MULTI", "PING", "!change", "EXEC"},
	"of nothing":                      {"WATCH a", "MULTI", "!change", "EXEC"},
	"of another key":                  {"WATCH b", "!change", "MULTI", "PING", "EXEC"},
	"of one of several":               {"WATCH b a c", "!change", "MULTI", "PING", "EXEC"},
	"before it is watched":            {"!change", "WATCH a", "MULTI", "PING", "EXEC"},
	"a change that is taken back":     {"WATCH a", "!change", "!DEL a", "MULTI", "PING", "EXEC"},
	"a deletion":                      {"!change", "WATCH a", "!DEL a", "MULTI", "PING", "EXEC"},
	"a deletion of nothing":           {"WATCH a", "!DEL a", "MULTI", "PING", "EXEC"},
	"RENAME":                          {"!change", "WATCH a", "!RENAME a b", "MULTI", "PING", "EXEC", "!DEL b"},
	"RENAME to it":                    {"!change", "WATCH b", "!RENAME a b", "MULTI", "PING", "EXEC", "!DEL b"},
	"RENAME of nothing":               {"WATCH a", "!RENAME a b", "MULTI", "PING", "EXEC"},
	"EXPIRE":                          {"!change", "WATCH a", "!EXPIRE a 1", "MULTI", "PING", "EXEC"},
	"EXPIRE of nothing":               {"WATCH a", "!EXPIRE a 1", "MULTI", "PING", "EXEC"},
	"a deletion by EXPIRE":            {"!change", "WATCH a", "!EXPIRE a -1", "MULTI", "PING", "EXEC"},
	"PERSIST of nothing":              {"WATCH a", "!PERSIST a", "MULTI", "PING", "EXEC"},
	"looking":                         {"!change", "WATCH a", "!TTL a", "!TYPE a", "!EXISTS a", "!TOUCH a", "MULTI", "PING", "EXEC"},
	"FLUSHALL":                        {"!change", "WATCH a", "!FLUSHALL", "MULTI", "PING", "EXEC"},
	"FLUSHALL of nothing":             {"WATCH a", "!FLUSHALL", "MULTI", "PING", "EXEC"},
	"UNWATCH":                         {"WATCH a", "!change", "UNWATCH", "MULTI", "PING", "EXEC"},
	"UNWATCH inside comes too late":   {"WATCH a", "!change", "MULTI", "UNWATCH", "EXEC", "MULTI", "PING", "EXEC"},
	"DISCARD unwatches":               {"WATCH a", "MULTI", "DISCARD", "!change", "MULTI", "PING", "EXEC"},
	"DISCARD that is none does not":   {"WATCH a", "DISCARD", "!change", "MULTI", "PING", "EXEC"},
	"EXEC unwatches":                  {"WATCH a", "MULTI", "EXEC", "!change", "MULTI", "PING", "EXEC"},
	"EXEC that is none does not":      {"WATCH a", "EXEC", "!change", "MULTI", "PING", "EXEC"},
	"EXEC of the wrong does":          {"WATCH a", "MULTI", "foo", "EXEC", "!change", "MULTI", "PING", "EXEC"},
	"RESET unwatches":                 {"WATCH a", "RESET", "!change", "MULTI", "PING", "EXEC"},
	"RESET inside unwatches":          {"WATCH a", "MULTI", "RESET", "!change", "MULTI", "PING", "EXEC"},
	"WATCH inside is none":            {"MULTI", "WATCH a", "!change", "DISCARD", "MULTI", "WATCH a", "PING", "!change", "EXEC"},
	"both wrong and watched":          {"WATCH a", "!change", "MULTI", "foo", "EXEC", "MULTI", "PING", "EXEC"},
	"by its own connection":           {"!change", "WATCH a", "DEL a", "MULTI", "PING", "EXEC"},
	"by its own transaction":          {"!change", "WATCH a", "MULTI", "DEL a", "EXEC", "MULTI", "PING", "EXEC"},
	"by another transaction":          {"WATCH a", "!MULTI", "!change", "MULTI", "PING", "!EXEC", "EXEC"},
	"by a transaction that never was": {"WATCH a", "!MULTI", "!change", "!DISCARD", "MULTI", "PING", "EXEC"},
	"the empty key":                   {`WATCH ""`, "!change", "MULTI", "PING", "EXEC"},
	"RESP3":                           {"!change", "WATCH a", "!DEL a", "MULTI", "PING", "EXEC", "MULTI", "OBJECT ENCODING a", "EXEC"},
}

func TestWatchAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	ours := newSubject(t, nil).onUnixSocket(t)
	for name, lines := range watching {
		for _, hello := range []string{"PING", "HELLO 3"} {
			converse := func(dial func() (net.Conn, error), real bool) (replies []string) {
				first, second := connect(t, dial), connect(t, dial)
				ask := func(p *peer, line string) string {
					p.send(words(t, line))
					reply, err := readReplies(p.r, 1)
					require.NoError(t, err, "%s: %s", name, line)
					return reply
				}
				ask(second, "FLUSHALL")
				ask(first, hello)
				for _, line := range lines {
					what, byOther := strings.CutPrefix(line, "!")
					switch {
					case what == "change":
						ask(second, change[real])
					case byOther:
						ask(second, what)
					default:
						replies = append(replies, line+" -> "+ask(first, line))
					}
				}
				first.Close()
				second.Close()
				return replies
			}
			theirs := converse(func() (net.Conn, error) { return net.Dial("unix", socket) }, true)
			assert.Equal(t, theirs, converse(ours, false), "%s, behind %s", name, hello)
		}
	}
}

// watchCounter is a store that counts the watched keys.
type watchCounter struct {
	*memory.Store
	watched atomic.Int64
}

func (w *watchCounter) Watch(ctx context.Context, now int64, key []byte) (buckets.Watch, error) {
	w.watched.Add(1)
	return w.Store.Watch(ctx, now, key)
}

func (w *watchCounter) Unwatch(watch buckets.Watch) {
	w.watched.Add(-1)
	w.Store.Unwatch(watch)
}

func TestEveryEndOfATransactionUnwatches(t *testing.T) {
	for name, lines := range map[string]string{
		"EXEC":                       "MULTI\r\nPING\r\nEXEC\r\n",
		"EXEC that is aborted":       "MULTI\r\nfoo\r\nEXEC\r\n",
		"EXEC that comes too late":   "CL.WINDOW b 5 60\r\nMULTI\r\nPING\r\nEXEC\r\n",
		"DISCARD":                    "MULTI\r\nDISCARD\r\n",
		"UNWATCH":                    "UNWATCH\r\n",
		"RESET":                      "RESET\r\n",
		"RESET inside MULTI":         "MULTI\r\nPING\r\nRESET\r\n",
		"QUIT":                       "QUIT\r\n",
		"QUIT inside MULTI":          "MULTI\r\nPING\r\nQUIT\r\n",
		"what breaks the protocol":   "*x\r\n",
		"a command that is too long": "MULTI\r\n" + strings.Repeat("ECHO "+strings.Repeat("x", 60000)+"\r\n", 20),
		"nothing":                    "",
	} {
		t.Run(name, func(t *testing.T) {
			store := &watchCounter{Store: memory.NewStore(8)}
			dial := newSubject(t, store, "client-query-buffer-limit 1mb").onSocket(t)
			p := connect(t, dial)
			p.ask("WATCH a b a", "+OK\r\n")
			p.ask("WATCH c", "+OK\r\n")
			assert.Positive(t, store.watched.Load())
			_, _ = p.Write([]byte(lines)) // the connection may end during the write
			if name == "nothing" {
				p.Close()
			}
			if strings.Contains(lines, "QUIT") || strings.Contains(lines, "*x") || strings.Contains(lines, "xxx") {
				_, _ = io.Copy(io.Discard, p.r) // the server ends the connection
				p.Close()
			}
			require.Eventually(t, func() bool { return store.watched.Load() == 0 }, patience, time.Millisecond)

			fresh := connect(t, dial)
			fresh.ask("CL.WINDOW a 5 60 0", "*5\r\n:0\r\n:5\r\n:5\r\n:-1\r\n:0\r\n")
			fresh.ask("CL.WINDOW a 5 60", "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60\r\n")
			fresh.ask("MULTI", "+OK\r\n")
			fresh.ask("PING", "+QUEUED\r\n")
			fresh.ask("EXEC", "*1\r\n+PONG\r\n")
		})
	}
	t.Run("the end of the server", func(t *testing.T) {
		store := &watchCounter{Store: memory.NewStore(8)}
		s := newSubject(t, store)
		p := connect(t, s.onSocket(t))
		p.ask("WATCH a", "+OK\r\n")
		p.ask("MULTI", "+OK\r\n")
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(t.Context()) }()
		p.expectEOF()
		p.Close()
		require.NoError(t, <-ended)
		assert.Zero(t, store.watched.Load())
	})
}

func TestTransactionQueueIsBounded(t *testing.T) {
	const limit = 1 << 20
	echo := string(multibulk("ECHO", strings.Repeat("x", 64<<10-100)))
	const most = 16
	fill := func(p *peer) {
		p.ask("MULTI", "+OK\r\n")
		for range most {
			p.send(echo)
			p.expect("+QUEUED\r\n")
		}
	}
	for _, network := range networks {
		t.Run("over "+network.name, func(t *testing.T) {
			s := newSubject(t, nil, "client-query-buffer-limit 1mb")
			dial := network.serve(s, t)
			other := connect(t, dial)
			other.ask("MULTI", "+OK\r\n")

			p := connect(t, dial)
			// Discarded commands do not count, however they were discarded.
			fill(p)
			p.ask("DISCARD", "+OK\r\n")
			fill(p)
			p.ask("RESET", "+RESET\r\n")
			fill(p)
			p.ask("foo", "-ERR unknown command 'foo', with args beginning with: \r\n")
			p.ask("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")
			fill(p)
			p.send(echo)
			p.expectEOF()
			assert.Contains(t, s.log.String(), "client-query-buffer-limit")

			other.ask("PING", "+QUEUED\r\n")
			other.ask("EXEC", "*1\r\n+PONG\r\n")
		})
	}
	t.Run("whatever it is made of", func(t *testing.T) {
		for _, command := range [][]string{{"PING"}, {"DEL", "", ""}, {"CL.WINDOW", "k", "1", "1"}} {
			now := int64(1_700_000_123) * 1e9
			c := resp.NewTestConn(newQuiet(8, &now), now)
			c.Feed(now, multibulk("CONFIG", "SET", "client-query-buffer-limit", "1mb", "multi-max-commands", "1000000"))
			c.Feed(now, multibulk("MULTI"))
			queued := 0
			for sent := multibulk(command...); !c.Closed(); {
				if reply := string(c.Feed(now, sent)); !c.Closed() {
					require.Equal(t, "+QUEUED\r\n", reply)
					queued++
				}
				require.LessOrEqual(t, queued, limit/16, "the queue holds more than the words of %q", command)
			}
			assert.Greater(t, queued, 1000)
		}
	})
}

// To other clients EXEC is one atomic command.
func TestExecIsAtomic(t *testing.T) {
	const rounds, readers = 1000, 4
	dial := newSubject(t, nil).onSocket(t)
	multi := func(quantity string) []byte {
		var b []byte
		b = append(b, multibulk("MULTI")...)
		b = append(b, multibulk("CL.WINDOW", "a", "100000", "86400", quantity)...)
		b = append(b, multibulk("CL.WINDOW", "b", "100000", "86400", quantity)...)
		return append(b, multibulk("EXEC")...)
	}
	atOnce := multibulk("CL.ALL", "WINDOW", "b", "100000", "86400", "1", "WINDOW", "a", "100000", "86400", "1", "PEEK")
	looks := []struct {
		sent    []byte
		replies int
		before  string // the text before the two replies
	}{
		{multi("0"), 4, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n"},
		{atOnce, 1, "*4\r\n:0\r\n:0\r\n"},
	}
	// equal checks that the replies of both limits are the same.
	equal := func(reply, before string) error {
		answers, found := strings.CutPrefix(reply, before)
		if half := len(answers) / 2; !found || half == 0 || answers[:half] != answers[half:] {
			return fmt.Errorf("not the same: %q", reply)
		}
		return nil
	}
	var talk []conversation
	for range readers + 1 {
		talk = append(talk, overStream(connect(t, dial).Conn))
	}
	_, err := talk[readers](multi("1"), 4)
	require.NoError(t, err)

	done := make(chan struct{})
	errs := make([]error, readers+1)
	var clients sync.WaitGroup
	clients.Go(func() {
		defer close(done)
		for range rounds {
			reply, err := talk[readers](multi("1"), 4)
			if err == nil {
				err = equal(reply, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n")
			}
			if err != nil {
				errs[readers] = err
				return
			}
		}
	})
	var looked atomic.Int64
	for i := range readers {
		clients.Go(func() {
			for n := i; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				look := looks[n%len(looks)]
				reply, err := talk[i](look.sent, look.replies)
				if err == nil {
					err = equal(reply, look.before)
				}
				if err != nil {
					errs[i] = err
					return
				}
				looked.Add(1)
			}
		})
	}
	clients.Wait()
	assert.NoError(t, errors.Join(errs...))
	assert.Greater(t, looked.Load(), int64(readers))
}

func TestGoRedisTransactionsLoseNoUpdate(t *testing.T) {
	const limit, window = 1000000, 86400
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", version), func(t *testing.T) {
			ctx := t.Context()
			c := newClient(t, newSubject(t, nil).inMemory(t), func(o *redis.Options) { o.Protocol, o.PoolSize = version, 20 })

			cmds, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Do(ctx, "CL.WINDOW", "k", limit, window)
				p.Do(ctx, "CL.THROTTLE", "k", 15, 30, 60)
				p.Do(ctx, "CL.WINDOW", "k", limit, window, 2)
				return nil
			})
			assert.EqualError(t, err, "WRONGTYPE Operation against a key holding the wrong kind of value")
			require.Len(t, cmds, 3)
			for i, left := range map[int]int64{0: limit - 1, 2: limit - 3} {
				got, err := cmds[i].(*redis.Cmd).Int64Slice()
				require.NoError(t, err)
				assert.Equal(t, left, got[2])
			}
			c.Del(ctx, "k")

			// Every client reads, and takes only if no other client has changed the key since.
			const clients, each = 20, 10
			left := func(got []int64, err error) int64 {
				if err != nil || len(got) != 5 {
					return -1
				}
				return got[2]
			}
			var again, done atomic.Int64
			errs := make([]error, clients)
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() {
					for n := 0; n < each; {
						var seen, after int64
						err := c.Watch(ctx, func(tx *redis.Tx) error {
							seen = left(tx.Do(ctx, "CL.WINDOW", "k", limit, window, 0).Int64Slice())
							cmds, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
								p.Do(ctx, "CL.WINDOW", "k", limit, window)
								return nil
							})
							if err == nil {
								after = left(cmds[0].(*redis.Cmd).Int64Slice())
							}
							return err
						}, "k")
						switch {
						case err == nil && seen > 0 && after == seen-1:
							done.Add(1)
							n++
						case errors.Is(err, redis.TxFailedErr):
							again.Add(1)
						default:
							errs[i] = fmt.Errorf("from %d to %d: %w", seen, after, err)
							return
						}
					}
				})
			}
			all.Wait()
			require.NoError(t, errors.Join(errs...))
			assert.EqualValues(t, clients*each, done.Load())
			assert.Equal(t, limit-done.Load(), integers(t, c, "CL.WINDOW", "k", limit, window, 0)[2])
			assert.Positive(t, again.Load(), "somebody has come in between")
		})
	}
}
