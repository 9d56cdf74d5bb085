package options

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/peterbourgon/ff/v3"

	"cellserver/resp/frame"
)

// EnvPrefix begins the name of every environment variable that is an option.
const EnvPrefix = "CELLSERVER"

// ErrHelp and ErrVersion are returned by Parse when the command line asks for the help or the version.
var (
	ErrHelp    = flag.ErrHelp
	ErrVersion = errors.New("version asked for")
)

// setter is the flag.Value of an Option.
type setter struct {
	option   *Option
	settings *Settings
}

func (v setter) String() string        { return "" }
func (v setter) Set(text string) error { return v.option.value.parse(v.settings, text) }

// Parse reads the command line (without the program's name), the environment, and the configuration file if the first
// argument names one. Of these three, the first that sets an option wins. Its errors are one line, and name the option
// and where it was set.
func Parse(args []string) (Settings, error) {
	s := Defaults()
	flags := flag.NewFlagSet("cellserver", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for i := range Table {
		flags.Var(setter{&Table[i], &s}, Table[i].Name, Table[i].Help)
	}
	if slices.ContainsFunc(args, asksVersion) {
		return s, ErrVersion
	}
	use := []ff.Option{ff.WithEnvVarPrefix(EnvPrefix)}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		file := args[0]
		args = args[1:]
		if file == "" {
			return s, errors.New("the name of the configuration file is empty")
		}
		use = append(use, ff.WithConfigFile(file), ff.WithConfigFileParser(
			func(r io.Reader, set func(name, value string) error) error {
				return parseFile(file, r, set)
			}))
	}
	if err := ff.Parse(flags, args, use...); err != nil {
		return s, explain(err)
	}
	if rest := flags.Args(); len(rest) > 0 {
		what := strconv.Quote(rest[0])
		if at := len(args) - len(rest) - 2; at >= 0 && isSecret(strings.TrimLeft(args[at], "-")) {
			what = "behind " + args[at] // it may be the rest of a password
		}
		return s, fmt.Errorf("unexpected argument %s: a configuration file comes first, and a value with spaces is quoted, as in --bind \"127.0.0.1 ::1\"", what)
	}
	return s, nil
}

// isSecret reports whether the text of an option may have a password in it.
func isSecret(name string) bool {
	o := find(name)
	return o != nil && o.value.secret
}

// asksVersion reports whether an argument asks for the version. It is not a flag of the set, because CELLSERVER_VERSION
// would set that.
func asksVersion(arg string) bool { return arg == "--version" || arg == "-version" || arg == "-v" }

// parseFile reads lines of "name value", in Redis's quoting; # begins a comment line.
func parseFile(file string, r io.Reader, set func(name, value string) error) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		words, ok := frame.SplitArgs(line)
		switch {
		case !ok:
			err = errors.New("unbalanced quotes")
		case len(words) == 0:
			err = errors.New("a line begins with a NUL")
		case len(words) < 2:
			err = fmt.Errorf("%q needs a value", words[0])
		case find(words[0]) == nil:
			err = unknown(words[0])
		default:
			err = set(strings.ToLower(words[0]), strings.Join(words[1:], " "))
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
	}
	return nil
}

// The texts of errors of packages ff and flag, with the parts that explain keeps.
var (
	undefinedFlag = regexp.MustCompile(`flag provided but not defined: -+(.*)`)
	missingValue  = regexp.MustCompile(`flag needs an argument: -(.*)`)
	badFlag       = regexp.MustCompile(`invalid value (".*") for flag -([a-z-]+): (.*)`)
	badVariable   = regexp.MustCompile(`from environment variable "(.*?)": (.*)`)
	badLine       = regexp.MustCompile(`^(.*:\d+: )error setting flag "(.*?)" from config file: (.*)`)
)

// explain turns an error of ff.Parse into one clear line.
func explain(err error) error {
	if errors.Is(err, ErrHelp) {
		return ErrHelp
	}
	text := err.Error()
	if m := undefinedFlag.FindStringSubmatch(text); m != nil {
		return unknown(m[1])
	}
	if m := missingValue.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("--%s needs a value", m[1])
	}
	if badFlag.MatchString(text) {
		return ExplainFlag(err)
	}
	if m := badVariable.FindStringSubmatch(text); m != nil && isSecret(strings.ReplaceAll(strings.TrimPrefix(m[1], EnvPrefix+"_"), "_", "-")) {
		return fmt.Errorf("%s: %s", m[1], m[2])
	} else if m != nil {
		hint := ""
		if m[1] == "CELLSERVER_PORT" && strings.HasPrefix(os.Getenv(m[1]), "tcp://") {
			hint = " (Kubernetes sets this for a service named cellserver: enableServiceLinks: false stops it)"
		}
		return fmt.Errorf("%s=%q: %s%s", m[1], os.Getenv(m[1]), m[2], hint)
	}
	if m := badLine.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s%s: %s", m[1], m[2], m[3])
	}
	return err
}

// ExplainFlag turns an error of package flag for the value of an option into one clear line, without a value that may have a password
// in it. It returns other errors unchanged.
func ExplainFlag(err error) error {
	m := badFlag.FindStringSubmatch(err.Error())
	switch {
	case m == nil:
		return err
	case isSecret(m[2]):
		return fmt.Errorf("--%s: %s", m[2], m[3])
	}
	return fmt.Errorf("--%s %s: %s", m[2], m[1], m[3])
}

// UnknownInEnvironment returns the environment variables that begin with EnvPrefix and are no options, each with the
// option that was probably meant.
func UnknownInEnvironment() []string {
	var names []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		option, ok := strings.CutPrefix(name, EnvPrefix+"_")
		if ok && find(strings.ReplaceAll(option, "_", "-")) == nil {
			names = append(names, fmt.Sprintf("%s: %v", name, unknown(strings.ToLower(strings.ReplaceAll(option, "_", "-")))))
		}
	}
	return names
}

// Help returns the text of --help.
func Help() string {
	var b strings.Builder
	b.WriteString(`cellserver answers "may this happen now?" to any Redis client.

Usage:
  cellserver [file] [--name value ...]
  cellserver check FILE             is a snapshot or a journal sound? (see check --help)
  cellserver import redis://...     bring the buckets of redis-cell over (see import --help)
  cellserver import FILE --to valkey://...
                                    bring a snapshot or a journal to an engine for --store
  cellserver scripts                list the Lua scripts that the server knows

The file has lines of "name value", as redis.conf has. An option may also come from the environment, as
CELLSERVER_NAME with underscores. A flag wins over the environment, and that over the file.

Options:
`)
	for i := range Table {
		o := &Table[i]
		change := ""
		if o.Mutable {
			change = "; CONFIG SET changes it"
		}
		fmt.Fprintf(&b, "  --%s %s\n        %s (default %q%s)\n", o.Name, o.Hint(), o.Help, o.Default, change)
	}
	b.WriteString(`  --help
        print this
  --version
        print the version

Try it:
  cellserver --port 7000 --maxclients 100
  redis-cli -p 7000 CL.THROTTLE user123 15 30 60 1
`)
	return b.String()
}
