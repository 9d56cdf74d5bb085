package resp_test

// These tests send the same commands to a real Redis and to this server. The replies must have the same bytes, except for the
// differences that are listed here with their reasons.

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
	"cellserver/resp"
	"cellserver/resp/frame"
)

// theEnd ends a conversation so that all replies arrive, however many they are.
const theEnd = "*1\r\n$4\r\nQUIT\r\n"

// askRedis sends a conversation on a new connection and returns everything that comes back. If the conversation lacks theEnd,
// askRedis closes the sending side. Redis then drops replies that it could not send at once, so they have to be short.
func askRedis(t *testing.T, socket, conversation string) string {
	t.Helper()
	nc, err := net.Dial("unix", socket)
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		io.WriteString(nc, conversation) // fails if Redis closes the connection before it has read everything
		if !strings.HasSuffix(conversation, theEnd) {
			nc.(*net.UnixConn).CloseWrite()
		}
	}()
	reply, err := io.ReadAll(nc)
	if !errors.Is(err, syscall.ECONNRESET) { // closed while there was more to read
		require.NoError(t, err)
	}
	<-sent
	return string(reply)
}

// askOurs sends a conversation to a new server of ours.
func askOurs(conversation string) string {
	now := int64(1_700_000_123) * 1e9
	return string(resp.NewTestConn(newQuiet(8, &now), now).Feed(now, []byte(conversation)))
}

// words returns the multibulks of lines, whose words are quoted as in inline commands and may contain {x*3}.
func words(t *testing.T, lines ...string) string {
	t.Helper()
	var b []byte
	for _, line := range lines {
		split, ok := frame.SplitArgs(line)
		require.True(t, ok, line)
		for i := range split {
			split[i] = repeat(split[i])
		}
		b = append(b, multibulk(split...)...)
	}
	return string(b)
}

