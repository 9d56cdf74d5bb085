package model_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"cellserver/buckets/cluster"
	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/disk"
	"cellserver/internal/testing/crashfs"
	"cellserver/internal/testing/fuzz"
	"cellserver/internal/testing/memnet"
	"cellserver/persistence"
	"cellserver/resp"
)

// patience bounds waits that normally take no time, on a machine that may be busy.
const patience = time.Minute

// life is a server from its start to its end, assembled like the program, on a clock that the test sets.
type life struct {
	now    *atomic.Int64
	fsys   *crashfs.FS
	store  *memory.Store       // nil if the keys are in an engine
	keeper *persistence.Keeper // of the store in memory
	engine *cluster.Store
	server *resp.Server
	served chan error
	conns  []*conn // the last one is for queries of the test itself
}

// conn is a connection with the commands to send and the replies to compare.
type conn struct {
	net.Conn
	r       *bufio.Reader
	pending []byte
	want    []expected
}

// expected is a command and the reply that it must get.
type expected struct{ words, reply string }

// connections is the number of connections for scripts.
const connections = 2

// What the server keeps on disk.
const (
	keepAlways    = "always"    // a journal, synced before each reply
	keepEverySec  = "everysec"  // a journal
	keepSnapshots = "snapshots" // snapshots, on request and at the end
)

func rules(keep string) persistence.Rules {
	r := persistence.Rules{StopWrites: true, RewritePercent: 100, RewriteMin: 1500}
	switch keep {
	case keepAlways:
		r.Journal, r.Sync = true, persistence.SyncAlways
	case keepEverySec:
		r.Journal, r.Sync = true, persistence.SyncEverySecond
	default:
		r.SavePoints = []persistence.SavePoint{{After: 24 * time.Hour, Changes: 1 << 40}}
	}
	return r
}

// begin starts a server on the files of a file system.
func begin(fsys *crashfs.FS, now int64, keep string) (*life, error) {
	l := &life{now: new(atomic.Int64), fsys: fsys, store: memory.NewStore(4), served: make(chan error, 1)}
	l.now.Store(now)
	quiet := slog.New(slog.DiscardHandler)
	var err error
	l.keeper, err = persistence.New(persistence.Config{FS: fsys, Dir: "/d", Snapshot: "dump.cell", Journal: "appendonly.cell",
		Store: l.store, Now: l.now.Load, Log: quiet}, rules(keep))
	if err != nil {
		return nil, err
	}
	if err := l.keeper.Load(); err != nil {
		return nil, fmt.Errorf("loading: %w", err)
	}
	l.keeper.Start()
	return l, l.serve(resp.Config{Store: l.store, Disk: disk.Of(l.keeper)}, func(next options.Settings) { next.Bound(l.store) })
}

// beginOver starts a server over a store whose keys are in an engine.
func beginOver(store *cluster.Store, rules cluster.Rules, now int64) (*life, error) {
	l := &life{now: new(atomic.Int64), engine: store, served: make(chan error, 1)}
	l.now.Store(now)
	return l, l.serve(resp.Config{Store: store}, func(next options.Settings) {
		rules.MaxLog = int(next.Wire.MaxLog)
		store.SetRules(rules)
	})
}

// serve starts the server. bound has the store keep within settings.
func (l *life) serve(c resp.Config, bound func(next options.Settings)) error {
	live := options.NewLive(options.Defaults(), func(next options.Settings) error {
		bound(next)
		l.server.SetBounds(next.Wire)
		return nil
	})
	c.Now, c.Log, c.Version, c.Options, c.Bounds = l.now.Load, slog.New(slog.DiscardHandler), "test", live, live.Settings().Wire
	l.server = resp.NewServer(c)
	listener := memnet.Listen()
	go func() { l.served <- l.server.Serve(listener) }()
	for range connections + 1 {
		c, err := listener.Dial()
		if err != nil {
			return err
		}
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		l.conns = append(l.conns, &conn{Conn: c, r: bufio.NewReader(c)})
	}
	return nil
}

// end stops the server.
func (l *life) end(save bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, c := range l.conns {
		_ = c.Close()
	}
	if err := l.server.Shutdown(ctx); err != nil {
		return err
	}
	if err := <-l.served; err != nil {
		return err
	}
	if l.engine != nil {
		return l.engine.Close()
	}
	return l.keeper.Stop(save)
}

func multibulk(words []string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

var bytesOfGet = regexp.MustCompile(`(\$5\r\nbytes\r\n):[1-9]\d*\r\n`)

// say sends the pending commands and compares the replies. An expected reply of "" is not compared.
func (c *conn) say() error {
	sent := make(chan error, 1)
	go func(b []byte) { _, err := c.Write(b); sent <- err }(c.pending)
	want := c.want
	c.pending, c.want = nil, nil
	for _, e := range want {
		reply, err := fuzz.ReadReply(c.r)
		if err != nil {
			return fmt.Errorf("%s: %w", e.words, err)
		}
		reply = bytesOfGet.ReplaceAllString(reply, "$1:0\r\n")
		if e.reply != "" && reply != e.reply {
			return fmt.Errorf("%s\n  is answered  %q\n  and not      %q", e.words, reply, e.reply)
		}
	}
	return <-sent
}

// ask sends one command and returns its reply.
func (l *life) ask(words ...string) (string, error) {
	c := l.conns[connections]
	if _, err := c.Write(multibulk(words)); err != nil {
		return "", err
	}
	reply, err := fuzz.ReadReply(c.r)
	return bytesOfGet.ReplaceAllString(reply, "$1:0\r\n"), err
}

// described returns the reply to CL.GET as words.
func (l *life) described(key string) (string, error) {
	reply, err := l.ask("CL.GET", key)
	if err != nil {
		return "", err
	}
	var words []string
	lines := strings.Split(reply, "\r\n")
	if lines[0] == "$-1" || lines[0] == "_" {
		return "", nil
	}
	for i := 1; i < len(lines); i++ {
		switch {
		case lines[i] == "$-1" || lines[i] == "_":
			words = append(words, "none")
		case strings.HasPrefix(lines[i], ":"):
			words = append(words, lines[i][1:])
		case strings.HasPrefix(lines[i], "$"):
			i++
			words = append(words, lines[i])
		}
	}
	return strings.Join(words, " "), nil
}

// scanned returns the keys that SCAN finds, sorted.
func (l *life) scanned() ([]string, error) {
	keys := []string{}
	for cursor := "0"; ; {
		reply, err := l.ask("SCAN", cursor, "COUNT", "3")
		if err != nil {
			return nil, err
		}
		r := bufio.NewReader(strings.NewReader(reply))
		var words []string
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				break
			}
			if line[0] == '$' {
				n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
				text := make([]byte, n+2)
				if _, err := io.ReadFull(r, text); err != nil {
					return nil, err
				}
				words = append(words, string(text[:n]))
			}
		}
		if len(words) == 0 {
			return nil, fmt.Errorf("SCAN: %q", reply)
		}
		keys = append(keys, words[1:]...)
		if cursor = words[0]; cursor == "0" {
			slices.Sort(keys)
			return slices.Compact(keys), nil
		}
	}
}
