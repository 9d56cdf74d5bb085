package model_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cellserver/internal/testing/crashfs"
	"cellserver/internal/testing/fuzz"
	"cellserver/internal/testing/model"
	"cellserver/resp/frame"
)

// A server answers as the model does to any commands, with any way of keeping files, across restarts and steps of the
// clock. The lines of a script are
//
//	0 CL.WINDOW k 5 60          connection 0 sends a command; with 0+ it does not wait for the reply before the next line
//	sleep 10s                   time passes; "retry" and "reset" are the last waits, as in: sleep retry -1ns
//	look                        compares every key
//	sweep                       sweeps expired keys
//	save                        SAVE
//	restart stop -1h always     the server is stopped, or killed, and another one begins on a clock that is earlier by 1h;
//	                            the last word says what it keeps: always, everysec or snapshots
func TestAnswersAsTheModel(t *testing.T) {
	fuzz.Run(t, fuzz.Target{Draw: draw, Play: play, Fixed: 300, Fresh: 2 * time.Second})
}

// start is the time at which all scripts begin, in nanoseconds of Unix time.
const start = int64(1_700_000_123_456_789_012)

// game is a server and its model.
type game struct {
	*life
	keep  string
	model *model.Store
	disk  *model.Store // the contents of the snapshot
	conns []*model.Conn
	open  func(now int64) (*life, error) // begins a server whose keys are in an engine; nil if they are in memory
}

func play(script []string) error { return playOn(script, nil) }

// playOn is play on a server that open begins, if that is not nil.
func playOn(script []string, open func(now int64) (*life, error)) (err error) {
	g := &game{keep: keepAlways, model: model.New(start), disk: model.New(start), open: open}
	if len(script) > 0 {
		if word, ok := strings.CutPrefix(script[0], "keep "); ok {
			g.keep, script = word, script[1:]
		}
	}
	if open != nil {
		g.life, err = open(start)
	} else {
		g.life, err = begin(crashfs.New(), start, g.keep)
	}
	if err != nil {
		return err
	}
	g.connect()
	defer func() {
		err = errors.Join(err, g.end(false))
	}()
	for _, line := range append(script, "look") {
		if err := g.step(line); err != nil {
			return err
		}
	}
	return nil
}

func (g *game) connect() {
	g.conns = nil
	for range connections {
		g.conns = append(g.conns, g.model.Connect())
	}
}

// step carries out a line of a script.
func (g *game) step(line string) error {
	words, ok := frame.SplitArgs(line)
	if !ok || len(words) == 0 {
		return nil
	}
	if n := words[0]; n == "0" || n == "1" || n == "0+" || n == "1+" {
		return g.send(int(n[0]-'0'), n[1:] == "+", words[1:])
	}
	if err := g.flush(); err != nil {
		return err
	}
	switch words[0] {
	case "sleep":
		g.sleep(words[1:])
		return nil
	case "look":
		return g.look()
	case "restart":
		if g.open != nil {
			return g.reopen(words[1:])
		}
		return g.restart(words[1:])
	}
	if g.open != nil {
		return nil
	}
	switch words[0] {
	case "sweep":
		for rounds := 0; rounds < 2; { // the first round may move records to blocks that it has examined
			if g.store.Sweep(g.now.Load()).Round {
				rounds++
			}
		}
		return nil
	case "save":
		reply, err := g.ask("SAVE")
		if err == nil && reply != "+OK\r\n" {
			return fmt.Errorf("SAVE: %q", reply)
		}
		g.disk = g.model.Clone()
		return err
	}
	return nil
}

// flush sends the pending commands.
func (g *game) flush() error {
	for _, c := range g.life.conns[:connections] {
		if err := c.say(); err != nil {
			return err
		}
	}
	return nil
}