// alike lists commands with the same replies, each on a new connection. A PING, which shows that the connection is still open,
// and a QUIT follow each command.
var alike = []string{
	// Unknown commands.
	`foo`,
	`FOO a b c`,
	`foo "" ""`,
	`""`,
	`"" a`,
	`{x*127}`, `{x*128}`, `{x*129}`, `{x*5000}`,
	`foo {a*125}`, `foo {a*126}`, `foo {a*127}`, `foo {a*128}`, `foo {a*129} b`, `foo {a*5000} b`,
	`foo {a*122} b c`, `foo {a*123} b c`, `foo {a*124} b c`, `foo {a*125} b c`, `foo {a*126} b c`,
	`foo a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z`,
	`"foo\r\nbar" a`,
	`foo "a\r\nb" "\r\n" "\n"`,
	`"\r\n"`,
	`"foo\x00bar" a`,
	`foo "a\x00b" "\x00" c`,
	`foo "\x01\x7f\xff" "\xc3\xa9"`,
	`foo 'a b' "'"`,
	`%s %d %n`,
	`foo %s%n %d`,
	`client|id`,

	// Arity.
	`ECHO`, `ECHO a b`,
	`PING a b`, `PING a b c`,
	`SELECT`, `SELECT 0 1`,
	`TTL`, `TTL a b`, `PTTL`, `EXPIRETIME`, `PEXPIRETIME a b`, `TYPE`, `TYPE a b`,
	`DEL`, `UNLINK`, `EXISTS`, `TOUCH`, `KEYS`, `KEYS a b`, `SCAN`, `RENAME a`, `RENAMENX a b c`, `RANDOMKEY a`,
	`DBSIZE a`, `TIME a`, `EXPIRE a`, `PEXPIRE`, `EXPIREAT a`, `PEXPIREAT a`, `PERSIST`, `PERSIST a b`,
	`WAIT`, `WAIT 1`, `WAIT 1 2 3`, `RESET a`, `READONLY a`, `READWRITE a`,
	`CLIENT`, `CLIENT ID a`, `CLIENT SETNAME`, `CLIENT SETNAME a b`, `CLIENT GETNAME a`, `CLIENT REPLY`,
	`CLIENT REPLY ON OFF`, `CLIENT NO-EVICT`, `CLIENT NO-EVICT on off`, `CLIENT INFO a`, `CLIENT CACHING`,
	`CLIENT CACHING yes no`, `CLIENT TRACKING`, `client id x`, `CLIENT HELP a`,
	`CONFIG`, `CONFIG GET`, `CONFIG SET`, `CONFIG SET a`, `CONFIG RESETSTAT a`, `CONFIG HELP a`,
	`OBJECT`, `OBJECT ENCODING`, `OBJECT ENCODING a b`, `OBJECT REFCOUNT`, `OBJECT HELP a`,
	`MEMORY`, `MEMORY USAGE`, `MEMORY DOCTOR a`, `MEMORY STATS a`, `MEMORY PURGE a`, `MEMORY HELP a`,
	`COMMAND COUNT a`, `COMMAND GETKEYS`, `COMMAND HELP a`,
	`MODULE`, `MODULE LIST a`, `MODULE HELP a`,
	`CLUSTER`, `CLUSTER INFO a`,

	// Subcommands.
	`CLIENT FOO`, `client foo`, `CLIENT ""`, `Client {x*200} a`, `CLIENT "a\r\nb"`, `CLIENT "a\x00b"`,
	`CLIENT id|x`, `CLIENT client|id`,
	`CONFIG FOO a b`, `OBJECT FOO a`, `MEMORY FOO`, `COMMAND FOO`, `MODULE FOO`, `CLUSTER FOO`, `command |`,

	// Connections.
	`PING`, `ping`, `PING hello`, `PING ""`, `PING "\r\n\x00"`, `PING {x*100000}`,
	`ECHO hello`, `ECHO ""`, `ECHO {x*100000}`,
	`SELECT 0`, `SELECT x`, `SELECT ""`, `SELECT -1`, `SELECT 99999`, `SELECT 1.0`, `SELECT " 0"`,
	`SELECT 99999999999`, `SELECT 9223372036854775808`, `SELECT 1`, `SELECT 15`, `SELECT 16`, `SELECT 2147483647`, `SELECT 2147483648`,
	`QUIT`, `quit`, `QUIT a b`,
	`RESET`,
	`HELLO x`, `HELLO ""`, `HELLO 1`, `HELLO 4`, `HELLO -3`, `HELLO 0`, `HELLO 9223372036854775808`, `HELLO 2.0`,
	`HELLO 3 FOO`, `HELLO 3 ""`, `HELLO 3 AUTH`, `HELLO 3 AUTH default`, `HELLO 3 SETNAME`, `HELLO 3 FOO a b`,
	`HELLO 3 SETNAME "a b"`, `HELLO 3 SETNAME "a\nb"`, `HELLO 3 AUTH nobody secret`, `HELLO x FOO`, `HELLO 5 FOO`,
	`HELLO 3 SETNAME a AUTH nobody secret`, `HELLO 3 AUTH nobody secret SETNAME "a b"`, `HELLO 3 "a\r\nb"`,
	`HELLO 3 {x*200}`, `CLIENT LIST TYPE {x*200}`, `SELECT {1*200}`, `SCAN {1*200}`, `EXPIRE a {1*200}`,
	`CLIENT GETNAME`, `CLIENT SETNAME a`, `CLIENT SETNAME ""`, `CLIENT SETNAME "a b"`, `CLIENT SETNAME "\x7f"`,
	`CLIENT SETNAME "\xc3\xa9"`, `CLIENT SETNAME "a\x00b"`, `CLIENT SETNAME !~`,
	`CLIENT REPLY FOO`, `CLIENT REPLY ""`, `CLIENT REPLY ON`, `CLIENT REPLY SKIP`,
	`CLIENT NO-EVICT FOO`, `CLIENT NO-EVICT on`, `CLIENT NO-EVICT OFF`,
	`CLIENT LIST FOO`, `CLIENT LIST TYPE`, `CLIENT LIST TYPE FOO`, `CLIENT LIST TYPE ""`, `CLIENT LIST TYPE a b`,
	`CLIENT LIST TYPE replica`, `CLIENT LIST TYPE slave`, `CLIENT LIST TYPE master`, `CLIENT LIST TYPE pubsub`,
	`CLIENT LIST ID`, `CLIENT LIST ID x`, `CLIENT LIST ID 999999`, `CLIENT LIST ID 999999 x`, `CLIENT LIST ID 0`,
	`CLIENT LIST ID -1`, `CLIENT LIST ID 9223372036854775808`, `CLIENT LIST TYPE "a\r\nb"`,
	`CLIENT CACHING YES`, `CLIENT CACHING FOO`, `CLIENT TRACKING OFF`, `CLIENT TRACKING OFF OPTIN`,
	`CLIENT TRACKING FOO`, `CLIENT TRACKING ON FOO`, `CLIENT TRACKING ON OPTIN REDIRECT`, `CLIENT TRACKINGINFO`,
	`CLIENT TRACKINGINFO a`, `CLIENT GETREDIR`, `CLIENT GETREDIR a`, `CLIENT UNBLOCK`, `CLIENT UNBLOCK 99999`,
	`CLIENT UNBLOCK 99999 TIMEOUT`, `CLIENT UNBLOCK 99999 error`, `CLIENT UNBLOCK 99999 FOO`, `CLIENT UNBLOCK x FOO`,
	`CLIENT UNBLOCK 99999 ERROR x`,
	`CLIENT MAINT_NOTIFICATIONS ON`,

	// Keys that do not exist.
	`EXISTS a`, `EXISTS a b a`, `DEL a b`, `UNLINK a`, `TOUCH a b`, `TYPE a`, `TTL a`, `PTTL a`, `EXPIRETIME a`,
	`PEXPIRETIME a`, `PERSIST a`, `RENAME a b`, `RENAME a a`, `RENAMENX a b`, `RENAMENX a a`,
	`OBJECT ENCODING a`, `OBJECT REFCOUNT a`, `MEMORY USAGE a`, `MEMORY USAGE a SAMPLES 5`, `MEMORY USAGE a SAMPLES`,
	`MEMORY USAGE a FOO 5`, `MEMORY USAGE a SAMPLES x`, `MEMORY USAGE a SAMPLES -1`, `MEMORY USAGE a SAMPLES 1 FOO`,
	`MEMORY USAGE a SAMPLES 1 SAMPLES 2`,
	`KEYS *`, `KEYS a`, `KEYS ""`, `DBSIZE`, `RANDOMKEY`, `TTL ""`, `TTL {x*10000}`,
	`FLUSHALL`, `FLUSHALL SYNC`, `FLUSHALL async`, `FLUSHALL FOO`, `FLUSHALL SYNC ASYNC`, `FLUSHALL ""`,
	`FLUSHDB`, `FLUSHDB SYNC`, `FLUSHDB FOO`, `FLUSHDB SYNC SYNC`,

	// Databases.
	`MOVE`, `MOVE a`, `MOVE a 1 2`, `MOVE a 1`, `MOVE a 0`, `MOVE a 15`, `MOVE a 16`, `MOVE a -1`, `MOVE a x`, `MOVE a ""`, `MOVE a 01`,
	`MOVE a 99999999999`, `MOVE a 2147483648`, `MOVE "" 1`,
	`SWAPDB`, `SWAPDB 1`, `SWAPDB 1 2 3`, `SWAPDB 0 1`, `SWAPDB 0 0`, `SWAPDB x y`, `SWAPDB 0 y`, `SWAPDB x 0`, `SWAPDB 16 0`, `SWAPDB 0 16`,
	`SWAPDB -1 0`, `SWAPDB 0 -1`, `SWAPDB 99999999999 0`, `SWAPDB 0 99999999999`, `SWAPDB 99 x`, `SWAPDB 16 16`, `SWAPDB "" ""`,
	`COMMAND GETKEYS move a 1`, `COMMAND GETKEYSANDFLAGS move a 1`, `COMMAND GETKEYS swapdb 0 1`,

	// EXPIRE and similar commands.
	`EXPIRE a 10`, `EXPIRE a -10`, `EXPIRE a 0`, `PEXPIRE a 10`, `EXPIREAT a 10`, `PEXPIREAT a 10`,
	`EXPIRE a x`, `EXPIRE a ""`, `EXPIRE a 1.5`, `EXPIRE a " 1"`, `EXPIRE a "1 "`, `EXPIRE a 0x10`, `EXPIRE a 1e3`,
	`EXPIRE a 9223372036854775807`, `EXPIRE a 9223372036854775808`, `EXPIRE a -9223372036854775808`,
	`EXPIRE a -9223372036854775809`, `EXPIRE a 9223372036854775`, `EXPIRE a 9223372036854776`,
	`EXPIRE a -9223372036854775`, `EXPIRE a -9223372036854776`, `EXPIRE a 9223370000000000`,
	`PEXPIRE a 9223372036854775807`, `PEXPIRE a -9223372036854775808`, `PEXPIRE a 9223370000000000000`,
	`EXPIREAT a 9223372036854775807`, `EXPIREAT a 9223372036854775`, `EXPIREAT a 9223372036854776`,
	`EXPIREAT a -9223372036854776`, `PEXPIREAT a 9223372036854775807`, `PEXPIREAT a -9223372036854775808`,
	`EXPIRE a 10 NX`, `EXPIRE a 10 xx`, `EXPIRE a 10 Gt`, `EXPIRE a 10 LT`, `EXPIRE a 10 XX GT`, `EXPIRE a 10 NX NX`,
	`EXPIRE a 10 XX LT XX`, `EXPIRE a 10 NX XX`, `EXPIRE a 10 NX GT`, `EXPIRE a 10 LT NX`, `EXPIRE a 10 GT LT`,
	`EXPIRE a 10 NX GT LT`, `EXPIRE a 10 XX GT LT`, `EXPIRE a 10 FOO`, `EXPIRE a 10 ""`, `EXPIRE a 10 NX FOO`,
	`EXPIRE a 10 NX XX FOO`, `EXPIRE a 10 "a\r\nb"`, `EXPIRE a 10 {x*5000}`, `PEXPIREAT a 10 foo`,
	`EXPIRE a x FOO`, `EXPIRE a x NX XX`, `EXPIRE a 9223372036854775807 FOO`, `PEXPIRE a x GT LT`,

	// SCAN.
	`SCAN 0`, `SCAN 0 COUNT 10`, `SCAN 0 MATCH *`, `SCAN 0 TYPE string`, `SCAN 0 match x count 1 type y`,
	`SCAN x`, `SCAN 1x`, `SCAN " 1"`, `SCAN "1 "`, `SCAN 1.0`, `SCAN 18446744073709551616`, `SCAN x FOO`,
	`SCAN 0 FOO`, `SCAN 0 FOO a`, `SCAN 0 COUNT`, `SCAN 0 MATCH`, `SCAN 0 TYPE`, `SCAN 0 COUNT 0`, `SCAN 0 COUNT -1`,
	`SCAN 0 COUNT x`, `SCAN 0 COUNT ""`, `SCAN 0 COUNT 9223372036854775808`, `SCAN 0 COUNT 10 COUNT`,
	`SCAN 0 COUNT 0 FOO`, `SCAN 0 FOO COUNT 0`, `SCAN 0 COUNT x FOO`,

	// The server.
	`COMMAND GETKEYS foo a`,
	`COMMAND GETKEYS ping a`, `COMMAND GETKEYS ttl a b`, `COMMAND GETKEYS ttl a`,
	`COMMAND GETKEYS del a b c`, `COMMAND GETKEYS RENAME a b`, `COMMAND GETKEYS client id`,
	`COMMAND GETKEYS client id a`, `COMMAND GETKEYS client foo`, `COMMAND GETKEYS object encoding a`,
	`COMMAND GETKEYS memory usage a samples 1`, `COMMAND GETKEYS expire a 10 NX`, `COMMAND GETKEYS scan 0`,
	`COMMAND GETKEYS object encoding`, `COMMAND GETKEYS keys *`,
	`COMMAND GETKEYS eval x 0`, `COMMAND GETKEYS eval x 0 a`, `COMMAND GETKEYS eval x 1 a b`, `COMMAND GETKEYS eval x 2 a`, `COMMAND GETKEYS eval x -1 a`,
	`COMMAND GETKEYS eval_ro x y a`, `COMMAND GETKEYS evalsha x 0`, `COMMAND GETKEYS evalsha_ro x 2 a b`, `COMMAND GETKEYS eval x`,
	`COMMAND GETKEYSANDFLAGS eval x 0`, `COMMAND GETKEYSANDFLAGS evalsha_ro x 0 a`, `COMMAND GETKEYSANDFLAGS evalsha x 9223372036854775807 a`,
	`COMMAND INFO foo`, `COMMAND INFO foo bar`, `COMMAND INFO client|foo`, `COMMAND INFO ""`, `COMMAND DOCS foo`,
	`COMMAND LIST FOO`, `COMMAND LIST FILTERBY`, `COMMAND LIST FILTERBY FOO`, `COMMAND LIST FILTERBY FOO a`,
	`COMMAND LIST FILTERBY MODULE`, `COMMAND LIST FILTERBY MODULE foo`, `COMMAND LIST FILTERBY ACLCAT foo`,
	`COMMAND LIST FILTERBY PATTERN foo`, `COMMAND LIST FILTERBY PATTERN a b`, `COMMAND LIST FILTERBY PATTERN Client|[^s]etnam?`,
	`CONFIG GET foo`, `CONFIG GET foo bar`, `CONFIG GET ""`, `CONFIG GET databases[x`,
	`CONFIG SET foo bar`, `CONFIG SET "" ""`, `CONFIG SET "a\r\nb" c`, `CONFIG SET maxclients`,
	`CONFIG SET maxclients 1 foo`, `CONFIG SET maxclients 9 foo bar`, `CONFIG SET maxclients x`,
	`CONFIG SET maxclients ""`, `CONFIG SET maxclients 0`, `CONFIG SET maxclients -1`, `CONFIG SET timeout -1`,
	`CONFIG SET maxclients 99999999999`, `CONFIG SET proto-max-bulk-len x`, `CONFIG SET proto-max-bulk-len -1`,
	`CONFIG SET databases 1`, `CONFIG SET logfile x`, `CONFIG SET port`, `CONFIG SET maxclients 9 MAXCLIENTS 9`,
	`CONFIG SET maxclients 9 timeout x`, `CONFIG SET databases 1 maxclients x`,
	`CONFIG SET maxclients x databases 1`, `CONFIG SET MAXCLIENTS x`, `CONFIG SET DATABASES 1`,
	`CONFIG SET {x*200} bar`, `CONFIG SET FOO bar`, `CONFIG SET foo 1 bar 2`, `CONFIG SET maxclients x timeout x`, `CONFIG SET databases 1 foo 1`,
	`CONFIG SET maxclients " 9"`, `CONFIG SET maxclients "9 "`, `CONFIG SET maxclients 9.0`,
	`CONFIG SET maxclients 9223372036854775808`, `CONFIG SET tcp-keepalive -1`,
	`CONFIG SET proto-max-bulk-len 1z`,
	`CONFIG SET proto-max-bulk-len 1.5mb`,
	`CONFIG SET client-output-buffer-limit "normal 1 2"`,
	`CONFIG SET client-output-buffer-limit "normal 1 2 -3"`,
	`CONFIG SET client-output-buffer-limit "normal x 2 3"`, `CONFIG SET client-output-buffer-limit "normal 1 2 3 4"`, `CONFIG SET timeout 0 timeout 0 timeout x`,
	`INFO foo`, `INFO foo bar`, `INFO ""`, `INFO keyspace`, `INFO KEYSPACE`, `INFO cluster foo`,
	`WAIT 0 0`, `WAIT -1 0`, `WAIT 0 100`, `WAIT x 0`, `WAIT 0 x`, `WAIT x x`, `WAIT 0 -1`, `WAIT 0 1.5`,
	`WAIT 9223372036854775808 0`, `WAIT 0 9223372036854775808`, `WAIT x -1`,
	`CLUSTER INFO`, `READONLY`, `READWRITE`, `CLUSTER SLOTS`, `CLUSTER NODES`, `CLUSTER SHARDS`, `CLUSTER MYID`, `CLUSTER LINKS`,
	`CLUSTER COUNTKEYSINSLOT 1`, `CLUSTER COUNTKEYSINSLOT x`, `CLUSTER GETKEYSINSLOT 1 1`, `CLUSTER REPLICAS a`, `CLUSTER SLAVES a`,
	`CLUSTER COUNT-FAILURE-REPORTS a`, `CLUSTER SLOTS a`, `CLUSTER NODES a`, `CLUSTER SHARDS a`, `CLUSTER MYID a`, `CLUSTER LINKS a`,
	`CLUSTER KEYSLOT`, `CLUSTER KEYSLOT a b`, `CLUSTER COUNTKEYSINSLOT`, `CLUSTER GETKEYSINSLOT 1`, `CLUSTER REPLICAS`,
	`ROLE`, `ROLE a`, `OBJECT FREQ a`, `OBJECT FREQ`, `OBJECT IDLETIME a`, `OBJECT IDLETIME a b`, `CONFIG REWRITE`, `CONFIG REWRITE a`,
	`LATENCY GRAPH foo`, `LATENCY GRAPH "a\r\nb"`, `LATENCY GRAPH`, `LATENCY GRAPH a b`, `MEMORY MALLOC-STATS a`,
	`DEBUG`, `DEBUG SLEEP 0`, `DEBUG SLEEP`, `DEBUG FOO`, `DEBUG HELP`, `CONFIG GET enable-debug-command`, `CONFIG SET enable-debug-command yes`,
	`COMMAND GETKEYSANDFLAGS`, `COMMAND GETKEYSANDFLAGS ping`, `COMMAND GETKEYSANDFLAGS ping a`, `COMMAND GETKEYSANDFLAGS foo a`,
	`COMMAND GETKEYSANDFLAGS ttl a b`, `COMMAND GETKEYSANDFLAGS ttl a`, `COMMAND GETKEYSANDFLAGS pttl a`, `COMMAND GETKEYSANDFLAGS type a`,
	`COMMAND GETKEYSANDFLAGS del a b`, `COMMAND GETKEYSANDFLAGS unlink a`, `COMMAND GETKEYSANDFLAGS exists a b`, `COMMAND GETKEYSANDFLAGS touch a`,
	`COMMAND GETKEYSANDFLAGS expire a 1`, `COMMAND GETKEYSANDFLAGS pexpireat a 1 NX`, `COMMAND GETKEYSANDFLAGS persist a`,
	`COMMAND GETKEYSANDFLAGS rename a b`, `COMMAND GETKEYSANDFLAGS renamenx a b`, `COMMAND GETKEYSANDFLAGS watch a b`,
	`COMMAND GETKEYSANDFLAGS object encoding a`, `COMMAND GETKEYSANDFLAGS object freq a`, `COMMAND GETKEYSANDFLAGS memory usage a`,
	`MEMORY PURGE`,
}

