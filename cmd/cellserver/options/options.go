// Package options has the table of all options, and reads them from flags, the environment, a configuration file and
// CONFIG SET.
package options

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"cellserver/buckets/memory"
	"cellserver/persistence"
	"cellserver/resp"
)

// Settings are the values of the options.
type Settings struct {
	Bind            []string
	Port            int64 // TCP; 0 is none
	UnixSocket      string
	UnixSocketPerm  int64 // a file mode's permission bits; 0 leaves them to the umask
	TLS             TLS
	Wire            resp.Bounds
	MaxMemory       int64 // bytes; 0 is unlimited
	MaxMemoryPolicy string
	Databases       int64
	LogLevel        slog.Level
	LogFile         string
	ShutdownTimeout time.Duration

	Password string // of the default user
	ACLFile  string

	Dir, Snapshot, Journal string // file names in Dir
	Disk                   persistence.Rules

	Store Store
}

// TLS are the settings of encrypted connections.
type TLS struct {
	Port              int64 // 0 is none
	CertFile, KeyFile string
	CAFile, CADir     string // the authorities that sign the certificates of clients
	AuthClients       string // yes, no or optional
	Versions          []uint16
}

// Bound sets how much a store may hold.
func (s *Settings) Bound(store *memory.Store) {
	store.SetMaxLog(s.Wire.MaxLog)
	store.SetMemory(s.MaxMemory, s.MaxMemoryPolicy == EvictSoonest)
}

// Option is one row of the table: the flag --name, the environment variable CELLSERVER_NAME, the line "name value" of a
// configuration file, and CONFIG GET and SET of that name.
type Option struct {
	Name    string
	Default string
	Help    string
	Mutable bool   // by CONFIG SET
	Section string // what this option and those that follow it are about; "" goes on with the section before
	value   value
}

// Hint returns the kind of value that the option takes, for --help.
func (o *Option) Hint() string { return o.value.hint }

