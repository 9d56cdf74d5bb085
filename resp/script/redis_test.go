package script_test

// Every known script runs beside its text on a real Redis, call by call. Both go by the time of this machine, and a call takes a
// while, so what Redis says of a time may be earlier than what is said here by as long as the call took, and a millisecond for
// rounding. A difference that does not repeat is one of time.

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
	"cellserver/internal/testing/scripttext"
	"cellserver/internal/testing/testenv"
	"cellserver/resp/frame"
	"cellserver/resp/script"
)

// oracle is a connection to a real Redis.
type oracle struct {
	conn net.Conn
	in   *bufio.Reader
}

func newOracle(t *testing.T) *oracle {
	conn, err := net.Dial("unix", testenv.Redis(t))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	return &oracle{conn, bufio.NewReader(conn)}
}

// ask sends commands, and returns their replies.
func (o *oracle) ask(t require.TestingT, commands ...[]string) (replies []reply) {
	var b []byte
	for _, words := range commands {
		b = fmt.Appendf(b, "*%d\r\n", len(words))
		for _, w := range words {
			b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	_, err := o.conn.Write(b)
	require.NoError(t, err)
	for range commands {
		replies = append(replies, readReply(t, o.in))
	}
	return replies
}

// reply is a reply in RESP2: its first line, the bytes of a bulk string, and the elements of an array.
type reply struct {
	line  string
	bulk  string
	items []reply
}

func readReply(t require.TestingT, in *bufio.Reader) (r reply) {
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	r.line = strings.TrimSuffix(line, "\r\n")
	n, _ := strconv.Atoi(r.line[1:])
	switch r.line[0] {
	case '$':
		if n >= 0 {
			b := make([]byte, n+2)
			_, err = io.ReadFull(in, b)
			require.NoError(t, err)
			r.bulk = string(b[:n])
		}
	case '*':
		for ; n > 0; n-- {
			r.items = append(r.items, readReply(t, in))
		}
	}
	return r
}

func (r reply) String() string {
	switch {
	case r.line[0] == '*':
		return fmt.Sprint(r.items)
	case r.line[0] == '$' && r.line != "$-1":
		return strconv.Quote(r.bulk)
	}
	return r.line
}

// latest is the most milliseconds that a key of this server can live.
const latest = 6_000_000_000_000

// same reports whether two replies are the same, but for times, which may differ by up to late milliseconds.
func same(ours, theirs reply, late int64) bool {
	if ours.line[0] == ':' && theirs.line[0] == ':' {
		a, _ := strconv.ParseInt(ours.line[1:], 10, 64)
		b, _ := strconv.ParseInt(theirs.line[1:], 10, 64)
		return a == b || b > 100 && max(a-b, b-a) <= late || a > latest && b > latest
	}
	return ours.line == theirs.line && ours.bulk == theirs.bulk &&
		slices.EqualFunc(ours.items, theirs.items, func(a, b reply) bool { return same(a, b, late) })
}

// subject is a known script, and the states of the keys that it is called with.
type subject struct {
	script *script.Script
	sha1   string // under which Redis has the text
	clock  bool   // the text takes the time from its arguments 5 and 6
	states map[string]*buckets.State
	set    map[string]int64 // with a clock: when a key was set last, which is now in Redis
}

// call runs the script, and returns the reply.
func (s *subject) call(t require.TestingT, now int64, readOnly bool, keys, args []string) reply {
	var run script.Run
	run.ReadOnly = readOnly
	run.Begin(s.script, bytesOf(keys), bytesOf(args))
	states := make([]buckets.State, len(run.Keys()))
	for i, key := range run.Keys() {
		if st := s.states[string(key)]; st != nil && (s.clock || st.FullAt() > now) {
			states[i] = *st
		}
	}
	before := slices.Clone(states)
	changed, err := run.Update(now, states)
	require.NoError(t, err)
	assert.Equal(t, changed, run.Changed)
	if !changed {
		assert.Equal(t, before, states, "what has not changed")
	}
	for i, key := range run.Keys() {
		if !s.clock && states[i].Kind != buckets.None && states[i].FullAt() <= now {
			states[i] = buckets.State{}
		}
		s.states[string(key)] = &states[i]
		if changed {
			s.set[string(key)] = now
		}
	}
	var out frame.Reply
	run.AppendReply(&out)
	run.End()
	text := strings.ReplaceAll(string(out.Bytes), s.script.Digest.String(), s.sha1)
	return readReply(t, bufio.NewReader(strings.NewReader(text)))
}

func bytesOf(words []string) (b [][]byte) {
	for _, w := range words {
		b = append(b, []byte(w))
	}
	return b
}

// state describes what a key holds here, as askState does what it holds in Redis.
func (s *subject) state(key string, now int64) (value string, ttl int64) {
	st := s.states[key]
	if s.clock {
		now = s.set[key]
	}
	switch {
	case st == nil || st.Kind == buckets.None || !s.clock && st.FullAt() <= now:
		return "none", -2
	case !st.Kind.KeepsExpiry():
		return "other", 0
	case st.Expiry() == buckets.NoExpiry:
		return string(st.AppendValue(nil)), -1
	}
	return string(st.AppendValue(nil)), buckets.CeilDiv(st.Expiry()-now, 1e6)
}

var theKeys = []string{"a", "b", "c"}

func askStates() (commands [][]string) {
	for _, key := range theKeys {
		commands = append(commands, []string{"TYPE", key}, []string{"EVAL", "return redis.pcall('get', KEYS[1])", "1", key}, []string{"PTTL", key})
	}
	return commands
}

// drawCase draws the contents of the keys, and some calls.
type scene struct {
	setups []setup
	calls  []called
}

type setup struct {
	key, value string // "other" is a key of another type
	float      bool   // a script has set it
	px         int64  // 0 for none
}

type called struct {
	keys, args []string
	readOnly   bool
}

var oddities = []string{"", "abc", "1.5", "0x10", "1e3", " 7 ", "-3", "0", "-0", "+7", "inf", "-inf", "nan", "nan(1)", "007", "9007199254740993", "9223372036854775807",
	"-9223372036854775808", "1e17", "1e400", "9223372036854775808", "0x1p4", "0x", "1_0", ".5", "5.", "\t7\n", "7\x00", "1e-7", "true", "OK"}

func drawScene(t *rapid.T, s *script.Script) (sc scene) {
	usual := usualArguments[s.Digest.String()]
	word := rapid.OneOf(rapid.SampledFrom(oddities), rapid.StringMatching(`-?[0-9]{1,4}`), rapid.StringMatching(`[0-9]{1,2}(\.[0-9]{1,3})?`))
	for _, key := range theKeys[:2] {
		switch rapid.SampledFrom([]string{"none", "none", "int", "int", "int", "float", "other", "far"}).Draw(t, "holds") {
		case "int":
			sc.setups = append(sc.setups, setup{key: key, value: rapid.SampledFrom([]string{"0", "1", "2", "5", "-4", "100", "9007199254740992",
				"9223372036854775806", "9223372036854775807", "-9223372036854775808"}).Draw(t, "value"),
				px: rapid.SampledFrom([]int64{0, 4321, 9123, 60123}).Draw(t, "px")})
		case "float":
			sc.setups = append(sc.setups, setup{key: key, float: true, value: rapid.SampledFrom([]string{"1.5", "0.1", "-0", "1e17", "1e300", "inf", "-inf",
				"280567200.123456", "280567205.5", "-2.5e-7", "nan", "3"}).Draw(t, "float"), px: rapid.SampledFrom([]int64{0, 9123}).Draw(t, "px")})
		case "other":
			sc.setups = append(sc.setups, setup{key: key, value: "other"})
		}
	}
	for range rapid.IntRange(1, 4).Draw(t, "calls") {
		var c called
		if rapid.IntRange(0, 9).Draw(t, "few keys") == 0 {
			c.keys = rapid.SliceOfN(rapid.SampledFrom(theKeys), 0, 3).Draw(t, "keys")
		} else {
			c.keys = theKeys[:s.Keys]
		}
		c.args = slices.Clone(usual)
		for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "oddities") {
			if len(c.args) > 0 {
				c.args[rapid.IntRange(0, len(c.args)-1).Draw(t, "at")] = word.Draw(t, "word")
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "few arguments") == 0 {
			c.args = c.args[:rapid.IntRange(0, len(c.args)).Draw(t, "arguments")]
		}
		c.readOnly = rapid.IntRange(0, 19).Draw(t, "read only") == 0
		sc.calls = append(sc.calls, c)
	}
	return sc
}

// usualArguments are what libraries send.
var usualArguments = map[string][]string{
	"a1de965f42e177aa339706bd580f049065eca79a": {"2", "10", "5", "10"}, "0aa93fe6a34317527000a66828426c0ae2104618": {"2", "10"},
	"3f424a504987d231baa2e19159bb5def8ad32f87": {"0", "60000"}, "b829ec02dca78a148dfc75dd3c86f488ed007c68": {"1", "60000"},
	"81dbecea94d2d10514719b20ed51faf711529d9d": {"0", "60000"}, "895b92e1712734e1b464999be23953485475357b": {"60000"},
	"6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a": {}, "3f481dd9e75a7c63c2facb091af19e1ab17f2cc7": {"60000", "2", "1", "true"},
	"f80d0c65a05e27559602a2b43fbe989df31fc5f6": {"60000", "2", "true"}, "b72d57bf75a045b8d6f72ca5b553e356583723f0": {"60000", "2", "false", "true"},
	"b8a19d47785922bb04e7a9fdb49e90d89be1b8af": {"60000", "2", "false", "true"}, "4c7d9ef62b3d4f8efd8d11d5d2fd1a56b1e723bc": {},
	"f1e0da9c495676ab6904eb80db1f2811d5347f58": {"default", "60000", "2", "30000"}, "628bd136a573a06b346879695681af12ccef300f": {"60", "1"},
	"ab9a35aa62ed8fa50cf1c655a522698512c9b126": {"60"}, "e8ac2a60cb040b0dbb56815a1e9c6fd032ce62e7": {"3", "10", "1"},
	"e7a0a27d4101baabb124af209bb0245197a359a1": {"10"}, "a08c9c69b7c07ae2485190873b90d128a23e502d": {"0", "60"},
	"647c65a442733a1aa440f99908d249d13b4d6c4a": {"5"}, "d5f94f1848f0c54fff99d99dbc4d54184a157c02": {"5", "60"},
	"f4a7da3e5d8ea3b46642af08427151cae0190400": {"1"}, "4d15273b16b10c15e1d9202cbe93c959ab7d250b": {"1"},
	"f74233f556d3f99c50b61169cf8aa8d5deb63fb2": {"1", "60000"}, "566f5c6a17e5fddb9a10bf389f754edd0d899c61": {},
	"ebd682e30de074a6919bde872b507734c7c3ebe5": {"5", "6", "60"}, "a9e60ae5eb5b2afd1924613fe21400b92d3f8f07": {"2", "60"},
	"3632c0f415619f6de5a5840207b1498fda08317c": {"2", "60"}, "30caff0cf2b42d8d2895ce3d18d791f98042c8f5": {"1", "60"},
	"b7bb2fcc82b9c8fc49850e9223e78667a5387dbc": {"5", "10", "1700000000", "3"}, "97f5a6625d0254eb4d0f5d9dcce7d1ddc936155d": {"5", "10", "1700000000", "3"},
	"f52a5b566060d79fd321d695df55bc918339c4aa": {"3", "7", "60", "1"}, "054143318f521948424aa25df61d7f7ba835a9d7": {"3", "7", "60", "4"},
	"b51fcf1fec2622e401ecd1495ba719a525362891": {"3", "7", "60", "1"}, "a6aad3b47e739a75dad60abfc23778c5cf863397": {"3", "7", "60", "4"},
	"ed56c8a55853f0875fb1b3ec6a5f0d599ae50fb7": {"3", "7", "60", "1"}, "879df209aa81c6045299275bd92eddc98dc3ba7d": {"3", "7", "60", "4"},
	"dbecad63894903ddf755d05d73a3eb7432ef75c0": {"5", "9000"}, "e04ea1352c46ae16a15753d4960bee821bf3b3fa": {"5"},
}

// data is what this server adds to the error of a value that it does not keep.
const data = " (cellserver keeps counters and limits, not data)"

// play plays a scene on both, and returns how they differ.
func (o *oracle) play(t require.TestingT, s *subject, sc scene, clock []int64) (difference string) {
	s.states, s.set = make(map[string]*buckets.State), make(map[string]int64)
	commands := [][]string{{"FLUSHALL"}}
	began := time.Now()
	for _, set := range sc.setups {
		at := buckets.NoExpiry
		if set.px > 0 {
			at = s.now(began, clock, 0) + set.px*1e6
		}
		px := []string{}
		if set.px > 0 {
			px = []string{"PX", strconv.FormatInt(set.px, 10)}
		}
		var st buckets.State
		switch {
		case set.value == "other":
			commands = append(commands, []string{"HSET", set.key, "f", "v"})
			st = buckets.State{Kind: buckets.Throttle, Words: [buckets.MaxWords]int64{buckets.NoExpiry}}
		case set.float:
			commands = append(commands, append([]string{"EVAL", "return redis.call('set', KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3])", "1", set.key, set.value}, px...))
			if set.px == 0 {
				commands[len(commands)-1][1] = "return redis.call('set', KEYS[1], tonumber(ARGV[1]))"
			}
			f, err := strconv.ParseFloat(set.value, 64)
			require.NoError(t, err)
			st = buckets.CountedFloat(f, at)
		default:
			commands = append(commands, append([]string{"SET", set.key, set.value}, px...))
			n, err := strconv.ParseInt(set.value, 10, 64)
			require.NoError(t, err)
			st = buckets.Counted(n, at)
		}
		s.states[set.key] = &st
		s.set[set.key] = s.now(began, clock, 0)
	}
	for i, c := range sc.calls {
		name := "EVALSHA"
		if c.readOnly {
			name = "EVALSHA_RO"
		}
		args := c.args
		now := s.now(time.Now(), clock, i)
		if s.clock {
			for len(args) < 4 {
				args = append(args, "")
			}
			args = append(slices.Clone(args), strconv.FormatInt(now/1e9, 10), strconv.FormatInt(now%1e9/1000, 10))
		}
		sent := append([]string{name, s.sha1, strconv.Itoa(len(c.keys))}, append(slices.Clone(c.keys), args...)...)
		ours := s.call(t, now, c.readOnly, c.keys, args)
		replies := o.ask(t, append(append(commands, sent), askStates()...)...)
		late := time.Since(began).Milliseconds() + 1
		replies, commands = replies[len(commands):], nil
		theirs := replies[0]
		fault := ""
		if ours.line[0] == '-' && strings.Contains(ours.line, data) {
			if theirs.line[0] != '-' {
				return "" // Redis keeps what is not an integer, and the two go apart
			}
			fault = ours.line
			ours.line = strings.Replace(ours.line, data, "", 1)
		}
		if strings.HasPrefix(ours.line, "-WRONGTYPE") && !strings.HasPrefix(theirs.line, "-WRONGTYPE") {
			return "" // SET and RENAME of Redis replace a key of another type, which here would reset a limit
		}
		if !same(ours, theirs, late) {
			return fmt.Sprintf("%q:\n ours   %v %s\n theirs %v", sent, ours, fault, theirs)
		}
		if difference, ends := s.compareStates(replies[1:], now, late); difference != "" {
			return fmt.Sprintf("after %q %v:\n%s", sent, ours, difference)
		} else if ends {
			return ""
		}
	}
	return ""
}

// compareStates returns how the keys differ, and whether one is about to expire.
func (s *subject) compareStates(theirs []reply, now, late int64) (difference string, ends bool) {
	for i, key := range theKeys {
		value, ttl := s.state(key, now)
		kind, got, left := theirs[3*i].line[1:], theirs[3*i+1].bulk, theirs[3*i+2].line
		switch kind {
		case "none":
			got = "none"
		case "hash":
			got, ttl = "other", -1
		}
		their, _ := strconv.ParseInt(left[1:], 10, 64)
		if ttl >= 0 && ttl < 2000 {
			return "", true
		}
		sameTTL := ttl == their || their >= 0 && max(ttl-their, their-ttl) <= late || ttl > latest && their > latest
		if value != got || !sameTTL {
			return fmt.Sprintf(" %s ours %q %d, theirs %q %d", key, value, ttl, got, their), false
		}
	}
	return "", false
}

// now is the time of the nth call.
func (s *subject) now(real time.Time, clock []int64, n int) int64 {
	if s.clock {
		return clock[n]
	}
	return real.UnixNano()
}

var timeCall = regexp.MustCompile(`redis\.call\("TIME"\)`)

// Every known script answers as its text does on a real Redis, and leaves the keys as that does. The scripts of redis_rate are told
// the time, by which their times agree to the digit.
func TestKnownScriptsAsOnRedis(t *testing.T) {
	o := newOracle(t)
	for _, known := range script.Known() {
		if known.Everything {
			continue // a test of the server has it
		}
		t.Run(known.Library+" "+known.Name+" "+known.Digest.String(), func(t *testing.T) {
			text := scripttext.Of(t, known.Digest.String())
			s := &subject{script: script.Find(known.Digest), clock: timeCall.MatchString(text)}
			text = timeCall.ReplaceAllLiteralString(text, "{ARGV[5], ARGV[6]}")
			text = strings.ReplaceAll(text, "server.call", "redis.call") // which Redis does not have
			s.sha1 = o.ask(t, []string{"SCRIPT", "LOAD", text})[0].bulk
			require.Len(t, s.sha1, 40)
			require.Contains(t, usualArguments, known.Digest.String())
			rapid.Check(t, func(t *rapid.T) {
				sc := drawScene(t, s.script)
				clock := []int64{1763796000_123456000}
				for range sc.calls {
					step := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1e9), rapid.Int64Range(0, 100e9)).Draw(t, "step")
					clock = append(clock, clock[len(clock)-1]+step)
				}
				difference := ""
				for range 3 {
					if difference = o.play(t, s, sc, clock); difference == "" {
						return
					}
				}
				t.Fatalf("%v: %s", sc.setups, difference)
			})
		})
	}
}