// conversations are raw bytes with the same replies.
var conversations = map[string]string{
	"nothing":                  "",
	"skipped":                  "*0\r\n*-1\r\n*-10\r\n\r\n\n  \r\n\t\r\n*1\r\n$4\r\nPING\r\n",
	"the most negative":        "*-9223372036854775808\r\nPING\r\n",
	"an empty word":            "*1\r\n$0\r\n\r\n*2\r\n$0\r\n\r\n$1\r\na\r\n",
	"a pipeline":               "*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nPING\r\n$1\r\na\r\nPING\r\nECHO b\r\n",
	"a command in an argument": "*2\r\n$4\r\nECHO\r\n$14\r\n*1\r\n$4\r\nPING\r\n\r\n",
	"half a command":           "PING\r\n*2\r\n$4\r\nECHO\r\n$10\r\nhalf",
	"half a line":              "PING\r\nPIN",
	"behind QUIT":              "PING\r\nQUIT\r\nPING\r\n",
	"behind an unknown one":    "foo\r\nPING\r\n",
	"replies":                  "HELLO x\r\nCLIENT SETNAME me\r\nCLIENT GETNAME\r\nRESET\r\nCLIENT GETNAME\r\n",

	"inline":                      "ping\r\nPING hello\n  PING\thello \r\nPING\vhello\r\n\v\fPING\r\n\"PING\" 'hello'\r\n",
	"inline quotes":               "ECHO \"two words\"\r\nECHO 'two words'\r\nECHO ab\"c d\"\r\nECHO ab'c d'\r\nECHO \"\"\r\nECHO ''\r\n",
	"inline escapes":              "ECHO \"\\x41\\xfF\\x00\\n\\r\\t\\b\\a\\\"\\\\\\q\\x4\\xg1\"\r\n",
	"inline single quotes":        "ECHO 'it\\'s \\n \\x41 \"'\r\n",
	"inline backslashes":          "ECHO a\\nb\\x41\\\r\nECHO \\\"a\\\"\r\nPING\r\n",
	"inline empty words":          "PING \"\" \"\"\r\nfoo '' \"\" a\r\n",
	"inline bytes":                "ECHO \xff\x01\x7f\xc3\xa9\r\n",
	"inline carriage return":      "PING\r\r\nPING a\rb\r\nPING\r\n",
	"inline like a bulk":          "$4\r\nPING\r\n:1\r\n+OK\r\n-ERR x\r\n",
	"inline unbalanced":           "PING\r\nPING \"abc\r\nPING\r\n",
	"inline unbalanced single":    "PING\r\nPING 'abc\r\nPING\r\n",
	"inline quote and more":       "PING \"abc\"d\r\nPING\r\n",
	"inline single and more":      "PING 'abc'd\r\nPING\r\n",
	"inline quote, tab":           "PING \"abc\"\t\r\nPING 'abc'\v\r\n",
	"inline escaped quote":        "PING \"abc\\\"\r\n",
	"inline backslash end":        "PING \"abc\\\r\n",
	"inline longest":              "ECHO {x*60000}\r\n",
	"inline too long":             "{x*70000}",
	"inline too long with an end": "ECHO {x*90000}\r\nPING\r\n",

	"multibulk not a number": "PING\r\n*x\r\nPING\r\n",
	"multibulk nothing":      "*\r\nPING\r\n",
	"multibulk plus":         "*+1\r\n$4\r\nPING\r\n",
	"multibulk zero first":   "*01\r\n$4\r\nPING\r\n",
	"multibulk minus zero":   "*-0\r\nPING\r\n",
	"multibulk space":        "* 1\r\n$4\r\nPING\r\n",
	"multibulk space behind": "*1 \r\n$4\r\nPING\r\n",
	"multibulk fraction":     "*1.0\r\n$4\r\nPING\r\n",
	"multibulk int64":        "*9223372036854775807\r\nPING\r\n",
	"multibulk beyond int64": "*9223372036854775808\r\nPING\r\n",
	"multibulk far below":    "*-9223372036854775809\r\nPING\r\n",
	"multibulk huge":         "*{9*40}\r\nPING\r\n",
	"multibulk endless":      "*{1*70000}",

	"bulk missing mark":   "PING\r\n*1\r\nPING\r\nPING\r\n",
	"bulk integer":        "*2\r\n$4\r\nECHO\r\n:1\r\nPING\r\n",
	"bulk line end":       "*1\r\n\r\nPING\r\n",
	"bulk line feed":      "*1\r\n\nPING\r\n",
	"bulk odd mark":       "*1\r\n\xff1\r\nPING\r\n",
	"bulk not a number":   "*1\r\n$x\r\nPING\r\n",
	"bulk nothing":        "*1\r\n$\r\nPING\r\n",
	"bulk minus one":      "*1\r\n$-1\r\nPING\r\n",
	"bulk most negative":  "*1\r\n$-9223372036854775808\r\nPING\r\n",
	"bulk plus":           "*1\r\n$+4\r\nPING\r\n",
	"bulk zero first":     "*1\r\n$04\r\nPING\r\n",
	"bulk int64":          "*1\r\n$9223372036854775807\r\nPING\r\n",
	"bulk beyond int64":   "*1\r\n$9223372036854775808\r\nPING\r\n",
	"bulk huge":           "*1\r\n${9*40}\r\nPING\r\n",
	"bulk over the limit": "*1\r\n$536870913\r\nPING\r\n",
	"bulk endless":        "*1\r\n${1*70000}",
	"bulk, second":        "*2\r\n$4\r\nPING\r\n$-1\r\n",

	"no replies":          "CLIENT REPLY OFF\r\nPING\r\nfoo\r\nPING a b\r\nCLIENT REPLY FOO\r\nCLIENT REPLY ON\r\nPING\r\n",
	"skip":                "CLIENT REPLY SKIP\r\nPING\r\nPING a\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING b\r\nPING c\r\n",
	"skip an error":       "CLIENT REPLY SKIP\r\nfoo\r\nPING\r\nCLIENT REPLY SKIP\r\nECHO\r\nPING\r\n",
	"skip, then on":       "CLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nPING\r\n",
	"skip, then off":      "CLIENT REPLY SKIP\r\nCLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON\r\n",
	"skip while off":      "CLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nPING\r\n",
	"skip a quit":         "CLIENT REPLY SKIP\r\nQUIT\r\nPING\r\n",
	"skip the last reply": "CLIENT REPLY SKIP\r\nINFO foo\r\nPING\r\n",
	"off, then quit":      "CLIENT REPLY OFF\r\nQUIT\r\n",
	"off, then reset":     "CLIENT REPLY OFF\r\nRESET\r\nPING\r\n",
	"off, then broken":    "PING\r\nCLIENT REPLY OFF\r\n*x\r\n",
	"skip, then broken":   "PING\r\nCLIENT REPLY SKIP\r\n*x\r\n",
}

func TestAnswersAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	for _, line := range alike {
		sent := words(t, line, "PING") + theEnd
		assert.Equal(t, askRedis(t, socket, sent), askOurs(sent), "%.200s", line)
	}
	for name, sent := range conversations {
		sent = repeat(sent)
		assert.Equal(t, askRedis(t, socket, sent), askOurs(sent), "%s: %.200q", name, sent)
	}
}

const (
	notAnInteger = "-ERR value is not an integer or out of range\r\n"
	isSyntax     = "-ERR syntax error\r\n"
	badMultibulk = "-ERR Protocol error: invalid multibulk length\r\n"
	badBulk      = "-ERR Protocol error: invalid bulk length\r\n"
	noScripts    = "(cellserver runs no scripts: CL.THROTTLE, CL.WINDOW and CL.ZSLIDE each decide atomically in one command, CL.ALL on several limits)"
	onlyOptIn    = "-ERR cellserver accepts only CLIENT TRACKING ON OPTIN and CLIENT TRACKING OFF: it does not remember what clients keep\r\n"
	needsRESP3   = "-ERR CLIENT TRACKING needs RESP3, say HELLO 3 first: invalidations are pushed, and there is no REDIRECT\r\n"
	noCluster    = "-ERR This instance has cluster support disabled\r\n"
)

