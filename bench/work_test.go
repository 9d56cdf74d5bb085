package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestSkipTextsLeavesTheNextReply(t *testing.T) {
	many := "*1000\r\n" + strings.Repeat("$14\r\nk:000000000007\r\n", 1000)
	for _, c := range []struct {
		wire string
		n    int64
	}{
		{"*0\r\n", 0},
		{"*1\r\n$0\r\n\r\n", 1},
		{"*2\r\n$3\r\nk:1\r\n$3\r\nk:2\r\n", 2},
		{many, 1000},
	} {
		for _, from := range []io.Reader{strings.NewReader(c.wire + "+OK\r\n"), iotest.OneByteReader(strings.NewReader(c.wire + "+OK\r\n"))} {
			r := bufio.NewReader(from)
			n, err := skipTexts(r)
			rest, _ := io.ReadAll(r)
			if n != c.n || err != nil || string(rest) != "+OK\r\n" {
				t.Errorf("%.40q: %d, %v, and %.40q is left", c.wire, n, err, rest)
			}
		}
	}
	for _, wire := range []string{"", "\r\n", "+OK\r\n", "*-1\r\n", "*x\r\n", "*1\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n", "-ERR no\r\n",
		"*2\r\n$3\r\nk:1\r\n$4\r\nk:22\r\n", many[:len(many)-1]} {
		if n, err := skipTexts(bufio.NewReader(strings.NewReader(wire))); err == nil {
			t.Errorf("%.40q: %d", wire, n)
		}
	}
	var refused replyError
	if _, err := skipTexts(bufio.NewReader(strings.NewReader("-ERR no\r\n"))); !errors.As(err, &refused) || refused != "ERR no" {
		t.Errorf("%v", err)
	}
}

func TestChoresLeaveWhatTheySay(t *testing.T) {
	p := tinyComparePlan()
	c := testComparer(t, p)
	all, err := c.start(t.Context(), false, nil, nameCellserver, nameRedis)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if all.close(&err); err != nil {
			t.Error(err)
		}
	}()
	for _, one := range savers {
		r := all[one.server]
		if err = c.refill(t.Context(), r, one); err != nil {
			t.Fatal(err)
		}
		for _, what := range chores {
			if what.spoils {
				continue
			}
			if _, _, err = c.work(t.Context(), r, one, what, 1000); err != nil {
				t.Fatalf("%s, %s: %v", one.server, what.name, err)
			}
			if n, err := r.control.size(); n != p.held || err != nil {
				t.Errorf("%s has %d keys of %d after %s: %v", one.server, n, p.held, what.name, err)
			}
		}
		for i := 0; i < len(harmless); i++ { // the last of each name counts, and they are as they were
			name := harmless[i][2]
			last := slices.Clone(harmless)
			slices.Reverse(last)
			at := slices.IndexFunc(last, func(command []string) bool { return command[2] == name })
			if reply, err := r.control.do("CONFIG", "GET", name); err != nil || len(reply) != 2 || reply[1] != last[at][3] {
				t.Errorf("%s: CONFIG GET %s: %v, %v", one.server, name, reply, err)
			}
		}
	}
}

func TestDyingKeysExpireTogether(t *testing.T) {
	c := testComparer(t, tinyComparePlan())
	all, err := c.start(t.Context(), false, nil, nameCellserver, nameRedis)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if all.close(&err); err != nil {
			t.Error(err)
		}
	}()
	const keys = 500
	for _, one := range savers {
		r := all[one.server]
		deadline := time.Now().Add(2 * time.Second)
		if _, err = dyingLoad(one.dying, 1000, keys, deadline).run(t.Context(), r.addr); err != nil {
			t.Fatalf("%s: %v", one.server, err)
		}
		for _, key := range []string{"e:000000001000", "e:000000001499"} {
			asked := time.Until(deadline)
			reply, err := r.control.do("PTTL", key)
			if err != nil || len(reply) != 1 {
				t.Fatalf("%s: PTTL %s: %v, %v", one.server, key, reply, err)
			}
			ms, err := strconv.Atoi(reply[0])
			if left := time.Duration(ms) * time.Millisecond; err != nil || left > asked+10*time.Millisecond || left < time.Until(deadline)-10*time.Millisecond {
				t.Errorf("%s: %s lives for %s, and should for %s: %v", one.server, key, left, asked, err)
			}
		}
		if n, err := r.control.size(); n != keys || err != nil {
			t.Errorf("%s has %d keys: %v", one.server, n, err)
		}
	}
}

func TestGrowthIsBounded(t *testing.T) {
	p := tinyComparePlan()
	p.paced = 200 * time.Millisecond
	c := testComparer(t, p)
	all, err := c.start(t.Context(), false, nil, nameCellserver)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if all.close(&err); err != nil {
			t.Error(err)
		}
	}()
	r := all[nameCellserver]
	h, err := newHand(t.Context(), r, savers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	done, err := c.toil(t.Context(), h, chore{step: stepGrowth})
	if err != nil {
		t.Fatal(err)
	}
	n, err := r.control.size()
	if most := int64(done.took.Seconds()*growthRate) + growthPipe; done.count > most || done.count < growthPipe || n != done.count {
		t.Errorf("%d keys of at most %d in %s, and the server has %d: %v", done.count, most, done.took, n, err)
	}
}

func TestWorkEndsWithItsLoad(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // a server that hangs up once it is asked
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 1))
			}()
		}
	}()
	control, err := dial(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := &comparer{lab: &lab{}, plan: tinyComparePlan()}
	r := &rival{name: "Peer", addr: listener.Addr().String(), control: control, s: &session{process: &process{pid: os.Getpid()}}}
	began := false
	o := &openLoop{addr: r.addr, conns: 1, rate: 100, command: pings}
	_, err = c.beside(t.Context(), r, o, func(ctx context.Context) error {
		began = true
		<-ctx.Done()
		return ctx.Err()
	})
	if err == nil || errors.Is(err, context.Canceled) || !began {
		t.Errorf("the work began: %v; the error is %v", began, err)
	}
}