// Table has all options, in the order in which --help lists them.
var Table = []Option{
	{Section: "Network", Name: "bind", Default: "127.0.0.1", Help: "addresses to listen on, separated by spaces; * is all of them, and a - before one allows it to be missing",
		value: words("addresses", func(s *Settings) *[]string { return &s.Bind })},
	{Name: "port", Default: "6379", Help: "TCP port to listen on; 0 is none",
		value: number(func(s *Settings) *int64 { return &s.Port }, 0, 65535)},
	{Name: "unixsocket", Default: "", Help: "Unix socket to listen on too",
		value: path(func(s *Settings) *string { return &s.UnixSocket })},
	{Name: "unixsocketperm", Default: "0", Help: "permissions of the Unix socket, as in 770: who may write to it may connect; 0 leaves them to the umask",
		value: permissions(func(s *Settings) *int64 { return &s.UnixSocketPerm })},
	{Name: "protected-mode", Default: "yes", Mutable: true,
		Help:  "answer only this machine while the default user has no password",
		value: yesNo(func(s *Settings) *bool { return &s.Wire.Protected })},
	{Section: "TLS", Name: "tls-port", Default: "0", Help: "TCP port to listen on for TLS, beside port; 0 is none",
		value: number(func(s *Settings) *int64 { return &s.TLS.Port }, 0, 65535)},
	{Name: "tls-cert-file", Default: "", Help: "the server's certificate, and those between it and its authority, in PEM; SIGHUP has it read again",
		value: path(func(s *Settings) *string { return &s.TLS.CertFile })},
	{Name: "tls-key-file", Default: "", Help: "its private key in PEM, without a passphrase; SIGHUP has it read again",
		value: path(func(s *Settings) *string { return &s.TLS.KeyFile })},
	{Name: "tls-ca-cert-file", Default: "", Help: "the authorities whose clients are trusted, in PEM; SIGHUP has it read again",
		value: path(func(s *Settings) *string { return &s.TLS.CAFile })},
	{Name: "tls-ca-cert-dir", Default: "", Help: "a directory of such files; SIGHUP has it read again",
		value: path(func(s *Settings) *string { return &s.TLS.CADir })},
	{Name: "tls-auth-clients", Default: "yes",
		Help:  "whether TLS clients need a certificate: yes; no; or optional, when the one that is sent must be right",
		value: oneOf(func(s *Settings) *string { return &s.TLS.AuthClients }, "yes", "no", "optional")},
	{Name: "tls-protocols", Default: "TLSv1.2 TLSv1.3", Help: "the versions of TLS that are spoken: one of these, or both",
		value: tlsVersions(func(s *Settings) *[]uint16 { return &s.TLS.Versions })},
	{Name: "tls-prefer-server-ciphers", Default: "no",
		Help:  "ciphers are not configured: there are no tls-ciphers and tls-ciphersuites. Go has only good ones, and takes what both machines are fast at",
		value: only("no", "no", "Go chooses the cipher by what both machines are fast at")},
	{Name: "tls-handshake-timeout", Default: "10", Help: "how long a connection may take for its TLS handshake", Mutable: true,
		value: seconds(func(s *Settings) *time.Duration { return &s.Wire.Handshake }, 1, 3600)},
	{Section: "Access", Name: "requirepass", Default: "", Mutable: true, Help: "the password of the default user; none is needed when it is empty",
		value: password(func(s *Settings) *string { return &s.Password })},
	{Name: "aclfile", Default: "", Help: "the file of the users, which is loaded at the start and by ACL LOAD, and written by ACL SAVE",
		value: path(func(s *Settings) *string { return &s.ACLFile })},
	{Section: "Limits of connections, commands and keys", Name: "maxclients", Default: "10000", Help: "connections at once", Mutable: true,
		value: number(func(s *Settings) *int64 { return &s.Wire.MaxClients }, 1, math.MaxUint32)},
	{Name: "timeout", Default: "0", Help: "close a connection that has been silent for so long; 0 is never", Mutable: true,
		value: seconds(func(s *Settings) *time.Duration { return &s.Wire.Timeout }, 0, math.MaxInt32)},
	{Name: "tcp-keepalive", Default: "300", Help: "probe silent connections so often; 0 is never", Mutable: true,
		value: seconds(func(s *Settings) *time.Duration { return &s.Wire.KeepAlive }, 0, math.MaxInt32)},
	{Name: "proto-max-bulk-len", Default: "1mb", Help: "the longest argument", Mutable: true,
		value: size(func(s *Settings) *int64 { return &s.Wire.MaxBulk }, 1<<20, 512<<20)},
	{Name: "client-query-buffer-limit", Default: "8mb", Help: "the longest command", Mutable: true,
		value: size(func(s *Settings) *int64 { return &s.Wire.QueryBuffer }, 1<<20, 1<<30)},
	{Name: "client-output-buffer-limit", Default: "normal 64mb 0 0", Mutable: true,
		Help:  "drop a connection that leaves more replies unread: hard limit, soft limit, and the seconds above the soft one; 0 is unlimited",
		value: outputLimit()},
	{Name: "max-key-bytes", Default: "4096", Help: "the longest key that is stored", Mutable: true,
		value: size(func(s *Settings) *int64 { return &s.Wire.MaxKey }, 1, 1<<20)},
	{Name: "multi-max-commands", Default: "10000", Mutable: true,
		Help:  "the most commands that one transaction may queue, and about how many keys its KEYS and SCAN may visit together: others wait while it runs",
		value: number(func(s *Settings) *int64 { return &s.Wire.MultiCommands }, 1, math.MaxInt32)},
	{Name: "zslide-max-log", Default: "1000000", Help: "the most records that one CL.ZSLIDE key may have", Mutable: true,
		value: number(func(s *Settings) *int64 { return &s.Wire.MaxLog }, 1, math.MaxInt32)},
	{Section: "Memory", Name: "maxmemory", Default: "75%", Mutable: true,
		Help:  "the most memory that buckets may take, in bytes or in percent of the machine's or the container's; 0 is unlimited",
		value: memoryLimit(func(s *Settings) *int64 { return &s.MaxMemory })},
	{Name: "maxmemory-policy", Default: EvictSoonest, Mutable: true,
		Help:  "beyond maxmemory: evict-soonest forgets the buckets nearest to full again, noeviction refuses what needs memory",
		value: oneOf(func(s *Settings) *string { return &s.MaxMemoryPolicy }, EvictSoonest, "noeviction")},
	{Section: "Stopping and debugging", Name: "shutdown-timeout", Default: "10", Help: "how long stopping may wait for replies to be sent", Mutable: true,
		value: seconds(func(s *Settings) *time.Duration { return &s.ShutdownTimeout }, 0, math.MaxInt32)},
	{Name: "enable-debug-command", Default: "no",
		Help:  "who may use DEBUG: no is nobody; local, who is connected from this machine; yes, anybody whose user may",
		value: oneOf(func(s *Settings) *string { return &s.Wire.Debug }, "yes", "no", "local")},
	{Section: "Slow commands and the log", Name: "slowlog-log-slower-than", Default: "10000", Mutable: true,
		Help:  "remember commands that take so many microseconds; -1 is none. Fast ones are judged by the average of what came together",
		value: microseconds(func(s *Settings) *time.Duration { return &s.Wire.SlowerThan })},
	{Name: "slowlog-max-len", Default: "128", Help: "how many slow commands are remembered", Mutable: true,
		value: number(func(s *Settings) *int64 { return &s.Wire.SlowlogLen }, 0, 1<<20)},
	{Name: "latency-monitor-threshold", Default: "0", Mutable: true,
		Help:  "LATENCY remembers what takes so many milliseconds; 0 is nothing",
		value: milliseconds(func(s *Settings) *time.Duration { return &s.Wire.LatencyThreshold })},
	{Name: "loglevel", Default: "notice", Help: "debug, verbose, notice, warning or nothing", Mutable: true, value: logLevel()},
	{Name: "logfile", Default: "", Help: "append the log to this file instead of the standard error",
		value: path(func(s *Settings) *string { return &s.LogFile })},
	{Section: "Databases", Name: "databases", Default: strconv.Itoa(memory.DefaultDatabases),
		Help:  "how many databases there are, each with keys of its own: clients choose one with SELECT, by its number from 0 on",
		value: number(func(s *Settings) *int64 { return &s.Databases }, 1, memory.MaxDatabases)},
	{Section: "Persistence", Name: "dir", Default: ".", Help: "the directory of the snapshot and the journal",
		value: directory(func(s *Settings) *string { return &s.Dir })},
	{Name: "save", Default: "", Mutable: true,
		Help:  "take a snapshot when so many seconds have passed with so many changes, as in \"300 1\"; several pairs may be given, none is never",
		value: savePoints(func(s *Settings) *[]persistence.SavePoint { return &s.Disk.SavePoints })},
	{Name: "dbfilename", Default: "dump.cell", Help: "the snapshot's file in dir, which is loaded at the start",
		value: fileName(func(s *Settings) *string { return &s.Snapshot })},
	{Name: "stop-writes-on-bgsave-error", Default: "yes", Mutable: true,
		Help:  "refuse what changes keys while the last snapshot, or the journal, could not be written",
		value: yesNo(func(s *Settings) *bool { return &s.Disk.StopWrites })},
	{Name: "appendonly", Default: "no", Mutable: true, Help: "keep a journal of all changes",
		value: yesNo(func(s *Settings) *bool { return &s.Disk.Journal })},
	{Name: "appendfilename", Default: "appendonly.cell", Help: "the journal's file in dir, which is loaded at the start",
		value: fileName(func(s *Settings) *string { return &s.Journal })},
	{Name: "appendfsync", Default: "everysec", Mutable: true,
		Help:  "when the journal is made durable: always, before a reply is sent; everysec; or no, when the system pleases",
		value: syncPolicy(func(s *Settings) *persistence.SyncPolicy { return &s.Disk.Sync })},
	{Name: "auto-aof-rewrite-percentage", Default: "100", Mutable: true,
		Help:  "rewrite the journal when it has grown by so much since it was last rewritten; 0 is never",
		value: number(func(s *Settings) *int64 { return &s.Disk.RewritePercent }, 0, math.MaxInt32)},
	{Name: "auto-aof-rewrite-min-size", Default: "64mb", Mutable: true, Help: "but only when it has at least this size",
		value: size(func(s *Settings) *int64 { return &s.Disk.RewriteMin }, 0, math.MaxInt64)},
	{Section: "Keys in a Valkey or Redis", Name: "store", Default: "",
		Help:  "keep the keys in this engine instead of in memory: valkey://host:port, with several addresses separated by commas; valkeys:// is TLS, redis:// and rediss:// mean the same. A cluster is found by any of its servers",
		value: storeURL(func(s *Settings) *StoreURL { return &s.Store.URL })},
	{Name: "store-user", Default: "", Help: "the engine's user",
		value: word(func(s *Settings) *string { return &s.Store.User })},
	{Name: "store-password", Default: "", Help: "the engine's password, which nothing shows; the users of the machine see flags, so better set it by the environment, a file of options or store-password-file",
		value: hiddenPassword(func(s *Settings) *string { return &s.Store.Password })},
	{Name: "store-password-file", Default: "", Help: "a file whose one line is the engine's password; it is read again for every connection to the engine",
		value: path(func(s *Settings) *string { return &s.Store.PasswordFile })},
	{Name: "store-sentinel", Default: "", Help: "the addresses of store are sentinels, and the engine is the master of this name",
		value: word(func(s *Settings) *string { return &s.Store.Sentinel })},
	{Name: "store-sentinel-user", Default: "", Help: "the sentinels' user",
		value: word(func(s *Settings) *string { return &s.Store.SentinelUser })},
	{Name: "store-sentinel-password", Default: "", Help: "the sentinels' password, which nothing shows",
		value: hiddenPassword(func(s *Settings) *string { return &s.Store.SentinelPassword })},
	{Name: "store-tls-ca-cert-file", Default: "", Help: "the authorities that sign the engine's certificate, in PEM; the machine's own when it is empty",
		value: path(func(s *Settings) *string { return &s.Store.CAFile })},
	{Name: "store-tls-cert-file", Default: "", Help: "the certificate that is shown to the engine, in PEM",
		value: path(func(s *Settings) *string { return &s.Store.CertFile })},
	{Name: "store-tls-key-file", Default: "", Help: "its private key in PEM, without a passphrase",
		value: path(func(s *Settings) *string { return &s.Store.KeyFile })},
	{Name: "store-prefix", Default: "cellserver:", Help: "begins the name of every key in the engine. A prefix with {...} in it puts all keys in one slot of a cluster",
		value: prefix(func(s *Settings) *string { return &s.Store.Prefix })},
	{Name: "store-timeout", Default: "50", Mutable: true, Help: "the longest time that a request waits for the engine, with all that is tried again",
		value: scaled("milliseconds", func(s *Settings) *time.Duration { return &s.Store.Timeout }, time.Millisecond, 1)},
	{Name: "store-failure", Default: FailError, Mutable: true,
		Help:  "what limit commands answer when the engine is away or too slow: error, CLUSTERDOWN; admit, as for a bucket that was not used yet; refuse, with a retry_after of 1 s",
		value: oneOf(func(s *Settings) *string { return &s.Store.Failure }, FailError, FailAdmit, FailRefuse)},
	{Name: "store-refusal-cache", Default: "100", Mutable: true,
		Help:  "for so long a request may be refused by the state that was last seen, without asking the engine; 0 is never. A refund, a DEL or another limit from elsewhere is seen so much later",
		value: scaled("milliseconds", func(s *Settings) *time.Duration { return &s.Store.RefusalCache }, time.Millisecond, 0)},
	{Name: "store-min-replicas", Default: "0", Mutable: true,
		Help:  "answer when so many replicas of the engine have a change, and with NOREPLICAS if they do not within store-timeout",
		value: number(func(s *Settings) *int64 { return &s.Store.MinReplicas }, 0, 1000)},
	{Name: "store-cache", Default: "64mb", Mutable: true, Help: "memory for the states of keys that were last seen: a key that is not among them costs a round trip more",
		value: size(func(s *Settings) *int64 { return &s.Store.Cache }, 1<<20, math.MaxInt64)},
}

