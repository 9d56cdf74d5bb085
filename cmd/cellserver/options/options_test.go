package options_test

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"cellserver/cmd/cellserver/options"
	"cellserver/resp"
)

// TestMain unsets variables such as those that configure other tests: they begin like options.
func TestMain(m *testing.M) {
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, options.EnvPrefix) {
			os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// file writes a configuration file and returns its path.
func file(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cell.conf")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// values returns settings by the names of their options, as shown.
func values(s options.Settings) map[string]string {
	all := make(map[string]string)
	options.NewLive(s, nil).Each(func(name, value string) { all[name] = value })
	return all
}

// changed returns the options that are not at their defaults.
func changed(s options.Settings) map[string]string {
	defaults := values(options.Defaults())
	diff := make(map[string]string)
	for name, value := range values(s) {
		if value != defaults[name] {
			diff[name] = value
		}
	}
	return diff
}

func TestTheFirstOfFlagEnvironmentAndFileWins(t *testing.T) {
	type pairs = map[string]string
	for _, row := range []struct {
		name string
		args []string
		env  pairs
		file string // the first argument, if there is one
		want pairs
	}{
		{name: "nothing"},
		{name: "a flag", args: []string{"--port", "7000"}, want: pairs{"port": "7000"}},
		{name: "one dash", args: []string{"-port", "7000"}, want: pairs{"port": "7000"}},
		{name: "an equals sign", args: []string{"--port=7000"}, want: pairs{"port": "7000"}},
		{name: "the last of two flags", args: []string{"--port", "7000", "--port", "7001"}, want: pairs{"port": "7001"}},
		{name: "a list", args: []string{"--bind", " 127.0.0.1   -::1 "}, want: pairs{"bind": "127.0.0.1 -::1"}},
		{name: "a variable", env: pairs{"CELLSERVER_PORT": "7000"}, want: pairs{"port": "7000"}},
		{name: "a variable of several words", env: pairs{"CELLSERVER_ZSLIDE_MAX_LOG": "5"}, want: pairs{"zslide-max-log": "5"}},
		{name: "an empty variable is none", env: pairs{"CELLSERVER_PORT": ""}},
		{name: "variables of others", env: pairs{"PORT": "7000", "CELLSERVERPORT": "7001", "CELLSERVER_VERSION": "1.2.3",
			"CELLSERVER_HELP": "yes", "CELLSERVER_V": "true"}},
		{name: "a file", file: "port 7000\nmaxclients 9\n", want: pairs{"port": "7000", "maxclients": "9"}},
		{name: "an empty file", file: ""},
		{name: "comments, blank lines and white space", file: "# port 1\n\n \t\n   # port 2\n\tport \t 7000  \n#",
			want: pairs{"port": "7000"}},
		{name: "lines that end as on Windows", file: "port 7000\r\nmaxclients 9\r\n", want: pairs{"port": "7000", "maxclients": "9"}},
		{name: "a file without a last line end", file: "port 7000", want: pairs{"port": "7000"}},
		{name: "any case", file: "PORT 7000\nLogLevel WARNING\n", want: pairs{"port": "7000", "loglevel": "warning"}},
		{name: "double quotes", file: `logfile "a \"b\"\tc\x21"`, want: pairs{"logfile": "a \"b\"\tc!"}},
		{name: "single quotes", file: `logfile 'a\tb \'c\''`, want: pairs{"logfile": `a\tb 'c'`}},
		{name: "a hash within a value", file: `logfile a#b`, want: pairs{"logfile": "a#b"}},
		{name: "nothing between quotes", file: "save \"\"\nlogfile ''\n"},
		{name: "several words", file: "bind 127.0.0.1 ::1\nclient-output-buffer-limit normal 1mb 2kb 3\n",
			want: pairs{"bind": "127.0.0.1 ::1", "client-output-buffer-limit": "normal 1048576 2048 3"}},
		{name: "the last of two lines", file: "port 7000\nport 7001\n", want: pairs{"port": "7001"}},
		{name: "a flag wins over a variable, and that over the file",
			args: []string{"--port", "7003"},
			env:  pairs{"CELLSERVER_PORT": "7002", "CELLSERVER_MAXCLIENTS": "2"},
			file: "port 7001\nmaxclients 1\ntimeout 1\n",
			want: pairs{"port": "7003", "maxclients": "2", "timeout": "1"}},
		{name: "what stays as it is may be said",
			file: "databases 16\nsave \"\"\nappendonly no\n", args: []string{"--save", "", "--appendonly", "NO"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for name, value := range row.env {
				t.Setenv(name, value)
			}
			args := row.args
			if row.file != "" {
				args = append([]string{file(t, row.file)}, args...)
			}
			got, err := options.Parse(args)
			require.NoError(t, err)
			if row.want == nil {
				row.want = pairs{}
			}
			assert.Equal(t, row.want, changed(got))
		})
	}
}

func TestWrongOptionsAreOneClearLine(t *testing.T) {
	// Each error is one line that says where the fault is. %f stands for the file.
	for _, row := range []struct {
		name, file string
		args       []string
		env        string // a variable and its value
		want       []string
	}{
		{name: "an unknown flag", args: []string{"--prot", "7000"}, want: []string{`unknown option "prot": did you mean "port"?`}},
		{name: "an unknown flag with one dash", args: []string{"-prot=7000"}, want: []string{`unknown option "prot": did you mean "port"?`}},
		{name: "nothing like any option", args: []string{"--zzzzzzzz"}, want: []string{`unknown option "zzzzzzzz"`}},
		{name: "a value that is missing", args: []string{"--port"}, want: []string{"--port", "needs a value"}},
		{name: "no number", args: []string{"--port", "http"}, want: []string{"--port", `"http"`, "integer"}},
		{name: "out of bounds", args: []string{"--port", "65536"}, want: []string{"--port", `"65536"`, "between 0 and 65535"}},
		{name: "a word too many", args: []string{"--bind", "127.0.0.1", "::1"}, want: []string{`"::1"`, "quoted"}},
		{name: "a file behind the flags", args: []string{"--port", "7000", "cell.conf"}, want: []string{`"cell.conf"`, "comes first"}},
		{name: "a file that is not there", args: []string{"/nonexistent/cell.conf"}, want: []string{"/nonexistent/cell.conf", "no such file"}},
		{name: "a bad variable", env: "CELLSERVER_PORT=http", want: []string{"CELLSERVER_PORT", "http", "integer"}},
		{name: "a variable that Kubernetes sets", env: "CELLSERVER_PORT=tcp://10.0.0.1:6379",
			want: []string{"CELLSERVER_PORT", "enableServiceLinks"}},
		{name: "an unknown line", file: "port 7000\n# more\nmaxclient 5\n",
			want: []string{`%f:3: unknown option "maxclient": did you mean "maxclients"?`}},
		{name: "a bad line", file: "\n\ntimeout soon\n", want: []string{"%f:3: ", "timeout", "integer"}},
		{name: "a line without a value", file: "timeout\n", want: []string{"%f:1: ", `"timeout"`, "needs a value"}},
		{name: "quotes that do not match", file: "port 7000\nlogfile \"a\n", want: []string{"%f:2: ", "unbalanced quotes"}},
		{name: "what only a flag can say", file: "help yes\n", want: []string{`%f:1: unknown option "help"`}},
		{name: "a line that begins with a NUL", file: "\x00port 7000\n", want: []string{"%f:1: "}},
		{name: "databases", file: "databases 257\n", want: []string{"%f:1: ", "databases", "between 1 and 256"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if name, value, ok := strings.Cut(row.env, "="); ok {
				t.Setenv(name, value)
			}
			args, path := row.args, ""
			if row.file != "" {
				path = file(t, row.file)
				args = append([]string{path}, args...)
			}
			_, err := options.Parse(args)
			require.Error(t, err)
			for _, part := range row.want {
				assert.Contains(t, err.Error(), strings.ReplaceAll(part, "%f", path))
			}
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, row := range []struct {
		args []string
		want error
	}{
		{[]string{"--help"}, options.ErrHelp},
		{[]string{"-help"}, options.ErrHelp},
		{[]string{"-h"}, options.ErrHelp},
		{[]string{"--port", "7000", "--help"}, options.ErrHelp},
		{[]string{"--version"}, options.ErrVersion},
		{[]string{"-v"}, options.ErrVersion},
	} {
		_, err := options.Parse(row.args)
		assert.ErrorIs(t, err, row.want, "%q", row.args)
	}
}

// others are further valid texts for each option, and how the option shows them.
var others = map[string]map[string]string{
	"bind":                        {"*": "*", "::*": "::*", " 10.0.0.1  -::1 ": "10.0.0.1 -::1"},
	"port":                        {"0": "0", "1": "1", "65535": "65535"},
	"unixsocket":                  {"/run/a b": "/run/a b"},
	"unixsocketperm":              {"700": "700", "0770": "770", "777": "777"},
	"protected-mode":              {"no": "no", "YES": "yes"},
	"tls-port":                    {"1": "1", "65535": "65535"},
	"tls-cert-file":               {"/etc/a b.crt": "/etc/a b.crt"},
	"tls-key-file":                {"/etc/a b.key": "/etc/a b.key"},
	"tls-ca-cert-file":            {"/etc/a b.crt": "/etc/a b.crt"},
	"tls-ca-cert-dir":             {"/etc/ssl/certs": "/etc/ssl/certs"},
	"tls-auth-clients":            {"no": "no", "Optional": "optional"},
	"tls-protocols":               {"": "TLSv1.2 TLSv1.3", "tlsv1.2": "TLSv1.2", "TLSv1.3": "TLSv1.3", " TLSv1.3  TLSv1.2 TLSv1.3": "TLSv1.2 TLSv1.3"},
	"tls-prefer-server-ciphers":   {"NO": "no"},
	"tls-handshake-timeout":       {"1": "1", "3600": "3600"},
	"maxclients":                  {"1": "1", "4294967295": "4294967295"},
	"timeout":                     {"1": "1", "2147483647": "2147483647"},
	"tcp-keepalive":               {"0": "0", "60": "60"},
	"proto-max-bulk-len":          {"2mb": "2097152", "512MB": "536870912", "2m": "2000000"},
	"client-query-buffer-limit":   {"1gb": "1073741824", "1g": "1000000000"},
	"client-output-buffer-limit":  {"normal 0 0 0": "normal 0 0 0", "NORMAL 1gb 1k 7": "normal 1073741824 1000 7"},
	"max-key-bytes":               {"1": "1", "1b": "1", "1mb": "1048576", "1K": "1000"},
	"zslide-max-log":              {"1": "1", "2147483647": "2147483647"},
	"maxmemory":                   {"0": "0", "1kb": "1024", "100mb": "104857600"},
	"maxmemory-policy":            {"noeviction": "noeviction", "EVICT-SOONEST": "evict-soonest"},
	"shutdown-timeout":            {"0": "0", "3600": "3600"},
	"slowlog-log-slower-than":     {"-1": "-1", "0": "0", "2147483647": "2147483647"},
	"slowlog-max-len":             {"0": "0", "1048576": "1048576"},
	"latency-monitor-threshold":   {"100": "100"},
	"requirepass":                 {"secret": "secret", "a b": "a b"},
	"aclfile":                     {"/etc/users.acl": "/etc/users.acl"},
	"loglevel":                    {"debug": "debug", "Verbose": "verbose", "WARNING": "warning", "nothing": "nothing"},
	"logfile":                     {"/var/log/a b": "/var/log/a b"},
	"databases":                   {"1": "1", "256": "256"},
	"dir":                         {"/var/lib/a b": "/var/lib/a b", "/var/lib/../tmp/": "/var/tmp"},
	"multi-max-commands":          {"1": "1", "2147483647": "2147483647"},
	"enable-debug-command":        {"LOCAL": "local", "yes": "yes"},
	"save":                        {"300 1": "300 1", " 300  1 60 1000": "300 1 60 1000", "1 0": "1 0"},
	"dbfilename":                  {"dump.rdb": "dump.rdb", "a b": "a b"},
	"stop-writes-on-bgsave-error": {"no": "no", "YES": "yes"},
	"appendonly":                  {"NO": "no", "yes": "yes"},
	"appendfilename":              {"j": "j"},
	"appendfsync":                 {"always": "always", "No": "no"},
	"auto-aof-rewrite-percentage": {"0": "0", "2147483647": "2147483647"},
	"auto-aof-rewrite-min-size":   {"0": "0", "1gb": "1073741824"},
	"store": {
		"valkey://127.0.0.1": "valkey://127.0.0.1:6379", "redis://a:1,b,[::1]:7000,[fe80::1%25]": "redis://a:1,b:6379,[::1]:7000,[fe80::1%25]:6379",
		"VALKEYS://host.example:6380/0": "valkeys://host.example:6380", "rediss://h/": "rediss://h:6379",
		"valkey://user:pass@h": "valkey://h:6379", "valkey://:p@ss/w:o?rd@h": "valkey://h:6379", "redis://us%40er:p%25@h,i": "redis://h:6379,i:6379",
		"valkey://a,a:6379": "valkey://a:6379",
	},
	"store-user":              {"cell": "cell"},
	"store-password":          {"secret": "(redacted)", "a b": "(redacted)"},
	"store-password-file":     {"/run/secrets/a b": "/run/secrets/a b"},
	"store-sentinel":          {"mymaster": "mymaster"},
	"store-sentinel-user":     {"cell": "cell"},
	"store-sentinel-password": {"secret": "(redacted)"},
	"store-tls-ca-cert-file":  {"/etc/a b.crt": "/etc/a b.crt"},
	"store-tls-cert-file":     {"/etc/a b.crt": "/etc/a b.crt"},
	"store-tls-key-file":      {"/etc/a b.key": "/etc/a b.key"},
	"store-prefix":            {"": "", "{x}:": "{x}:", "a b": "a b"},
	"store-timeout":           {"1": "1", "2147483647": "2147483647"},
	"store-failure":           {"ADMIT": "admit", "refuse": "refuse"},
	"store-refusal-cache":     {"0": "0", "1000": "1000"},
	"store-min-replicas":      {"1": "1", "1000": "1000"},
	"store-cache":             {"1mb": "1048576", "4gb": "4294967296"},
}

// wrong are invalid texts for each option.
var wrong = map[string][]string{
	"bind":                      {},
	"port":                      {"", "-1", "65536", "6379.0", " 6379", "0x18eb", "+6379", "06379", "-0"},
	"unixsocket":                {},
	"unixsocketperm":            {"", "8", "-1", "1777", "rwx", "0x1ff"},
	"protected-mode":            {"", "maybe"},
	"tls-port":                  {"", "-1", "65536"},
	"tls-cert-file":             {},
	"tls-key-file":              {},
	"tls-ca-cert-file":          {},
	"tls-ca-cert-dir":           {},
	"tls-auth-clients":          {"", "maybe", "yes no"},
	"tls-protocols":             {"TLSv1", "TLSv1.1 TLSv1.2", "SSLv3", "1.3", "TLSv1.2,TLSv1.3"},
	"tls-prefer-server-ciphers": {"", "yes"},
	"tls-handshake-timeout":     {"", "0", "3601", "10s"},
	"maxclients":                {"", "0", "-1", "4294967296"},
	"timeout":                   {"", "-1", "1s", "2147483648", "99999999999999999999"},
	"tcp-keepalive":             {"", "-1", "yes"},
	"proto-max-bulk-len":        {"", "0", "-1", "1048575", "512.5mb", "1tb", "mb", "1 mb", "1mbb", "513mb"},
	"client-query-buffer-limit": {"", "1", "1025mb", "9223372036854775807gb"},
	"client-output-buffer-limit": {"", "normal", "normal 1 2", "normal 1 2 3 4", "replica 1 2 3", "normal a 2 3", "normal 1 b 3",
		"normal 1 2 c", "normal -1 0 0", "normal 0 -1 0", "normal 0 0 -1"},
	"max-key-bytes":               {"", "0", "1025kb", "9223372036854775808"},
	"zslide-max-log":              {"", "0", "2147483648", "1kb"},
	"maxmemory":                   {"", "-1", "0%", "101%", "x%", "1tb"},
	"maxmemory-policy":            {"", "allkeys-lru"},
	"shutdown-timeout":            {"", "-1"},
	"slowlog-log-slower-than":     {"", "-2", "1ms"},
	"slowlog-max-len":             {"", "-1", "1048577"},
	"latency-monitor-threshold":   {"", "-1"},
	"requirepass":                 {strings.Repeat("x", 513)},
	"aclfile":                     {},
	"loglevel":                    {"", "info", "1"},
	"logfile":                     {},
	"databases":                   {"", "0", "-1", "257", "16.0"},
	"dir":                         {},
	"multi-max-commands":          {"", "0", "-1", "2147483648", "+1", "01"},
	"enable-debug-command":        {"", "maybe"},
	"save":                        {"no", "300", "300 1 60", "0 1", "-1 1", "1 -1", "1.5 1", "2147483648 1"},
	"dbfilename":                  {"", ".", "..", "a/b", "/a", "../a"},
	"stop-writes-on-bgsave-error": {"", "maybe", "1"},
	"appendonly":                  {"", "true"},
	"appendfilename":              {"", "a/b", ".."},
	"appendfsync":                 {"", "sometimes"},
	"auto-aof-rewrite-percentage": {"", "-1", "100%"},
	"auto-aof-rewrite-min-size":   {"", "-1", "x"},
	"store": {
		"127.0.0.1:6379", "http://h", "valkey:", "valkey://", "valkey:///0", "valkey://h/1", "valkey://h/0/0", "valkey://h?db=0", "valkey://h#x",
		"valkey://h:0", "valkey://h:65536", "valkey://h:", "valkey://h:+1", "valkey://h:port", "valkey://a,,b", "valkey://::1", "valkey://[::1", "valkey://[h]:1",
		"valkey://[::1]x", "valkey://a b", "valkey://user:%zz@h", "valkey://%@h", "unix:///tmp/socket", "valkey://h:1:2", "valkey://a\tb", "valkey://:6379",
	},
	"store-user":              {"a b"},
	"store-password":          {strings.Repeat("x", 513)},
	"store-password-file":     {},
	"store-sentinel":          {"my master"},
	"store-sentinel-user":     {"a\nb"},
	"store-sentinel-password": {strings.Repeat("x", 513)},
	"store-tls-ca-cert-file":  {},
	"store-tls-cert-file":     {},
	"store-tls-key-file":      {},
	"store-prefix":            {strings.Repeat("x", 129)},
	"store-timeout":           {"", "0", "-1", "50ms", "2147483648"},
	"store-failure":           {"", "open"},
	"store-refusal-cache":     {"", "-1", "0.1"},
	"store-min-replicas":      {"", "-1", "1001"},
	"store-cache":             {"", "0", "1023kb", "1tb"},
}

func TestEveryOption(t *testing.T) {
	help := options.Help()
	shown := values(options.Defaults())
	require.Len(t, shown, len(options.Table))
	for i := range options.Table {
		o := &options.Table[i]
		t.Run(o.Name, func(t *testing.T) {
			assert.Regexp(t, `^[a-z]+(-[a-z]+)*$`, o.Name)
			assert.NotEmpty(t, o.Help)
			assert.NotEmpty(t, o.Hint())
			assert.Contains(t, help, "--"+o.Name+" ")
			assert.Contains(t, help, o.Help)

			byFlag := func(text string) (string, error) {
				s, err := options.Parse([]string{"--" + o.Name, text})
				return values(s)[o.Name], err
			}
			got, err := byFlag(o.Default)
			require.NoError(t, err, "the default")
			assert.Equal(t, shown[o.Name], got)

			require.Contains(t, others, o.Name)
			for text, want := range others[o.Name] {
				got, err := byFlag(text)
				require.NoError(t, err, "%q", text)
				assert.Equal(t, want, got)
				again, err := byFlag(got)
				require.NoError(t, err, "what is shown can be said")
				assert.Equal(t, got, again)
			}
			require.Contains(t, wrong, o.Name)
			for _, text := range wrong[o.Name] {
				got, err := byFlag(text)
				require.Error(t, err, "%q", text)
				assert.NotContains(t, err.Error(), "\n")
				assert.Equal(t, shown[o.Name], got, "and nothing changes")
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	s := options.Defaults()
	assert.Equal(t, []string{"127.0.0.1"}, s.Bind)
	assert.EqualValues(t, 6379, s.Port)
	assert.Equal(t, resp.DefaultBounds(), s.Wire)
	assert.EqualValues(t, 1000000, s.Wire.MaxLog)
	assert.Equal(t, slog.LevelInfo, s.LogLevel)
	assert.Equal(t, 10*time.Second, s.ShutdownTimeout)
}

func TestVariablesThatSetNothingAreNamed(t *testing.T) {
	t.Setenv("CELLSERVER_PORT", "7000")
	t.Setenv("CELLSERVER_MAX_KEY_BYTES", "7")
	assert.Empty(t, options.UnknownInEnvironment())
	t.Setenv("CELLSERVER_MAXCLIENT", "7000")
	t.Setenv("CELLSERVERPORT", "7000")
	assert.Equal(t, []string{`CELLSERVER_MAXCLIENT: unknown option "maxclient": did you mean "maxclients"?`},
		options.UnknownInEnvironment())
}

func TestConfigSetChangesAllOrNothing(t *testing.T) {
	type pairs = [][2]string
	for _, row := range []struct {
		name    string
		pairs   pairs
		at      string // the option at fault, if there is one
		unknown bool
		reason  string
		want    map[string]string // the options that are not at their defaults afterwards
	}{
		{name: "one", pairs: pairs{{"timeout", "5"}}, want: map[string]string{"timeout": "5"}},
		{name: "several", pairs: pairs{{"timeout", "5"}, {"MaxClients", "7"}, {"max-key-bytes", "1kb"}},
			want: map[string]string{"timeout": "5", "maxclients": "7", "max-key-bytes": "1024"}},
		{name: "a bad value behind a good one", pairs: pairs{{"timeout", "5"}, {"maxclients", "0"}},
			at: "maxclients", reason: "argument must be between 1 and 4294967295 inclusive"},
		{name: "an unknown option behind a good one", pairs: pairs{{"timeout", "5"}, {"nosuch", "0"}}, at: "nosuch", unknown: true},
		{name: "what cannot be changed", pairs: pairs{{"timeout", "5"}, {"port", "7000"}}, at: "port", reason: "can't set immutable config"},
		{name: "a path", pairs: pairs{{"logfile", "/etc/passwd"}}, at: "logfile", reason: "can't set immutable config"},
		{name: "a certificate", pairs: pairs{{"tls-cert-file", "/tmp/mine"}}, at: "tls-cert-file", reason: "can't set immutable config"},
		{name: "a private key", pairs: pairs{{"tls-key-file", "/tmp/mine"}}, at: "tls-key-file", reason: "can't set immutable config"},
		{name: "the same twice", pairs: pairs{{"timeout", "5"}, {"TIMEOUT", "6"}}, at: "TIMEOUT", reason: "duplicate parameter"},
		{name: "part of a value", pairs: pairs{{"client-output-buffer-limit", "normal 1mb 2mb soon"}}, at: "client-output-buffer-limit",
			reason: "soft_seconds setting in buffer limit configuration"},
	} {
		t.Run(row.name, func(t *testing.T) {
			applied := 0
			var got options.Settings
			live := options.NewLive(options.Defaults(), func(s options.Settings) error { applied++; got = s; return nil })
			err := live.Set(row.pairs)
			if row.at != "" {
				var bad *resp.OptionError
				require.ErrorAs(t, err, &bad)
				assert.Equal(t, row.at, bad.Name)
				assert.Equal(t, row.unknown, bad.Unknown)
				assert.Contains(t, bad.Reason, row.reason)
				assert.Empty(t, changed(live.Settings()), "all or nothing")
				assert.Zero(t, applied)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, row.want, changed(live.Settings()))
			assert.Equal(t, 1, applied, "all at once")
			assert.Equal(t, live.Settings(), got)
		})
	}
}

func TestSettingsCanBeReadWhileTheyChange(t *testing.T) {
	live := options.NewLive(options.Defaults(), func(options.Settings) error { return nil })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			assert.NoError(t, live.Set([][2]string{{"timeout", "5"}, {"maxclients", "5"}}))
			assert.NoError(t, live.Set([][2]string{{"timeout", "6"}, {"maxclients", "6"}}))
		}
	}()
	for range 1000 {
		all := make(map[string]string)
		live.Each(func(name, value string) { all[name] = value })
		if all["timeout"] != "0" {
			assert.Equal(t, all["timeout"], all["maxclients"])
		}
	}
	<-done
}

// FuzzConfigFile gives Parse any file. Parse must either return an error of one line, or settings within bounds that can
// be written and read again.
func FuzzConfigFile(f *testing.F) {
	for name, texts := range others {
		for text := range texts {
			f.Add([]byte(name + " " + text + "\n"))
		}
	}
	for _, content := range []string{
		"", "\n", "#", "# only a comment", "port 7000\r\nbind * -::1\r\n", "logfile \"\\x41\\n\\\"\"\n", "logfile 'a", "save \"\"\n",
		"port", "\x00", "port \x00", " \x00 port 1\n", "port\v7000", "\ufeffport 7000", "max-key-bytes 1\u212ab",
		"client-output-buffer-limit normal 1 1 2147483647", "client-output-buffer-limit normal 9223372036854775807 8eb 1",
	} {
		f.Add([]byte(content))
	}
	path := filepath.Join(f.TempDir(), "cell.conf")
	f.Fuzz(func(t *testing.T, content []byte) {
		require.NoError(t, os.WriteFile(path, content, 0o600))
		s, err := options.Parse([]string{path})
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), path+":"), "%v", err)
			return
		}
		w := s.Wire
		for _, n := range []struct{ value, low, high int64 }{
			{s.Port, 0, 65535}, {s.TLS.Port, 0, 65535}, {s.UnixSocketPerm, 0, 0o777}, {s.Wire.MaxLog, 1, math.MaxInt32}, {s.Databases, 1, 256}, {int64(s.ShutdownTimeout), 0, math.MaxInt64},
			{w.MaxBulk, 1 << 20, 512 << 20}, {w.QueryBuffer, 1 << 20, 1 << 30}, {w.MaxKey, 1, 1 << 20},
			{w.MaxClients, 1, math.MaxUint32}, {int64(w.Timeout), 0, math.MaxInt64}, {int64(w.KeepAlive), 0, math.MaxInt64},
			{w.Output.Hard, 0, math.MaxInt64}, {w.Output.Soft, 0, math.MaxInt64}, {int64(w.Output.SoftFor), 0, math.MaxInt64},
		} {
			require.GreaterOrEqual(t, n.value, n.low)
			require.LessOrEqual(t, n.value, n.high)
		}
		var flags []string
		for name, value := range changed(s) {
			flags = append(flags, "--"+name+"="+value)
		}
		again, err := options.Parse(flags)
		require.NoError(t, err)
		for _, of := range []*options.Store{&s.Store, &again.Store} { // what is not shown cannot be said
			of.URL.User, of.URL.Password, of.Password, of.SentinelPassword = "", "", "", ""
		}
		require.Equal(t, s, again)
	})
}
