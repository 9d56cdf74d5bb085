package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ask is a case of the comparison: a command that is sent to a server repeatedly.
type ask struct {
	flag   string   // its name in --peer
	server string   // the rival
	name   string   // unique among the server's
	args   []string // in the notation of redis-benchmark: randInt stands for a random number
	script string   // the script whose hash is in args
}

// randInt is the placeholder that redis-benchmark replaces with twelve digits.
const randInt = "__rand_int__"

func (a *ask) id() string { return a.server + " " + a.name }

// touchesKeys reports whether the command uses a key.
func (a *ask) touchesKeys() bool { return strings.Contains(strings.Join(a.args, " "), randInt) }

// Names of the rivals that this program starts.
const (
	nameCellserver = "cellserver"
	nameNoise      = "noise" // a second cellserver
	nameRedis      = "Redis"
)

// Every request of the limiters is admitted, and so writes its bucket, which is the most expensive case. One request takes
// a minute to be paid back, so buckets do not expire during a measurement.
var (
	askThrottle = &ask{flag: "throttle", server: nameCellserver, name: "CL.THROTTLE",
		args: strings.Fields("CL.THROTTLE t:__rand_int__ 1000000 1 60")}
	askWindow = &ask{flag: "window", server: nameCellserver, name: "CL.WINDOW",
		args: strings.Fields("CL.WINDOW w:__rand_int__ 1000000 3600")}
	askSlide = &ask{flag: "zslide", server: nameCellserver, name: "CL.ZSLIDE",
		args: strings.Fields("CL.ZSLIDE z:__rand_int__ 100 60")}
	askAll = &ask{flag: "all", server: nameCellserver, name: "CL.ALL of two",
		args: strings.Fields("CL.ALL THROTTLE a:__rand_int__ 1000000 1 60 1 WINDOW b:__rand_int__ 1000000 3600 1")}
	askPing  = &ask{flag: "ping", server: nameCellserver, name: "PING", args: []string{"PING"}}
	askNoise = &ask{server: nameNoise, name: "CL.THROTTLE", args: askThrottle.args}

	askGCRA       = lua("gcra", "GCRA in Lua", luaGCRA, "t:__rand_int__ 1000000 1 60 1")
	askLuaWindow  = lua("luawindow", "fixed window in Lua", luaWindow, "w:__rand_int__ 1000000 3600")
	askLuaList    = lua("list", "rolling list in Lua", luaList, "l:__rand_int__ 100 60")
	askLuaSet     = lua("zset", "sorted set in Lua", luaSortedSet, "z:__rand_int__ 100 60")
	askSet        = &ask{flag: "set", server: nameRedis, name: "SET", args: strings.Fields("SET s:__rand_int__ xxx")}
	askIncr       = &ask{flag: "incr", server: nameRedis, name: "INCR", args: strings.Fields("INCR i:__rand_int__")}
	askRedisPing  = &ask{server: nameRedis, name: "PING", args: []string{"PING"}}
	alwaysAsked   = []*ask{askThrottle, askWindow, askSlide, askAll, askPing, askNoise, askGCRA, askLuaWindow, askLuaList, askLuaSet, askSet, askIncr, askRedisPing}
	latencyAsked  = []*ask{askThrottle, askNoise, askSet, askGCRA}
	askFillOurs   = strings.Fields("CL.THROTTLE k:__rand_int__ 1000000 1 60 1440") // a day of debt
	askFillRedis  = strings.Fields("SET k:__rand_int__ 1763650000123456 PX 86400000")
	askTouchOurs  = strings.Fields("CL.THROTTLE k:__rand_int__ 1000000 1 60")
	askTouchRedis = askFillRedis
	askDyingOurs  = strings.Fields("CL.THROTTLE e:__rand_int__ 1000000000 1000 1") // a thousand per second
	askDyingRedis = strings.Fields("SET e:__rand_int__ 1763650000123456 PX")
)

// The scripts are what people use today, each written as well as a few lines allow, and use the clock of the server.
const (
	// Arguments: key max_burst count period quantity. The reply is that of CL.THROTTLE. The key holds the TAT in microseconds.
	luaGCRA = `local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local limit = ARGV[1] + 1
local interval = ARGV[3] * 1000000 / ARGV[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + interval * ARGV[4]
local room = now + interval * limit - new
if room < 0 then
  return {1, limit, math.floor((room + new - tat) / interval), math.ceil(-room / 1000000), math.ceil((tat - now) / 1000000)}
end
redis.call('SET', KEYS[1], string.format('%.0f', new), 'PX', math.ceil((new - now) / 1000))
return {0, limit, math.floor(room / interval), -1, math.ceil((new - now) / 1000000)}`

	// Arguments: key limit period. The reply is 1 if the request is admitted. The same holds for the scripts that follow.
	luaWindow = `if redis.call('SET', KEYS[1], 1, 'NX', 'EX', ARGV[2]) then return 1 end
if tonumber(redis.call('GET', KEYS[1])) >= tonumber(ARGV[1]) then return 0 end
redis.call('INCR', KEYS[1])
return 1`

	luaList = `local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local oldest = redis.call('LINDEX', KEYS[1], ARGV[1] - 1)
if oldest and now - oldest <= ARGV[2] * 1000000 then return 0 end
redis.call('LPUSH', KEYS[1], string.format('%.0f', now))
if oldest then redis.call('RPOP', KEYS[1]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1`

	luaSortedSet = `local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[2] * 1000000))
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
local time = string.format('%.0f', now)
redis.call('ZADD', KEYS[1], time, time)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1`
)

