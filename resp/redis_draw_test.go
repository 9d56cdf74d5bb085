package resp_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// oneOfThese draws one of its arguments.
func oneOfThese[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// templates are the lines of conversations. A word in braces stands for a drawn value.
var templates = []string{
	"CL.WINDOW {key} {limit} 1000000", "CL.WINDOW {key} {limit} 1000000", "CL.WINDOW {key} {limit} 1000000", "CL.WINDOW {key} 5 1000000",
	"DEL {key}", "DEL {key} {key}", "UNLINK {key} {key}", "EXISTS {key}", "EXISTS {key} {key} {key}", "TOUCH {key} {key}",
	"TYPE {key}", "TTL {key}", "PTTL {key}", "EXPIRETIME {key}", "PEXPIRETIME {key}", "PERSIST {key}",
	"EXPIRE {key} {seconds}", "EXPIRE {key} {seconds} {if}", "PEXPIRE {key} {seconds}000", "PEXPIRE {key} {seconds}000 {if}",
	"EXPIREAT {key} {at}", "PEXPIREAT {key} {at}000 {if}", "EXPIREAT {key} 99999999999 LT", "EXPIRE {key} {integer}", "EXPIRE {key} {seconds} {if} {if}",
	"GET {counter}", "GET {counter}", "GET {key}", "SET {counter} {value}", "SET {counter} {value} {set}", "SET {counter} {value} {set} {set}",
	"SET {counter} {value} EX {seconds} {set}", "SETEX {counter} {seconds} {value}", "PSETEX {counter} {seconds}000 {value}", "SETNX {counter} {value}",
	"SETNX {key} {value}", "GETSET {counter} {value}", "GETDEL {counter}", "GETEX {counter}", "GETEX {counter} EX {seconds}", "GETEX {counter} {get}",
	"MGET {counter} {counter} c", "MSET {counter} {value} {counter} {value}", "STRLEN {counter}", "INCR {counter}", "INCR {counter}",
	"INCRBY {counter} {value}", "INCRBY {counter} {integer}", "DECR {counter}", "DECRBY {counter} {value}", "DECRBY {counter} {integer}",
	"EXPIRE {counter} {seconds}", "EXPIRE {counter} {seconds} {if}", "PERSIST {counter}", "TTL {counter}", "TYPE {counter}", "OBJECT ENCODING {counter}",
	"DEL {counter} {key}", "RENAME {counter} {counter}", "WATCH {counter}", "SCAN 0 TYPE string", "EXPIRETIME {counter}",
	"SET {counter} {integer}", "SETEX {counter} {integer} 1", "GETEX {counter} EX {integer}", "COMMAND GETKEYSANDFLAGS SET {counter} 1 {set}",
	"RENAME {key} {key}", "RENAMENX {key} {key}", "KEYS {pattern}", "DBSIZE", "RANDOMKEY", "SCAN 0", "SCAN 0 MATCH {pattern}",
	"SCAN {integer}", "SCAN 0 COUNT {integer}", "SCAN 0 COUNT 100 MATCH {pattern} TYPE none",
	"OBJECT ENCODING {key}", "OBJECT REFCOUNT {key}", "FLUSHALL", "FLUSHDB {word}", "MEMORY USAGE {key} SAMPLES {integer}",
	"MULTI", "MULTI", "EXEC", "EXEC", "EXEC", "DISCARD", "WATCH {key}", "WATCH {key} {key}", "UNWATCH",
	"PING", "PING {word}", "ECHO {word}", "SELECT 0", "SELECT {database}", "SELECT {database}", "SELECT {database}", "SELECT {integer}",
	"MOVE {key} {database}", "MOVE {key} {database}", "MOVE {key} {integer}", "SWAPDB {database} {database}", "SWAPDB {database} {integer}",
	"INFO keyspace", "HELLO 2", "HELLO 3", "HELLO 3", "HELLO {integer}",
	"HELLO 3 SETNAME {word}", "HELLO 3 AUTH u p", "HELLO 2 AUTH u {word} SETNAME {word}", "RESET",
	"CLIENT SETNAME {word}", "CLIENT GETNAME", "CLIENT LIST", "CLIENT INFO", "CLIENT LIST ID {integer}", "CLIENT LIST TYPE {word}",
	"CLIENT NO-EVICT {word}", "CLIENT NO-EVICT on", "CLIENT KILL USER u", "CLIENT KILL ID 99999999", "CLIENT KILL {word}", "CLIENT KILL USER {word}",
	"CLIENT TRACKING OFF", "CLIENT CACHING {word}", "CLIENT UNPAUSE",
	"AUTH u p", "AUTH u p", "AUTH u {word}", "AUTH {word}", "AUTH default {word}", "AUTH u p x",
	"ACL WHOAMI", "ACL USERS", "ACL DELUSER u", "ACL DELUSER {word}", "ACL SETUSER u on >p {rule} {rule}",
	"ACL SETUSER u {rule} {rule} {rule}", "ACL SETUSER u reset", "ACL DRYRUN u {command} {key}", "ACL DRYRUN u RENAME {key} {key}",
	"ACL DRYRUN {word} ping", "ACL SETUSER u {word}",
	"COMMAND GETKEYS {command} {key} {key}", "COMMAND INFO {command}", "COMMAND COUNT", "COMMAND GETKEYS EXISTS {key} {key}",
	"TIME", "INFO {word}", "LOLWUT VERSION {integer}", "CONFIG GET {word}", "CONFIG RESETSTAT",
	"SLOWLOG LEN {word}", "SLOWLOG GET {integer}", "LATENCY RESET", "READONLY", "READWRITE", "MODULE {word}",
	"CLUSTER INFO", "CLUSTER {word}", "OBJECT {word} {key}", "CLIENT {word}", "CLIENT {word} {word}", "foo {word} {integer}",
}

var drawn = map[string][]string{
	"key":      {"a", "b", "aa", `""`, `"\x00\xff"`, "b"},
	"counter":  {"n", "m", "n", "m", `"\x00n"`},
	"value":    {"0", "1", "-1", "7", "100", "9223372036854775807", "-9223372036854775808"},
	"set":      {"NX", "XX", "GET", "KEEPTTL", "EX 5000", "PX 7000000", "EX 0", "EX x", "PX", "xx", "foo"},
	"get":      {"PERSIST", "EX 5000", "PX 7000000", "EXAT 1", "EX 0", "KEEPTTL", "EX", "persist"},
	"limit":    {"1", "2", "3"},
	"database": {"0", "0", "1", "2", "15", "16"},
	"seconds":  {"-1", "0"},
	"at":       {"1", "0", "-5"},
	"if":       {"NX", "XX", "GT", "LT", "gt", "lt", "xx", "x"},
	"integer": {"0", "1", "-1", "+1", "01", "-0", "x", `""`, "1.0", " 1", "9223372036854775807", "9223372036854775808",
		"-9223372036854775808", "-9223372036854775809", "18446744073709551615", "1e3", "2147483648", "10", "00"},
	"pattern": {"*", "a*", "?", "[ab]", "[^a]*", `\a`, "**", "a", `""`, "*a*a*", "["},
	"word":    {"foo", `""`, "a b", `"a b"`, `"a\r\nb"`, "ON", "off", "YES", "NO", "SYNC", "{x*130}", `"\x00"`, `"\xff"`, "normal", "default", "u"},
	"rule": {"on", "off", "~a*", "~*", "~b", "%R~a", "%W~b", "resetkeys", "allkeys", "+@all", "-@all", "+@read", "+@write", "-@dangerous",
		"+@keyspace", "+ttl", "-ttl", "+client|id", "-client|list", "+client", "+acl|whoami", "+ping", "-del", "allcommands", "nocommands",
		"nopass", "resetpass", ">p", "<p", "+get", "-debug", "+foo", "+@foo", "(+ttl ~b)", "(-@all +del ~a)", "clearselectors", "sanitize-payload"},
	"command": {"DEL", "TTL", "expire", "PING", "RENAME", "foo", "CLIENT", "OBJECT", "KEYS", "client|id", "EXEC", "FLUSHALL"},
}

var hole = regexp.MustCompile(`\{[a-z]+\}`)

func drawLine(r *rand.Rand) string {
	if r.IntN(6) == 0 {
		if line := oneOfThese(r, alike...); !asksOnlyOnce.MatchString(line) {
			return spoilWords(r, line)
		}
	}
	line := hole.ReplaceAllStringFunc(oneOfThese(r, templates...), func(h string) string {
		if h == "{seconds}" && r.IntN(4) > 0 { // equal deadlines would differ or not depending on the millisecond
			return strconv.Itoa(1000 + r.IntN(500_000))
		}
		return oneOfThese(r, drawn[h[1:len(h)-1]]...)
	})
	if r.IntN(8) == 0 && !strings.HasPrefix(line, "CL.") && !strings.HasPrefix(line, "PERSIST") {
		line = spoilWords(r, line)
	}
	if asksOnlyOnce.MatchString(line) {
		return "PING"
	}
	return line
}

// asksOnlyOnce are lines that leave state for other scripts, take long, or end the connection. Since Redis 7.2, HELLO sets no
// name if a later argument is wrong.
var asksOnlyOnce = regexp.MustCompile(`(?i)\A(CONFIG SET|HELLO .* SETNAME \S+ .*|CLIENT (REPLY|PAUSE)|QUIT|WAIT|ACL SETUSER ([^u]|u\S))|\*\d{4,}`)

// asksToBeAnother are lines after which a connection may have another user.
var asksToBeAnother = regexp.MustCompile(`(?i)\AAUTH|\AHELLO.*AUTH`)

// spoilWords changes a line: it omits, repeats or replaces a word.
func spoilWords(r *rand.Rand, line string) string {
	words := strings.Fields(line)
	if len(words) == 0 || strings.Contains(line, `" `) { // lines with quoted words stay as they are
		return line
	}
	at := r.IntN(len(words))
	switch r.IntN(5) {
	case 0:
		if at > 0 {
			words = append(words[:at], words[at+1:]...)
		}
	case 1:
		words = append(words, words[at])
	case 2:
		words[at] = strings.ToLower(words[at])
	case 3:
		if at > 0 {
			words[at] = oneOfThese(r, drawn[oneOfThese(r, "integer", "word", "key")]...)
		}
	default:
		words = append(words, oneOfThese(r, drawn[oneOfThese(r, "integer", "word", "key")]...))
	}
	if line = strings.Join(words, " "); asksOnlyOnce.MatchString(line) {
		return "PING"
	}
	return line
}

func drawConversation(r *rand.Rand) (script []string) {
	monitor := r.IntN(4) == 0
	if r.IntN(3) == 0 && !monitor { // a user with restricted rights
		script = append(script, "0 ACL SETUSER u on >p "+oneOfThese(r, "~a*", "~*", "~b", "%R~*")+" "+
			oneOfThese(r, "+@all", "+@read +@connection", "+@all -@dangerous", "+@all -@write", "+ttl +expire +multi +exec +watch"), "1 AUTH u p")
	}
	if r.IntN(10) == 0 {
		script = append(script, "1 CLIENT SETNAME c1", "0+ CLIENT KILL USER u", "0 CLIENT LIST")
	}
	if monitor {
		script = append(script, "2 MONITOR")
	}
	for range 3 + r.IntN(30) {
		line := drawLine(r)
		if monitor && (strings.HasPrefix(line, "CL.") || strings.HasPrefix(strings.ToUpper(line), "PERSIST")) {
			line = "WATCH a" // a monitor would show the command that replaces this one in Redis
		}
		conn := oneOfThese(r, "0", "0", "1", "2")
		if monitor && conn == "2" {
			conn = "0"
		}
		if strings.HasPrefix(line, "CL.") || strings.HasPrefix(strings.ToUpper(line), "PERSIST") {
			conn = "0" // the command that replaces this one in Redis needs more rights than the user may have
		} else if conn == "0" && asksToBeAnother.MatchString(line) {
			conn = "1"
		}
		switch r.IntN(8) {
		case 0, 1:
			conn += "+"
		case 2:
			conn += "| " + strconv.Itoa(1+r.IntN(20))
		}
		script = append(script, conn+" "+line)
	}
	if r.IntN(2) == 0 && !monitor {
		script = append(script, oneOfThese(r, "0", "1")+"! "+strconv.Quote(drawBytes(r)))
	}
	return script
}

// drawBytes draws frames and damages them.
func drawBytes(r *rand.Rand) string {
	var text string
	if r.IntN(3) == 0 {
		for _, frame := range []string{oneOfThese(r, frames...), oneOfThese(r, frames...)} {
			if !strings.Contains(frame, "CL.") && len(frame) < 1000 && !regexp.MustCompile(`(?i)CLIENT REPLY|CONFIG SET|COMMAND|INFO|HELLO|LOLWUT|MEMORY|SCAN|MODULE|EVAL|CLIENT LIST|RANDOMKEY`).MatchString(frame) {
				text += frame
			}
		}
	}
	for range 1 + r.IntN(5) {
		switch line := oneOfThese(r, "PING", "ECHO hi", "TTL k", "FOO a b", "EXISTS a b", "DEL k", "TYPE k", "CLIENT GETNAME", "EXPIRE k x", "SELECT 0"); r.IntN(4) {
		case 0:
			text += line + oneOfThese(r, "\r\n", "\n")
		default:
			text += string(multibulk(strings.Fields(line)...))
		}
	}
	b := []byte(text)
	for range r.IntN(4) {
		if len(b) < 2 {
			break
		}
		at := r.IntN(len(b))
		switch r.IntN(6) {
		case 0:
			b = append(b[:at], b[at+1:]...)
		case 1:
			b[at] = oneOfThese[byte](r, '\r', '\n', '$', '*', '0', '1', '9', '-', '"', '\'', 0, ' ', 'x', 255, byte(r.IntN(256)))
		case 2:
			b = append(b[:at], append([]byte(oneOfThese(r, "\r", "\n", "0", "9", "*1\r\n", "$0\r\n", "-", "+", " ", "\x00", "\"", "*0\r\n", "*-1\r\n")), b[at:]...)...)
		case 3:
			b = b[:at]
		case 4:
			b = append(b[:at], append([]byte(fmt.Sprint(r.Int64())), b[at:]...)...)
		case 5:
			to := min(len(b), at+1+r.IntN(10))
			b = append(append(append([]byte{}, b[:to]...), b[at:to]...), b[to:]...)
		}
	}
	return string(b)
}
