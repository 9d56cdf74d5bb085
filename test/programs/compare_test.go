package programs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// line is what a driver said, and when, from the start of the driver on.
type line struct {
	text string
	at   time.Duration
}

// drive runs a driver to its end. It fails if the driver does, or says something on its standard error.
func drive(ctx context.Context, cmd *exec.Cmd) (said []line, err error) {
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		said = append(said, line{text: scanner.Text(), at: time.Since(began)})
	}
	err = errors.Join(scanner.Err(), cmd.Wait(), ctx.Err())
	if err == nil && complaints.Len() > 0 {
		err = errors.New("it complains")
	}
	if err != nil {
		err = fmt.Errorf("%q: %w\n%s%s", cmd.Args, err, text(said), complaints.String())
	}
	return said, err
}

func text(said []line) string {
	var all strings.Builder
	for _, l := range said {
		fmt.Fprintf(&all, "%6.3fs %s\n", l.at.Seconds(), l.text)
	}
	return all.String()
}

// driver is how a driver is started on a server.
type driver func(s server) *exec.Cmd

// compare runs a driver on cellserver and on Redis at the same time, wants the same of both, and returns what it said on
// cellserver. The servers are those of the caller, who may look at them afterwards.
func compare(t *testing.T, servers [2]server, start driver) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var said [2][]line
	var failed [2]error
	var both sync.WaitGroup
	for i, s := range servers {
		cmd := start(s)
		both.Go(func() { said[i], failed[i] = drive(ctx, cmd) })
	}
	both.Wait()
	for i, s := range servers {
		require.NoError(t, failed[i], s.name)
	}
	assert.NotContains(t, servers[0].log.String(), "level=WARN") // as of a script that is not known
	slack := time.Second + drift(said)
	compareLines(t, said, slack)
	compareKeys(t, servers, slack)
	if t.Failed() {
		t.Logf("times may differ by %v; cellserver:\n%sRedis:\n%s", slack, text(said[0]), text(said[1]))
	}
	return text(said[0])
}

// drift is by how much the runs were apart, at most, when they said the same line.
func drift(said [2][]line) (most time.Duration) {
	for i := range min(len(said[0]), len(said[1])) {
		most = max(most, (said[0][i].at - said[1][i].at).Abs())
	}
	return most
}

// timing is a number of seconds in a line, behind what tells that it is one.
var timing = regexp.MustCompile(`(?i)(retry.after|reset(?: after)?|; t)([ =])(-?)([0-9]+(?:\.[0-9]+)?)`)

// compareLines wants the same lines, but for times, which may differ by slack.
func compareLines(t *testing.T, said [2][]line, slack time.Duration) {
	t.Helper()
	if !assert.Equal(t, len(said[1]), len(said[0]), "lines") {
		return
	}
	assert.NotEmpty(t, said[1])
	for i := range said[0] {
		ours, theirs := said[0][i].text, said[1][i].text
		if !assert.Equal(t, timing.ReplaceAllString(theirs, "$1$2$3#"), timing.ReplaceAllString(ours, "$1$2$3#"), "line %d", i+1) {
			continue
		}
		times := timing.FindAllStringSubmatch(theirs, -1)
		for n, found := range timing.FindAllStringSubmatch(ours, -1) {
			assert.InDelta(t, number(times[n][4]), number(found[4]), slack.Seconds(), "line %d: %s\n%s", i+1, ours, theirs)
		}
	}
}

func number(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// entry is what a key holds and how long it still lives, negative: for ever.
type entry struct {
	value string
	left  time.Duration
}

// clock is a time of day within the name of a key: a number of seconds, or of windows, since 1970.
var clock = regexp.MustCompile(`[0-9]{7,}`)

// keys are the databases that are used, each with its keys. Of keys that differ in a time of day only the one that lives
// longest is kept: how many windows a driver needs depends on the machine.
func keys(t *testing.T, s server) map[int]map[string]entry {
	t.Helper()
	ctx, all := t.Context(), make(map[int]map[string]entry)
	for _, database := range []int{0, appDatabase} {
		c := s.client(t, database)
		found := make(map[string]entry)
		iterator := c.Scan(ctx, 0, "*", 1000).Iterator()
		for iterator.Next(ctx) {
			key := iterator.Val()
			value, err := c.Get(ctx, key).Result()
			if errors.Is(err, redis.Nil) {
				continue // it has expired
			}
			require.NoError(t, err, "%s: GET %s", s.name, key)
			left := c.PTTL(ctx, key).Val()
			assert.Equal(t, "string", c.Type(ctx, key).Val(), key)
			name := clock.ReplaceAllString(key, "#")
			if before, there := found[name]; !there || before.left < left {
				found[name] = entry{value, left}
			}
		}
		require.NoError(t, iterator.Err(), s.name)
		all[database] = found
	}
	return all
}

// short is how long a key lives at most that may be there or not when the drivers have ended.
const short = 10 * time.Second

// compareKeys wants the same keys on both servers, with values and expiries.
func compareKeys(t *testing.T, servers [2]server, slack time.Duration) {
	t.Helper()
	ours, theirs := keys(t, servers[0]), keys(t, servers[1])
	for database := range theirs {
		for name, want := range theirs[database] {
			got, there := ours[database][name]
			if brief(want.left) && (!there || brief(got.left)) {
				continue
			}
			if !assert.True(t, there, "database %d: cellserver lacks %s, which is %v", database, name, want) {
				continue
			}
			assert.True(t, same(got.value, want.value, slack), "database %d: %s is %s, and %s on Redis", database, name, got.value, want.value)
			assert.Equal(t, want.left < 0, got.left < 0, "database %d: whether %s lives for ever", database, name)
			assert.InDelta(t, want.left.Seconds(), got.left.Seconds(), slack.Seconds(), "database %d: how long %s lives", database, name)
		}
		for name, got := range ours[database] {
			if _, there := theirs[database][name]; !there && !brief(got.left) {
				assert.Fail(t, "a key that Redis has not", "database %d: %s is %v", database, name, got)
			}
		}
	}
}

func brief(left time.Duration) bool { return left >= 0 && left < short }

// same compares values as texts, or as times of day, which may differ by slack.
func same(got, want string, slack time.Duration) bool {
	if got == want {
		return true
	}
	a, b := number(got), number(want)
	now := time.Now()
	for _, unit := range []struct{ now, second float64 }{
		{float64(now.Unix()), 1},
		{float64(now.UnixNano()), 1e9},
		{now.Sub(time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC)).Seconds(), 1}, // redis_rate counts from there
	} {
		const month = 30 * 24 * 3600
		if math.Abs(a-unit.now) < month*unit.second && math.Abs(a-b) <= slack.Seconds()*unit.second {
			return true
		}
	}
	return false
}

// missing ends the test: something is not installed.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CELLSERVER_TEST_STRICT") == "1" {
		t.Fatalf("needs %s: run scripts/test-deps", what)
	}
	t.Skipf("needs %s: run scripts/test-deps", what)
}