// EvictSoonest is the maxmemory-policy that evicts the buckets that are full again soonest.
const EvictSoonest = "evict-soonest"

func find(name string) *Option {
	for i := range Table {
		if strings.EqualFold(Table[i].Name, name) {
			return &Table[i]
		}
	}
	return nil
}

// Defaults returns the settings with every option at its default.
func Defaults() Settings {
	var s Settings
	for i := range Table {
		if err := Table[i].value.parse(&s, Table[i].Default); err != nil {
			panic(fmt.Sprintf("the default of %s: %v", Table[i].Name, err))
		}
	}
	return s
}

// Live holds the settings of a running server, for CONFIG GET, SET and REWRITE. Many goroutines may use it at once.
type Live struct {
	File string // the configuration file, for Rewrite; "" is none. It must be set before Live is shared

	mu       sync.Mutex
	settings Settings
	apply    func(Settings) error
}

// NewLive returns the settings of a running server. Set calls apply with the new settings, one call at a time; an error
// of apply refuses them.
func NewLive(s Settings, apply func(Settings) error) *Live { return &Live{settings: s, apply: apply} }

// Settings returns the settings in force.
func (l *Live) Settings() Settings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settings
}

// Each calls show for each option, in the order of Table.
func (l *Live) Each(show func(name, value string)) {
	s := l.Settings()
	for i := range Table {
		show(Table[i].Name, Table[i].value.show(&s))
	}
}

