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

	"cellserver/internal/testing/testenv"
)

// line is what a driver said, and when, from the start of the driver on.
type line struct {
	text string
	at   time.Duration
}

// run is one of a driver.
type run struct {
	began time.Time
	said  []line
}

func (r run) String() string {
	var all strings.Builder
	for _, l := range r.said {
		fmt.Fprintf(&all, "%6.3fs %s\n", l.at.Seconds(), l.text)
	}
	return all.String()
}

// drive runs a driver to its end. It fails if the driver does, or says something on its standard error.
func drive(ctx context.Context, cmd *exec.Cmd) (r run, err error) {
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	r.began = time.Now()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		r.said = append(r.said, line{text: scanner.Text(), at: time.Since(r.began)})
	}
	err = errors.Join(scanner.Err(), cmd.Wait(), ctx.Err())
	if err == nil && complaints.Len() > 0 {
		err = errors.New("it complains")
	}
	if err != nil {
		err = fmt.Errorf("%q: %w\n%s%s", cmd.Args, err, r, complaints.String())
	}
	return r, err
}

// driver is how a driver is started on a server.
type driver func(s server) *exec.Cmd

// compare runs a driver on cellserver and on Redis at the same time, wants the same of both, and returns what it said on
// cellserver. The servers are those of the caller, who may look at them afterwards.
func compare(t *testing.T, servers [2]server, start driver) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var runs [2]run
	var failed [2]error
	var both sync.WaitGroup
	for i, s := range servers {
		cmd := start(s)
		both.Go(func() { runs[i], failed[i] = drive(ctx, cmd) })
	}
	both.Wait()
	for i, s := range servers {
		require.NoError(t, failed[i], s.name)
	}
	assert.NotContains(t, servers[0].log.String(), "level=WARN") // as of a script that is not known
	slack := time.Second + drift(runs[0].said, runs[1].said)
	compareLines(t, runs[0].said, runs[1].said)
	compareKeys(t, keys(t, servers[0], runs[0].began), keys(t, servers[1], runs[1].began), slack)
	if t.Failed() {
		t.Logf("expiries may differ by %v; cellserver:\n%sRedis:\n%s", slack, runs[0], runs[1])
	}
	return runs[0].String()
}

// drift is by how much two runs were apart, at most, when they said the same line.
func drift(a, b []line) (most time.Duration) {
	for i := range min(len(a), len(b)) {
		most = max(most, (a[i].at - b[i].at).Abs())
	}
	return most
}

// timing is a number of seconds in a line, behind what tells that it is one.
var timing = regexp.MustCompile(`(?i)(retry.after|reset(?: after)?|; t)([ =])(-?)([0-9]+(?:\.[0-9]+)?)`)

// compareLines wants the same lines, but for times. They may differ by a second, and by how much longer one run took from the
// start of the group on, which are the lines that begin alike.
func compareLines(t *testing.T, ours, theirs []line) {
	t.Helper()
	if !assert.Equal(t, len(theirs), len(ours), "lines") {
		return
	}
	assert.NotEmpty(t, theirs)
	var group string
	var began, theyBegan, at, theyAt time.Duration
	for i := range ours {
		got, want := ours[i].text, theirs[i].text
		if name, _, _ := strings.Cut(want, ":"); name != group {
			group, began, theyBegan = name, at, theyAt
		}
		at, theyAt = ours[i].at, theirs[i].at
		if !assert.Equal(t, timing.ReplaceAllString(want, "$1$2$3#"), timing.ReplaceAllString(got, "$1$2$3#"), "line %d", i+1) {
			continue
		}
		slack := time.Second + ((at - began) - (theyAt - theyBegan)).Abs()
		times := timing.FindAllStringSubmatch(want, -1)
		for n, found := range timing.FindAllStringSubmatch(got, -1) {
			assert.InDelta(t, number(times[n][4]), number(found[4]), slack.Seconds(), "line %d: %s\n%s", i+1, got, want)
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

// entry is what a key holds.
type entry struct {
	database int
	value    string
	left     time.Duration // how long it still lives, negative: for ever
	expires  time.Duration // after the start of the run
	window   bool          // its name has a time of day
}

// clock is a time of day within the name of a key: a number of seconds, or of windows, since 1970.
var clock = regexp.MustCompile(`[0-9]{7,}`)

// keys are what a run has left behind, by name, without the times of day. Of keys that differ in those only the one is kept that
// lives longest: how many windows a driver needs depends on the machine.
func keys(t *testing.T, s server, began time.Time) map[string]entry {
	t.Helper()
	ctx, found := t.Context(), make(map[string]entry)
	for _, database := range []int{0, appDatabase} {
		c := s.client(t, database)
		iterator := c.Scan(ctx, 0, "*", 1000).Iterator()
		for iterator.Next(ctx) {
			key := iterator.Val()
			value, err := c.Get(ctx, key).Result()
			if errors.Is(err, redis.Nil) {
				continue // it has expired
			}
			require.NoError(t, err, "%s: GET %s", s.name, key)
			assert.Equal(t, "string", c.Type(ctx, key).Val(), key)
			left := c.PTTL(ctx, key).Val()
			name := clock.ReplaceAllString(key, "#")
			if before, there := found[name]; !there || before.left < left {
				found[name] = entry{database: database, value: value, left: left, expires: time.Since(began) + left, window: name != key}
			}
		}
		require.NoError(t, iterator.Err(), s.name)
	}
	return found
}

// short is how long a key lives at most that may be there or not when the drivers have ended.
const short = 10 * time.Second

// compareKeys wants the same keys, with values and expiries. Runs that were far apart may have been in different windows.
func compareKeys(t *testing.T, ours, theirs map[string]entry, slack time.Duration) {
	t.Helper()
	for name, want := range theirs {
		got, there := ours[name]
		switch {
		case want.passes(slack) && (!there || got.passes(slack)):
			continue
		case !assert.True(t, there, "cellserver lacks %s, which is %+v", name, want):
			continue
		}
		assert.Equal(t, want.database, got.database, "the database of %s", name)
		assert.True(t, same(got.value, want.value, slack), "%s is %s, and %s on Redis", name, got.value, want.value)
		if assert.Equal(t, want.left < 0, got.left < 0, "whether %s lives for ever", name) && want.left >= 0 {
			assert.InDelta(t, want.expires.Seconds(), got.expires.Seconds(), slack.Seconds(), "when %s expires", name)
		}
	}
	for name, got := range ours {
		if _, there := theirs[name]; !there && !got.passes(slack) {
			assert.Fail(t, "a key that Redis has not", "%s is %+v", name, got)
		}
	}
}

// passes reports whether a key may be there after one run and not after the other.
func (e entry) passes(slack time.Duration) bool {
	return e.left >= 0 && e.left < short || e.window && slack > short
}

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
	if os.Getenv(testenv.Strict) == "1" {
		t.Fatalf("needs %s: run scripts/test-deps", what)
	}
	t.Skipf("needs %s: run scripts/test-deps", what)
}