func (g *game) send(n int, more bool, words []string) error {
	if len(words) == 0 || words[0] == "HELLO" && g.conns[n].Multi() {
		return nil
	}
	if g.open != nil && g.conns[n].Multi() && strings.HasPrefix(strings.ToUpper(words[0]), "FLUSH") {
		return nil // the keys of an engine cannot be flushed by EXEC
	}
	if other := g.life.conns[1-n]; len(other.want) > 0 {
		if err := other.say(); err != nil {
			return err
		}
	}
	c := g.life.conns[n]
	reply := g.conns[n].Do(words)
	if words[0] == "MAXLOG" {
		words = []string{"CONFIG", "SET", "zslide-max-log", words[1]}
	}
	c.want = append(c.want, expected{strings.Join(words, " "), reply})
	c.pending = append(c.pending, multibulk(words)...)
	if more && len(c.want) < 20 {
		return nil
	}
	return c.say()
}

func (g *game) sleep(words []string) {
	wait := time.Duration(0)
	for _, w := range words {
		switch d, err := time.ParseDuration(w); {
		case w == "retry":
			wait += time.Duration(g.model.Retry)
		case w == "reset":
			wait += time.Duration(g.model.Reset)
		case err == nil:
			wait += d
		}
	}
	// A time plus the longest period must not overflow.
	wait = max(0, min(wait, time.Duration(4_000_000_000_000_000_000-g.model.Now)))
	g.model.Now += int64(wait)
	g.now.Store(g.model.Now)
}

// look compares every key.
func (g *game) look() error {
	keys := g.model.Keys()
	scanned, err := g.scanned()
	if err != nil {
		return err
	}
	if !slices.Equal(keys, scanned) {
		return fmt.Errorf("SCAN finds %q and not %q", scanned, keys)
	}
	for _, key := range keys {
		for _, name := range []string{"CL.GET", "TYPE", "PTTL", "TTL"} {
			// A new connection is in no transaction and uses RESP2.
			want := g.model.Connect().Do([]string{name, key})
			if reply, err := g.ask(name, key); err != nil || reply != want {
				return fmt.Errorf("%s %q\n  is answered  %q\n  and not      %q (%w)", name, key, reply, want, err)
			}
		}
	}
	return nil
}

// restart ends the server and begins another one.
func (g *game) restart(words []string) error {
	if len(words) != 3 {
		return nil
	}
	step, err := time.ParseDuration(words[1])
	if err != nil {
		return nil
	}
	if words[2] != g.keep {
		// The next start may load another file than this one has written, so save: then every file has everything.
		if err := g.step("save"); err != nil {
			return err
		}
	}
	killed := words[0] == "kill" && g.keep != keepEverySec
	if g.keep != keepSnapshots || !killed {
		g.disk = g.model.Clone()
	}
	fsys := g.fsys
	if killed {
		fsys = g.fsys.Crash(crashfs.Outcome{})
	}
	if err := g.end(g.keep == keepSnapshots); err != nil {
		return fmt.Errorf("stopping: %w", err)
	}
	now := max(g.model.Now+int64(step), start/2)
	maxLog := g.model.MaxLog
	g.keep = words[2]
	if g.life, err = begin(fsys, now, g.keep); err != nil {
		return err
	}
	var fault error
	g.model = g.disk.Load(now, func(key string, answers []string) int {
		got, err := g.described(key)
		if err != nil {
			fault = err
			return 0
		}
		n := slices.Index(answers, got)
		if n < 0 {
			fault = fmt.Errorf("after a restart %q\n  is           %q\n  and not      %q", key, got, answers)
			return 0
		}
		return n
	})
	if fault != nil {
		return fault
	}
	g.connect()
	if err := g.send(0, false, []string{"MAXLOG", fmt.Sprint(maxLog)}); err != nil {
		return err
	}
	// Loading may have clamped states. This reply waits until the clamped states are on disk.
	return g.send(0, false, []string{"CL.WINDOW", "restarted", "1000000", "1000000"})
}

