package importer

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"cellserver/cmd/cellserver/options"
)

// plan is what the arguments say.
type plan struct {
	source     *redis.Options
	sourceName string         // without its password
	target     string         // as it may be shown
	server     *redis.Options // the target, when it is a server
	match      string
	dryRun     bool

	sourceFile string           // instead of source
	engine     options.Settings // whose Store is the target, if it is enabled
	replace    bool             // keys that are in the engine
}

// goesOn reports whether an import that did not complete has written a part, with which another goes on.
func (p *plan) goesOn() bool { return p.server != nil || p.engine.Store.Enabled() }

// errHelp is returned for --help.
var errHelp = flag.ErrHelp

const helpText = `Usage: cellserver import [options] redis://[user:password@]host:port[/database]
       cellserver import [options] FILE --to valkey://host:port

Reads the buckets of the redis-cell module out of a running Redis, changes nothing there, and writes them into a file
that cellserver loads when it starts, or into a running cellserver, or into an engine for cellserver --store.

Or reads a snapshot or a journal of cellserver, and writes its keys into such an engine, with their deadlines.

Options:
  --to FILE      the file to write%s
  --to URL       a running cellserver, as in redis://127.0.0.1:6379, or an engine, as in valkey://127.0.0.1:6379: the
                 schemes valkey and valkeys are of engines, and when a FILE is imported, so are redis and rediss
  --replace      overwrite keys that an engine has already, instead of skipping them
  --match GLOB   only keys that match, as in SCAN's MATCH
  --dry-run      read and count, but write nothing
  --help         print this

The source may also be rediss://... for TLS, or unix:///path/to/socket?db=0. Its user needs SCAN, GETRANGE, PTTL and TIME.

A key is taken when it is a string that holds a decimal number of nanoseconds of Unix time, from a day ago to 146 years
ahead, and when it expires at that time, give or take a minute: as redis-cell leaves it. Everything else is skipped, and
counted by the reason. So are buckets that are full already. Keys that come, go or change in the meantime may or may not
be seen: stop what asks redis-cell before the import if that matters.

A database of the source is imported by itself. In a file the keys are in the database of the same number; a running
server has them in the database that its URL names, which is 0 unless it names one.

A file has every bucket to the nanosecond, and is written when all of them were read, or not at all. A running server is
asked with CL.THROTTLE to make each bucket anew, which takes this machine's clock and one round trip: it is full again
that much later than in Redis, and never earlier, if the clocks agree. Keys that the server has already are skipped.

An engine gets each key as it is, to the nanosecond. Keys that it has already are skipped, so that another import goes on
where one has ended. A FILE is read whole before anything is written: one that is not sound, or has keys of another
database than 0, changes nothing. The options for an engine are those of cellserver, also from the environment, as
CELLSERVER_STORE_PASSWORD:

%s`

func help(c Config) string {
	preset := ""
	if c.Target != "" {
		preset = ", " + c.Target + " unless it is given"
	}
	return fmt.Sprintf(helpText, preset, options.StoreHelp())
}

// usage returns an error of the arguments, which wraps ErrUsage.
func usage(format string, a ...any) error {
	return fmt.Errorf("import: %s (%w)", fmt.Sprintf(format, a...), ErrUsage)
}

// parse reads the arguments; options may stand before and after the source. It does not connect.
func parse(c Config, args []string) (*plan, error) {
	p := new(plan)
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	to := flags.String("to", c.Target, "")
	flags.StringVar(&p.match, "match", "", "")
	flags.BoolVar(&p.dryRun, "dry-run", false, "")
	flags.BoolVar(&p.replace, "replace", false, "")
	p.engine = options.Defaults()
	fromEnvironment := options.AddStoreFlags(flags, &p.engine)
	sources, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return nil, err
	case len(sources) == 0:
		return nil, usage("from where? redis://host:port is missing")
	case len(sources) > 1:
		return nil, usage("one source at a time, not %q as well", shown(sources[1]))
	case *to == "" && !p.dryRun:
		return nil, usage("to where? --to is missing")
	}
	p.target = *to
	scheme, _, isURL := strings.Cut(*to, "://")
	if p.sourceName = sources[0]; !strings.Contains(sources[0], "://") {
		p.sourceFile = sources[0]
	}
	if isURL && (p.sourceFile != "" || strings.EqualFold(scheme, "valkey") || strings.EqualFold(scheme, "valkeys")) {
		if err := p.toEngine(*to, fromEnvironment); err != nil {
			return nil, err
		}
	} else if given := engineFlag(flags); given != "" {
		return nil, usage("--%s is for an engine, as in --to valkey://host:port", given)
	}
	if p.sourceFile != "" {
		return p, p.fileFault()
	}
	if p.source, err = serverAt(sources[0]); err != nil {
		return nil, err
	}
	p.sourceName = shown(sources[0])
	if isURL && !p.engine.Store.Enabled() {
		if p.server, err = serverAt(*to); err != nil {
			return nil, err
		}
		p.target = shown(*to)
		if p.server.Network == p.source.Network && p.server.Addr == p.source.Addr {
			return nil, usage("%s cannot be imported into itself", p.target)
		}
	}
	return p, nil
}

// parseFlags parses flags, and returns the other arguments, which may stand before and after them.
func parseFlags(flags *flag.FlagSet, args []string) (others []string, err error) {
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, errHelp
		} else if err != nil {
			return nil, usage("%v", options.ExplainFlag(err))
		}
		if flags.NArg() == 0 {
			return others, nil
		}
		others = append(others, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// engineFlag returns the name of a flag that was given and is for engines, or "".
func engineFlag(flags *flag.FlagSet) (name string) {
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "replace" || strings.HasPrefix(f.Name, "store-") {
			name = f.Name
		}
	})
	return name
}

// toEngine makes an engine the target.
func (p *plan) toEngine(to string, fromEnvironment func() error) (err error) {
	store := &p.engine.Store
	if store.URL, err = options.ParseStoreURL(to); err != nil {
		return usage("--to: %v", err)
	}
	if err = fromEnvironment(); err == nil {
		err = p.engine.Check()
	}
	if err != nil {
		return usage("%v", err)
	}
	store.Timeout, store.RefusalCache = patience, 0 // nobody waits for a single key
	p.target = store.URL.String()
	return nil
}

// fileFault returns the error of what cannot be done with a file.
func (p *plan) fileFault() error {
	switch {
	case !p.engine.Store.Enabled() && !p.dryRun:
		return usage("a file is imported into an engine, as in --to valkey://host:port; cellserver itself loads it when it starts")
	case p.match != "":
		return usage("--match is for a running Redis")
	}
	return nil
}

// serverAt parses the URL of a server.
func serverAt(text string) (*redis.Options, error) {
	o, err := redis.ParseURL(text)
	if err == nil {
		return o, nil
	}
	if _, ok := errors.AsType[*url.Error](err); ok { // the text of url.Error may contain the password
		err = errors.New("it cannot be read; in a password, everything but letters and digits is written as %XX")
	}
	return nil, usage("%s is not the URL of a Redis: %v", shown(text), err)
}

// shown returns a URL without its password. It shows nothing of a URL that cannot be parsed, which may have a password
// anywhere.
func shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "what was given"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = "" // may have options of the client, and a password
	return u.String()
}