// lua returns an ask that runs a script with one key.
func lua(flag, name, script, args string) *ask {
	hash := sha1.Sum([]byte(script))
	return &ask{flag: flag, server: nameRedis, name: name, script: script,
		args: append([]string{"EVALSHA", hex.EncodeToString(hash[:]), "1"}, strings.Fields(args)...)}
}

// rival is a server in the comparison.
type rival struct {
	name    string
	addr    string
	tlsPort string   // "" for none
	s       *session // nil for a peer, which this program neither starts nor stops
	control *conn
	end     func(*error)
}

// peer is a server that --peer names.
type peer struct {
	name, addr string
	asks       []*ask
}

// parsePeer reads name=address,command,... A command is the name of an ask, or written as for redis-benchmark.
func parsePeer(text string) (p peer, err error) {
	name, rest, ok := strings.Cut(text, "=")
	parts := strings.Split(rest, ",")
	if !ok || name == "" || len(parts) < 2 {
		return p, fmt.Errorf("%q is not of the form name=address,command", text)
	}
	if slices.Contains([]string{nameCellserver, nameNoise, nameRedis}, name) {
		return p, fmt.Errorf("%q is a name that is taken", name)
	}
	p.name, p.addr = name, parts[0]
	if _, _, err := net.SplitHostPort(p.addr); err != nil {
		return p, err
	}
	for _, command := range parts[1:] {
		args := strings.Fields(command)
		if len(args) == 0 {
			return p, fmt.Errorf("%q has an empty command", text)
		}
		a := &ask{server: name, name: strings.Join(args, " "), args: args}
		if i := slices.IndexFunc(alwaysAsked, func(a *ask) bool { return a.flag != "" && a.flag == command }); i >= 0 {
			known := alwaysAsked[i]
			a.name, a.args, a.script = known.name, known.args, known.script
		}
		if slices.ContainsFunc(p.asks, func(other *ask) bool { return other.name == a.name }) {
			return p, fmt.Errorf("%q has %q twice", text, command)
		}
		p.asks = append(p.asks, a)
	}
	return p, nil
}

// join connects to a peer.
func (p peer) join() (*rival, error) {
	c, err := dial(p.addr)
	if err == nil {
		_, err = c.do("PING")
	}
	if err != nil {
		return nil, fmt.Errorf("the peer %s: %w", p.name, err)
	}
	return &rival{name: p.name, addr: p.addr, control: c, end: func(*error) { c.close() }}, nil
}

// redisCommand returns the command that starts a Redis without persistence, unless args ask for it.
func redisCommand(path, port, dir string, args ...string) *exec.Cmd {
	return exec.Command(path, append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--logfile", "", "--dir", dir}, args...)...)
}

// rivals are the servers of one part, by name. They start and end together.
type rivals map[string]*rival

// open starts a server under a name. With tls, its options for TLS, the server gets a second port.
func (all rivals) open(ctx context.Context, l *lab, name string, tls []string,
	command func(port string, args ...string) *exec.Cmd) error {
	r := &rival{name: name}
	failed := error(nil)
	s, end, err := l.open(ctx, func(port string) *exec.Cmd {
		if tls == nil {
			return command(port)
		}
		r.tlsPort, failed = freePort()
		return command(port, append([]string{"--tls-port", r.tlsPort}, tls...)...)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.s, r.addr, r.control, r.end = s, s.addr, s.control, end
	all[name] = r
	return failed
}

// close stops all servers. It adds to the error why a server ended early.
func (all rivals) close(failed *error) {
	for _, r := range all {
		r.end(failed)
	}
}

// own reports whether this program started the server and so may flush it.
func (r *rival) own() bool { return r.s != nil }

// cpu returns the processor time of the server. For a peer it comes from INFO.
func (r *rival) cpu() (time.Duration, error) {
	if r.own() {
		return processTime(r.s.pid)
	}
	fields, err := r.control.info("cpu")
	if err != nil {
		return 0, err
	}
	total := 0.0
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		v, err := strconv.ParseFloat(fields[name], 64)
		if err != nil {
			return 0, fmt.Errorf("the peer %s: INFO cpu: %s is %q", r.name, name, fields[name])
		}
		total += v
	}
	return time.Duration(total * float64(time.Second)), nil
}

// rss returns the resident bytes of the server.
func (r *rival) rss() (int64, error) {
	if r.own() {
		now, _, err := residentNow(r.s.pid)
		return now, err
	}
	return r.control.number("memory", "used_memory_rss")
}

// prepare brings the server into the state in which an ask is measured: exactly the keys of the ask exist, each used once.
// A peer keeps its other keys.
func (r *rival) prepare(ctx context.Context, a *ask, keys int64) error {
	if r.own() {
		if _, err := r.control.do("FLUSHALL"); err != nil {
			return err
		}
	}
	if a.script != "" {
		if _, err := r.control.do("SCRIPT", "LOAD", a.script); err != nil {
			return err
		}
	}
	if !a.touchesKeys() {
		return nil
	}
	_, err := fillLoad(a.args, 0, keys).run(ctx, r.addr)
	return err
}

// fillLoad returns a load that sends a command for the keys from (inclusive) to to (exclusive).
func fillLoad(args []string, from, to int64) *load {
	c := newRandomCommand(args)
	return &load{conns: loadConns, depth: loadDepth, total: to - from,
		command: func(b []byte, i int64, _ randSource) []byte { return c.appendTo(b, from+i) }}
}