// reopen ends the server and begins another one over the same engine, where nothing was lost.
func (g *game) reopen(words []string) error {
	if len(words) != 3 {
		return nil
	}
	step, err := time.ParseDuration(words[1])
	if err != nil {
		return nil
	}
	if err := g.end(false); err != nil {
		return fmt.Errorf("stopping: %w", err)
	}
	g.model.Now += max(0, int64(step)) // the time of the engine goes on
	if g.life, err = g.open(g.model.Now); err != nil {
		return err
	}
	g.connect()
	return g.send(0, false, []string{"MAXLOG", fmt.Sprint(g.model.MaxLog)})
}

// palette is the vocabulary of the lines of one script.
type palette struct {
	*rand.Rand
	limits map[string][]string // by kind: the words after the key
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

var (
	kinds   = []string{"THROTTLE", "WINDOW", "ZSLIDE"}
	periods = []string{"1", "2", "10", "60", "0.25", "3600", "86400", "0.000000007", "4611686018", "+007.5"}
	keysOf  = map[string][]string{"THROTTLE": {"t", "u", `"\x00t\xff"`}, "WINDOW": {"w", "x", `""`}, "ZSLIDE": {"z", "y"}}
	wrong   = []string{"x", `""`, "1.5", "-1", "0x1", "1e3", " 1", "9223372036854775808", "0", "-0", "99999999999999999999"}
)

func draw(r *rand.Rand) []string {
	p := &palette{Rand: r, limits: map[string][]string{}}
	for _, kind := range kinds {
		for range 1 + r.IntN(3) {
			period := pick(r, periods...)
			if r.IntN(3) > 0 {
				period = pick(r, "1", "2", "10", "60") // periods that are used for the same keys
			}
			limit := pick(r, "1", "2", "3", "10") + " " + period
			switch {
			case kind == "THROTTLE":
				limit = pick(r, "0", "1", "2", "15") + " " + pick(r, "1", "3", "30", "1", "10") + " " + period
			case r.IntN(20) == 0:
				limit = pick(r, "9223372036854775807", "1000000") + " " + period
			}
			p.limits[kind] = append(p.limits[kind], limit)
		}
	}
	keeps := []string{keepAlways, keepAlways, keepSnapshots, keepEverySec}
	script := []string{"keep " + pick(r, keeps...)}
	if r.IntN(3) == 0 {
		script = append(script, "0 MAXLOG "+pick(r, "1", "2", "3"))
	}
	restarts := r.IntN(4)
	for range 5 + r.IntN(60) {
		if restarts > 0 && r.IntN(15) == 0 {
			restarts--
			script = append(script, fmt.Sprintf("restart %s %s %s", pick(r, "stop", "kill"), p.clockStep(), pick(r, keeps...)))
			continue
		}
		script = append(script, p.line())
	}
	return script
}

func (p *palette) clockStep() string {
	return pick(p.Rand, "0s", "0s", "-1s", "-1h", "-30s", "-5s", "1s", "10s", "-1ns", "-24h", "1h", "-1500ms", "-8760h")
}

func (p *palette) line() string {
	r := p.Rand
	conn := pick(r, "0", "0", "0", "1", "0+", "1+")
	switch n := r.IntN(100); {
	case n < 45:
		return conn + " " + p.one()
	case n < 57:
		return conn + " " + p.all()
	case n < 75:
		return "sleep " + pick(r, "0s", "1ns", "retry", "retry", "retry -1ns", "reset", "reset -1ns", "1s", "10s", "500ms",
			"250ms", "1m", "59s", "1h", "24h", "3.3s", "7ns", "1000000h")
	case n < 78:
		return pick(r, "look", "look", "sweep", "save")
	case n < 80:
		return conn + " HELLO " + pick(r, "2", "3")
	case n < 88:
		return conn + " " + pick(r, "MULTI", "EXEC", "EXEC", "DISCARD", "UNWATCH", "WATCH "+p.key(), "WATCH "+p.key()+" "+p.key())
	}
	return conn + " " + p.generic()
}

// key returns a random key.
func (p *palette) key() string {
	return pick(p.Rand, keysOf[pick(p.Rand, kinds...)]...)
}

// keyFor returns a key that usually holds a bucket of the kind.
func (p *palette) keyFor(kind string) string {
	if p.IntN(25) == 0 {
		return p.key()
	}
	return pick(p.Rand, keysOf[kind]...)
}

func (p *palette) quantity() string {
	return pick(p.Rand, "1", "1", "1", "1", "2", "3", "5", "0", "-1", "-2", "-1", "10", "16", "+1", "015", "-0",
		"9223372036854775807", "-9223372036854775808")
}

func (p *palette) offset() string {
	return pick(p.Rand, "0", "0", "1", "-19800", "-.5", "0.5", "-4611686018", "4611686018", "3.25")
}

// spoil occasionally replaces a word of a line by a wrong one.
func (p *palette) spoil(line string) string {
	words := strings.Fields(line)
	switch p.IntN(60) {
	case 0:
		words[p.IntN(len(words))] = pick(p.Rand, wrong...)
	case 1:
		words = append(words, pick(p.Rand, "PEEK", "x", "ALIGN", "ms"))
	case 2:
		words = words[:len(words)-1]
	}
	if len(words) == 0 {
		return line
	}
	return strings.Join(words, " ")
}

func (p *palette) one() string {
	r := p.Rand
	kind := pick(r, kinds...)
	line := p.keyFor(kind) + " " + pick(r, p.limits[kind]...)
	if r.IntN(4) > 0 {
		line += " " + p.quantity()
		options := []string{}
		if r.IntN(6) == 0 {
			options = append(options, pick(r, "PEEK", "peek"))
		}
		if r.IntN(3) == 0 {
			options = append(options, "MS")
		}
		if kind == "WINDOW" && r.IntN(3) == 0 {
			options = append(options, "ALIGN "+p.offset())
		}
		r.Shuffle(len(options), func(i, j int) { options[i], options[j] = options[j], options[i] })
		for _, o := range options {
			line += " " + o
		}
	}
	return pick(r, "CL.", "cl.") + kind + " " + p.spoil(line)
}

func (p *palette) all() string {
	r := p.Rand
	line := ""
	for range 1 + r.IntN(4) {
		kind := pick(r, kinds...)
		line += " " + kind + " " + p.keyFor(kind) + " " + pick(r, p.limits[kind]...) + " " + p.quantity()
		if kind == "WINDOW" && r.IntN(3) == 0 {
			line += " ALIGN " + p.offset()
		}
	}
	if r.IntN(6) == 0 {
		line += " PEEK"
	}
	if r.IntN(3) == 0 {
		line += " MS"
	}
	return "CL.ALL " + p.spoil(line)
}

func (p *palette) generic() string {
	r := p.Rand
	switch r.IntN(10) {
	case 0, 1:
		return pick(r, "DEL", "UNLINK", "EXISTS", "TOUCH") + " " + p.key() + pick(r, "", " "+p.key())
	case 2, 3:
		return pick(r, "TYPE", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "CL.GET", "PERSIST", "PERSIST") + " " + p.key()
	case 4:
		return pick(r, "RENAME", "RENAMENX") + " " + p.key() + " " + p.key()
	case 5:
		if r.IntN(4) == 0 {
			return "FLUSHALL"
		}
	}
	when := pick(r, "1", "10", "1", "500", "-1", "0", "60", "100000", "9223372036854775807", "x", "9223372036854775", "9223372036")
	if r.IntN(10) == 0 {
		when = pick(r, "+1", "01", "-0")
	}
	line := pick(r, "EXPIRE", "PEXPIRE") + " " + p.key() + " " + when
	if r.IntN(4) == 0 {
		line = pick(r, "EXPIREAT", "PEXPIREAT") + " " + p.key() + " " +
			pick(r, "1700000133", "1700000133456", "1700000123456", "1700000123457", "1", "-1", "9223372036854775807")
	}
	return line + pick(r, "", "", "", " NX", " XX", " GT", " LT", " XX GT")
}