// differently lists commands with different replies, with the reasons.
var differently = []struct {
	why   string
	pairs []pair
}{
	{"an argument of bytes that are counted also ends with CR LF: what follows it cannot be told apart otherwise", []pair{
		{"*1\r\n$4\r\nPINGxxPING\r\n", "+PONG\r\n+PONG\r\n", badBulk},
		{"*1\r\n$4\r\nPING\n\nPING\r\n", "+PONG\r\n+PONG\r\n", badBulk},
		{"*2\r\n$4\r\nECHO\r\n$3\r\nabcd\r\n\n", "$3\r\nabc\r\n", badBulk},
	}},
	{"so does a line: in Redis any byte may follow the CR, and nothing is found behind a NUL", []pair{
		{"*1\rx$4\r\nPING\r\n", "+PONG\r\n", badMultibulk},
		{"*1\r\n$4\rxPING\r\n", "+PONG\r\n", badBulk},
		{"*1\x00\r\nPING\r\n", "", badMultibulk},
		{"*1\r\n$4\x00\r\nPING\r\n", "", badBulk},
		{"*1\r\n\x00\r\nPING\r\n", "", "-ERR Protocol error: expected '$', got '\x00'\r\n"},
		{"PING a\x00b\r\nPING\r\n", "", "$1\r\na\r\n+PONG\r\n"},
	}},
	{"what is wrong already is told before the line has ended", []pair{
		{"*1\r\nPING\n", "", "-ERR Protocol error: expected '$', got 'P'\r\n"},
		{"{x*65536}", "", "-ERR Protocol error: too big inline request\r\n"},
	}},
	{"counts and lengths that no client needs are refused", []pair{
		{"*1048577\r\n", "", badMultibulk},
		{"*2147483647\r\n", "", badMultibulk},
		{"*1\r\n$1048577\r\n", "", badBulk},
	}},
	{"a frame without words is no command, and CLIENT REPLY SKIP waits for one", []pair{
		{"CLIENT REPLY SKIP\r\n*0\r\nPING\r\nECHO a\r\n", "+PONG\r\n$1\r\na\r\n", "$1\r\na\r\n"},
		{"CLIENT REPLY SKIP\r\n\r\nPING\r\nECHO a\r\n", "+PONG\r\n$1\r\na\r\n", "$1\r\na\r\n"},
	}},
	{"a cursor is digits; in Redis it is whatever C's strtoul takes", []pair{
		{`SCAN ""`, "*2\r\n$1\r\n0\r\n*0\r\n", "-ERR invalid cursor\r\n"},
		{"SCAN +0", "*2\r\n$1\r\n0\r\n*0\r\n", "-ERR invalid cursor\r\n"},
		{"SCAN -1", "*2\r\n$1\r\n0\r\n*0\r\n", "-ERR invalid cursor\r\n"},
		{`SCAN "0\x00"`, "*2\r\n$1\r\n0\r\n*0\r\n", "-ERR invalid cursor\r\n"},
	}},
	{"a word is all of its bytes: Redis compares up to a NUL, and trims line ends off what it quotes last", []pair{
		{`EXPIRE a 10 "NX\x00x"`, ":0\r\n", "-ERR Unsupported option NX\x00x\r\n"},
		{`EXPIRE a 10 "x\r\n"`, "-ERR Unsupported option x\r\n", "-ERR Unsupported option x  \r\n"},
		{`CLIENT LIST TYPE "master\x00"`, "$0\r\n\r\n", "-ERR Unknown client type 'master\x00'\r\n"},
		{`CLIENT REPLY "ON\x00"`, "+OK\r\n", isSyntax},
		{`FLUSHALL "SYNC\x00"`, "+OK\r\n", isSyntax},
		{`SCAN 0 "COUNT\x00" 5`, "*2\r\n$1\r\n0\r\n*0\r\n", isSyntax},
	}},
	{"there are buckets, and no other data", []pair{
		{"APPEND a b", ":1\r\n", "-ERR unknown command 'APPEND', with args beginning with: 'a' 'b' \r\n"},
		{"SET a b", "+OK\r\n", "-ERR value is not an integer or out of range (cellserver keeps counters and limits, not data)\r\n"},
		{"DEL a", ":1\r\n", ":0\r\n"},
		{"DUMP a", "$-1\r\n", "-ERR unknown command 'DUMP', with args beginning with: 'a' \r\n"},
		{"COPY a b", ":0\r\n", "-ERR unknown command 'COPY', with args beginning with: 'a' 'b' \r\n"},
	}},
	{"only known scripts run, and one is told what does the job of others", []pair{
		{`EVAL "return 1" 0`, ":1\r\n", "-ERR unknown script e0e1f9fabfc9d4800c877a703b823ac0578ff8db: cellserver runs no Lua, only the scripts it knows " +
			"(see 'cellserver scripts') " + noScripts + "\r\n"},
		{"FUNCTION LIST", "*0\r\n", "-ERR unknown command 'FUNCTION', with args beginning with: 'LIST' " + noScripts + "\r\n"},
	}},
	{"what clients keep is not remembered, so tracking is only accepted in the form in which they say what they keep", []pair{
		{"CLIENT TRACKING ON", "+OK\r\n", onlyOptIn},
		{"CLIENT TRACKING ON BCAST", "+OK\r\n", onlyOptIn},
		{"CLIENT TRACKING ON OPTIN NOLOOP", "+OK\r\n", onlyOptIn},
		{"CLIENT TRACKING ON OPTIN OPTIN PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled\r\n", onlyOptIn},
		{"CLIENT TRACKING ON OPTIN", "+OK\r\n", needsRESP3},
	}},
	{"clients look for a limiter among the modules", []pair{
		{"MODULE LIST", "*0\r\n", "*1\r\n*8\r\n$4\r\nname\r\n$10\r\nredis-cell\r\n$3\r\nver\r\n:1\r\n$4\r\npath\r\n$0\r\n\r\n$4\r\nargs\r\n*0\r\n"},
	}},
	{"there is no cluster to ask about", []pair{
		{"CLUSTER KEYSLOT foo", noCluster, ":12182\r\n"},
	}},
	{"where it listens is chosen at start", []pair{
		{"CONFIG SET port 0", "+OK\r\n", configFault("port", "can't set immutable config")},
	}},
	{"options have bounds of their own, and a size has digits", []pair{
		{"CONFIG SET proto-max-bulk-len 1gb", "+OK\r\n",
			configFault("proto-max-bulk-len", "argument must be between 1048576 and 536870912 inclusive")},
		{"CONFIG SET proto-max-bulk-len mb",
			configFault("proto-max-bulk-len", "argument must be between 1048576 and 9223372036854775807 inclusive"),
			configFault("proto-max-bulk-len", "argument must be a memory value")},
		{`CONFIG SET client-output-buffer-limit ""`, "+OK\r\n",
			configFault("client-output-buffer-limit", "Wrong number of arguments in buffer limit configuration.")},
		{`CONFIG SET client-output-buffer-limit "pubsub 1 2 3"`, "+OK\r\n",
			configFault("client-output-buffer-limit", "the only class of clients is normal")},
		{"CONFIG SET dir /", configFault("dir", "can't set protected config"),
			configFault("dir", "can't set immutable config")},
	}},
	{"the manners are those of 7.2, and the Redis compared with may be older", []pair{
		{"CLIENT NO-TOUCH ON", "-ERR unknown subcommand 'NO-TOUCH'. Try CLIENT HELP.\r\n", "+OK\r\n"},
		{"CLIENT SETINFO LIB-NAME x", "-ERR unknown subcommand 'SETINFO'. Try CLIENT HELP.\r\n", "+OK\r\n"},
		{"COMMAND GETKEYS lpop", getKeysArity, "-ERR Invalid command specified\r\n"},
		{"COMMAND GETKEYS ping", getKeysArity, "-ERR The command has no key arguments\r\n"},
		{"COMMAND GETKEYS ttl", getKeysArity, "-ERR Invalid number of arguments specified for command\r\n"},
		{"CONFIG SET loglevel loud",
			configFault("loglevel", "argument(s) must be one of the following: debug, verbose, notice, warning"),
			configFault("loglevel", "argument(s) must be one of the following: debug, verbose, notice, warning, nothing")},
	}},
}