// Set changes the options of all pairs of name and value, or none of them. Its errors are *resp.OptionError.
func (l *Live) Set(pairs [][2]string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.settings
	// Names are judged before values, as Redis does.
	chosen := make([]*Option, len(pairs))
	for i, p := range pairs {
		o := find(p[0])
		switch {
		case o == nil:
			return &resp.OptionError{Name: p[0], Unknown: true}
		case !o.Mutable:
			return &resp.OptionError{Name: p[0], Reason: "can't set immutable config"}
		case repeated(pairs[:i], p[0]):
			return &resp.OptionError{Name: p[0], Reason: "duplicate parameter"}
		}
		chosen[i] = o
	}
	for i, o := range chosen {
		if err := o.value.parse(&next, pairs[i][1]); err != nil {
			return &resp.OptionError{Name: o.Name, Reason: err.Error()}
		}
	}
	if err := l.apply(next); err != nil {
		return &resp.OptionError{Name: chosen[0].Name, Reason: err.Error()}
	}
	l.settings = next
	return nil
}

func repeated(before [][2]string, name string) bool {
	for _, p := range before {
		if strings.EqualFold(p[0], name) {
			return true
		}
	}
	return false
}

// ErrUnknown is wrapped by the error for an option that does not exist, whose text suggests the nearest name.
var ErrUnknown = errors.New("unknown option")

// unknown returns the error for an unknown option, with the option that was probably meant.
func unknown(name string) error {
	best, distance := "", 1+len(name)/2
	for i := range Table {
		if d := editDistance(strings.ToLower(name), Table[i].Name); d < distance {
			best, distance = Table[i].Name, d
		}
	}
	if best == "" {
		return fmt.Errorf("%w %q", ErrUnknown, name)
	}
	return fmt.Errorf("%w %q: did you mean %q?", ErrUnknown, name, best)
}

// editDistance returns the Levenshtein distance: how many bytes must be inserted, deleted or replaced to turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = 1 + min(diagonal, row[j], row[j-1])
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