const getKeysArity = "-ERR wrong number of arguments for 'command|getkeys' command\r\n"

// pair is the replies of two servers to the same words, or to the same bytes if they contain a line end or a frame's mark.
type pair struct{ sent, redis, ours string }

func configFault(name, reason string) string {
	return fmt.Sprintf("-ERR CONFIG SET failed (possibly related to argument '%s') - %s\r\n", name, reason)
}

func TestAnswersOtherThanRedis(t *testing.T) {
	socket := testenv.Redis(t)
	for _, d := range differently {
		for _, p := range d.pairs {
			sent := repeat(p.sent)
			if !strings.ContainsAny(sent, "\n*{") && len(sent) < 1000 {
				sent = words(t, sent)
			}
			assert.Equal(t, p.redis, askRedis(t, socket, sent), "Redis: %.200q", p.sent)
			assert.Equal(t, p.ours, askOurs(sent), "%.200q: %s", p.sent, d.why)
		}
	}
}

// Replies that vary have the same shape.
func TestShapesAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	for line, shape := range map[string]string{
		"TIME":                `\*2\r\n\$10\r\n[1-9]\d{9}\r\n\$[1-6]\r\n(0|[1-9]\d*)\r\n`,
		"CLIENT ID":           `:[1-9]\d*\r\n`,
		"CLIENT INFO":         `\$\d+\r\nid=\d+ addr=\S+ laddr=\S+ .*name= age=\d+ idle=\d+ flags=[NU] db=0 sub=0 psub=0 .*multi=-1 .*qbuf=\d+ .*omem=0 .*events=r cmd=client\|info user=default .*resp=2.*\n\r\n`,
		"HELLO 2":             `\*\d+\r\n\$6\r\nserver\r\n\$5\r\nredis\r\n\$7\r\nversion\r\n\$\d\r\n7\.[\d.]+\r\n\$5\r\nproto\r\n:2\r\n\$2\r\nid\r\n:\d+\r\n\$4\r\nmode\r\n\$10\r\nstandalone\r\n\$4\r\nrole\r\n\$6\r\nmaster\r\n\$7\r\nmodules\r\n.*`,
		"HELLO 3":             `%\d+\r\n\$6\r\nserver\r\n\$5\r\nredis\r\n\$7\r\nversion\r\n\$\d\r\n7\.[\d.]+\r\n\$5\r\nproto\r\n:3\r\n\$2\r\nid\r\n:\d+\r\n\$4\r\nmode\r\n\$10\r\nstandalone\r\n\$4\r\nrole\r\n\$6\r\nmaster\r\n\$7\r\nmodules\r\n.*`,
		"CLIENT HELP":         `\*\d+\r\n\+CLIENT <subcommand> \[<arg> \[value\] \[opt\] \.\.\.\]\. Subcommands are:\r\n\+.*`,
		"COMMAND INFO ttl":    `\*1\r\n\*10\r\n\$3\r\nttl\r\n:2\r\n\*2\r\n\+readonly\r\n\+fast\r\n:1\r\n:1\r\n:1\r\n\*3\r\n\+@keyspace\r\n\+@read\r\n\+@fast\r\n\*\d+\r\n.*`,
		"COMMAND COUNT":       `:[1-9]\d+\r\n`,
		"CONFIG GET timeout":  `\*2\r\n\$7\r\ntimeout\r\n\$\d+\r\n\d+\r\n`,
		"LOLWUT VERSION 5000": `\$\d+\r\n.* ver\. \d[\d.]+\n\r\n`,
	} {
		whole := regexp.MustCompile(`(?s)\A(?:` + shape + `)\z`)
		assert.Regexp(t, whole, askRedis(t, socket, words(t, line)), "Redis: %s", line)
		assert.Regexp(t, whole, askOurs(words(t, line)), line)
	}
}

// Patterns match as in Redis, for all special characters.
func TestPatternsAsRedis(t *testing.T) {
	const alphabet = `abc*?[]^-\`
	random := rand.New(rand.NewPCG(1, 2))
	text := func(most int) string {
		b := make([]byte, 1+random.IntN(most))
		for i := range b {
			b[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(b)
	}
	var theirs, ours []byte
	for range 400 {
		key := text(5)
		theirs = append(theirs, multibulk("SET", key, "")...)
		ours = append(ours, multibulk("CL.WINDOW", key, "1000", "60")...)
	}
	var patterns []string
	for range 5000 {
		patterns = append(patterns, text(8))
	}
	for _, p := range patterns {
		theirs = append(theirs, multibulk("KEYS", p)...)
		ours = append(ours, multibulk("KEYS", p)...)
	}
	found := func(replies string) (lists []string) {
		for rest := []byte(replies); len(rest) > 0; {
			v, after, err := readValue(rest)
			require.NoError(t, err)
			v.sort()
			lists, rest = append(lists, string(v.appendTo(nil))), after
		}
		return lists[400:]
	}
	inRedis := found(askRedis(t, testenv.Redis(t), string(theirs)+theEnd))
	here := found(askOurs(string(ours) + theEnd))
	require.Len(t, inRedis, len(patterns)+1)
	require.Len(t, here, len(patterns)+1)
	for i, p := range patterns {
		require.Equal(t, inRedis[i], here[i], "KEYS %q", p)
	}
	assert.NotEqual(t, strings.Repeat("*0\r\n", len(patterns))+"+OK\r\n", strings.Join(here, ""), "some patterns match something")
}

// Some patterns deliberately match in another way than in Redis.
func TestPatternsOtherThanRedis(t *testing.T) {
	socket := testenv.Redis(t)
	for _, d := range []struct{ key, pattern, redis, ours, why string }{
		{"a", "[\x7f-\x81]", "*1\r\n$1\r\na\r\n", "*0\r\n", "a range is of bytes; in Redis of signed characters, on most machines"},
		{"", "**", "*0\r\n", "*1\r\n$0\r\n\r\n", "stars match nothing, too, however many"},
	} {
		keys := string(multibulk("KEYS", d.pattern))
		theirs := askRedis(t, socket, string(multibulk("FLUSHALL"))+string(multibulk("SET", d.key, ""))+keys)
		assert.Equal(t, "+OK\r\n+OK\r\n"+d.redis, theirs, "Redis: %q", d.pattern)
		ours := askOurs(string(multibulk("CL.WINDOW", d.key, "5", "60")) + keys)
		assert.Equal(t, "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60\r\n"+d.ours, ours, "%q: %s", d.pattern, d.why)
	}
}

// flagsOfRedis are the flags of COMMAND INFO that have no meaning here: of stale replicas and commands that are not
// timed.
var flagsOfRedis = map[string]bool{"+skip_slowlog": true, "+no_async_loading": true, "+may_replicate": true,
	"+skip_monitor": true, "+no_mandatory_keys": true, "+pubsub": true}

// For a command that both servers have, COMMAND INFO reports the same arity, flags, positions of keys and ACL categories.
func TestCommandInfoAsRedis(t *testing.T) {
	others := map[string]string{
		"command|getkeys": "it takes fewer words since Redis 7.2",
	}
	socket := testenv.Redis(t)
	for _, row := range resp.Rows() {
		ask := words(t, "COMMAND INFO "+row.Name) + theEnd
		theirs, _, err := readValue([]byte(askRedis(t, socket, ask)))
		require.NoError(t, err)
		ours, _, err := readValue([]byte(askOurs(ask)))
		require.NoError(t, err)
		if len(theirs.items[0].items) == 0 || others[row.Name] != "" {
			continue // a command that Redis lacks
		}
		describe := func(v value) string {
			info := v.items[0].items
			sorted := func(list value) []string {
				var names []string
				for _, item := range list.items {
					if name := string(item.appendTo(nil)); !flagsOfRedis[strings.TrimSpace(name)] {
						names = append(names, strings.TrimSpace(name))
					}
				}
				slices.Sort(names)
				return names
			}
			// Redis adds notes in prose to some.
			specs := regexp.MustCompile(`(?s)\$5\r\nnotes\r\n\$\d+\r\n[^\r]*\r\n`).ReplaceAllString(string(info[8].appendTo(nil)), "")
			specs = strings.ReplaceAll(specs, "*8\r\n$5\r\nflags", "*6\r\n$5\r\nflags")
			return fmt.Sprintf("arity %s flags %s keys %s %s %s categories %s specs %q", info[1].head, sorted(info[2]),
				info[3].head, info[4].head, info[5].head, sorted(info[6]), specs)
		}
		assert.Equal(t, describe(theirs), describe(ours), row.Name)
	}
}

// takingIntegers are the commands that take an integer, with % in its place. The test sends no valid integers, so the commands
// have no effect.
var takingIntegers = []string{
	"EXPIRE a %", "PEXPIRE a %", "EXPIREAT a %", "PEXPIREAT a %", "EXPIRE a % NX", "SCAN 0 COUNT %", "MEMORY USAGE a SAMPLES %",
	"SELECT %", "MOVE a %", "SWAPDB % 0", "SWAPDB 0 %", "HELLO %", "HELLO % SETNAME a", "WAIT % 0", "WAIT 0 %", "CLIENT LIST ID %", "CLIENT LIST ID 99999 %", "CLIENT KILL ID %",
	"CLIENT PAUSE %", "CLIENT PAUSE % WRITE", "CLIENT UNBLOCK %", "SLOWLOG GET %", "ACL LOG %", "ACL GENPASS %", "LOLWUT VERSION %",
	"EVAL x %", "EVAL_RO x %", "EVALSHA 0123456789012345678901234567890123456789 %", "EVALSHA_RO 0123456789012345678901234567890123456789 %",
	"CONFIG SET maxclients %", "CONFIG SET timeout %", "CONFIG SET tcp-keepalive %", "CONFIG SET slowlog-log-slower-than %",
	"SET k 1 EX %", "SET k 1 PX %", "SET k 1 EXAT %", "SET k 1 PXAT %", "SETEX k % 1", "PSETEX k % 1", "GETEX k EX %", "GETEX k PXAT %",
	"INCRBY k %", "DECRBY k %",
	"CONFIG SET slowlog-max-len %", "CONFIG SET latency-monitor-threshold %", "CONFIG SET auto-aof-rewrite-percentage %",
}

// Texts that are no integers for Redis are none here, in every command but the limit commands.
func TestIntegersAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	for _, line := range takingIntegers {
		for _, n := range []string{"+1", "01", "-0", "+0", "00", "-01", "000000000000000000001", "x", "", " 1", "1 ", "1.0", "1e3", "0x1", "--1", "-", "+",
			"1_0", "9223372036854775808", "-9223372036854775809", "18446744073709551617", "\xff", "1\x00"} {
			split := strings.Fields(line)
			for i := range split {
				if split[i] == "%" {
					split[i] = n
				}
			}
			sent := string(multibulk(split...)) + theEnd
			assert.Equal(t, askRedis(t, socket, sent), askOurs(sent), "%s: %q", line, n)
		}
	}
	// The list is complete. Redis 7 has no INCREX.
	tested := make(map[string]bool)
	for _, line := range takingIntegers {
		tested[resp.RowOf(strings.Fields(line))] = true
	}
	for _, row := range resp.Rows() {
		if row.Integers && row.Group != "limit" && row.Name != "increx" && !strings.Contains(row.Summary, "cluster support is disabled") {
			assert.True(t, tested[row.Name], "%s takes an integer", row.Name)
		}
	}
}
