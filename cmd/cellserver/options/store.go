package options

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Store are the settings of a store in a Valkey or Redis. Without a URL the keys are in memory, and the others mean nothing.
type Store struct {
	URL                            StoreURL
	User, Password, PasswordFile   string
	Sentinel                       string // the name of the master; the addresses are of sentinels then
	SentinelUser, SentinelPassword string
	CAFile, CertFile, KeyFile      string // of TLS
	Prefix                         string // of all keys

	Timeout      time.Duration // of a request
	RefusalCache time.Duration // how long a refusal may be answered from the state last seen; 0 is not at all
	Failure      string        // one of the constants below
	MinReplicas  int64
	Cache        int64 // bytes of the states that are remembered
}

// The values of store-failure.
const (
	FailError  = "error"
	FailAdmit  = "admit"
	FailRefuse = "refuse"
)

// StoreURL is where the engine is. The zero StoreURL is nowhere.
type StoreURL struct {
	scheme         string
	Addresses      []string // host:port, IPv6 in brackets
	User, Password string
}

// TLS reports whether connections to the engine are encrypted.
func (u *StoreURL) TLS() bool { return u.scheme == "valkeys" || u.scheme == "rediss" }

// String returns the URL without the user and the password.
func (u *StoreURL) String() string {
	if u.scheme == "" {
		return ""
	}
	return u.scheme + "://" + strings.Join(u.Addresses, ",")
}

// storePort is the port of an address that names none.
const storePort = "6379"

// ParseStoreURL parses scheme://[[user]:password@]host[:port][,host[:port]...][/0]. The text may have a password in it, so that its
// errors quote nothing of it but the scheme, hosts and ports.
func ParseStoreURL(text string) (u StoreURL, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if scheme = strings.ToLower(scheme); !ok || !slices.Contains([]string{"valkey", "valkeys", "redis", "rediss"}, scheme) {
		return u, errors.New("argument must be a URL as in valkey://host:6379 or valkeys://host:6379,host:6379; redis:// and rediss:// mean the same")
	}
	u.scheme = scheme
	// The last @ ends the user and the password, which may have any other character in them.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		if u.User, err = url.PathUnescape(user); err == nil {
			u.Password, err = url.PathUnescape(password)
		}
		if err != nil {
			return StoreURL{}, errors.New("the user or the password has a % that begins no %XX: write it as %25")
		}
		rest = rest[at+1:]
	}
	if strings.ContainsAny(rest, "?#") {
		return StoreURL{}, errors.New("the URL has no parameters: the options that begin with store- say the rest")
	}
	hosts, database, _ := strings.Cut(rest, "/")
	if database != "" && database != "0" {
		return StoreURL{}, errors.New("only database 0 is possible: a cluster has no other; store-prefix keeps keys apart")
	}
	for address := range strings.SplitSeq(hosts, ",") {
		if address, err = storeAddress(address); err != nil {
			return StoreURL{}, err
		}
		if !slices.Contains(u.Addresses, address) {
			u.Addresses = append(u.Addresses, address)
		}
	}
	return u, nil
}

// storeAddress returns the address of a server as host:port.
func storeAddress(text string) (string, error) {
	host, port := text, storePort
	bracketed := strings.HasPrefix(text, "[")
	if bracketed && !strings.HasSuffix(text, "]") || !bracketed && strings.Contains(text, ":") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			if strings.Count(text, ":") > 1 && !bracketed {
				return "", fmt.Errorf("%q is no host:port: an IPv6 address stands in brackets, as in [::1]:6379", text)
			}
			return "", fmt.Errorf("%q is no host:port", text)
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	switch n, err := strconv.ParseUint(port, 10, 16); {
	case err != nil || n == 0 || port[0] == '+':
		return "", fmt.Errorf("the port of %q must be between 1 and 65535", text)
	case host == "":
		return "", errors.New("the URL names no host")
	case bracketed && net.ParseIP(strings.Split(host, "%")[0]) == nil || !bracketed && strings.Contains(host, ":"):
		return "", fmt.Errorf("%q is no IPv6 address", host)
	case strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`[]<>"'\`, r) }):
		return "", fmt.Errorf("%q is no name of a host", host)
	default:
		return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
	}
}

// storeURL is a StoreURL, or nothing.
func storeURL(field func(*Settings) *StoreURL) value {
	return value{
		hint:   "url",
		secret: true,
		parse: func(s *Settings, text string) error {
			u := StoreURL{}
			if text != "" {
				var err error
				if u, err = ParseStoreURL(text); err != nil {
					return err
				}
			}
			*field(s) = u
			return nil
		},
		show: func(s *Settings) string { return field(s).String() },
	}
}

// hiddenPassword is a password that nothing shows.
func hiddenPassword(field func(*Settings) *string) value {
	v := password(field)
	v.show = func(s *Settings) string {
		if *field(s) == "" {
			return ""
		}
		return hiddenText
	}
	return v
}

// hiddenText is shown instead of a password.
const hiddenText = "(redacted)"

// Check returns an error if the settings contradict each other.
func (s *Settings) Check() error {
	if s.Store.URL.scheme == "" {
		return s.Store.checkUnused()
	}
	if err := s.Store.check(); err != nil {
		return err
	}
	switch {
	case len(s.Disk.SavePoints) > 0:
		return errors.New(`save is for keys in memory: with store, the engine keeps them, and writes its own snapshots (set save "")`)
	case s.Disk.Journal:
		return errors.New("appendonly is for keys in memory: with store, the engine keeps them, and writes its own journal (set appendonly no)")
	case s.Databases != 1 && s.Databases != Defaults().Databases:
		return errors.New("databases is for keys in memory: with store there is database 0 only, as in a cluster")
	}
	return nil
}

// checkUnused returns an error if an option says something about a store that is not named.
func (s *Store) checkUnused() error {
	for _, o := range []struct{ name, value string }{
		{"store-user", s.User}, {"store-password", s.Password}, {"store-password-file", s.PasswordFile},
		{"store-sentinel", s.Sentinel}, {"store-sentinel-user", s.SentinelUser}, {"store-sentinel-password", s.SentinelPassword},
		{"store-tls-ca-cert-file", s.CAFile}, {"store-tls-cert-file", s.CertFile}, {"store-tls-key-file", s.KeyFile},
	} {
		if o.value != "" {
			return fmt.Errorf("%s is set, but store is not", o.name)
		}
	}
	return nil
}

func (s *Store) check() error {
	given := 0
	for _, password := range []string{s.URL.Password, s.Password, s.PasswordFile} {
		if password != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("the password of the engine is set in more than one of store, store-password and store-password-file")
	case s.User != "" && s.URL.User != "":
		return errors.New("the user is set by store and by store-user")
	case given == 0 && (s.User != "" || s.URL.User != ""):
		return errors.New("the user of the engine has no password: set store-password or store-password-file")
	case s.Sentinel == "" && (s.SentinelUser != "" || s.SentinelPassword != ""):
		return errors.New("store-sentinel-user and store-sentinel-password need store-sentinel")
	case s.SentinelUser != "" && s.SentinelPassword == "":
		return errors.New("store-sentinel-user needs store-sentinel-password")
	case (s.CAFile != "" || s.CertFile != "" || s.KeyFile != "") && !s.URL.TLS():
		return fmt.Errorf("store-tls-... needs valkeys:// or rediss:// instead of %s://", s.URL.scheme)
	case (s.CertFile == "") != (s.KeyFile == ""):
		return errors.New("store-tls-cert-file and store-tls-key-file go together")
	}
	return nil
}

// Enabled reports whether the keys are in an engine.
func (s *Store) Enabled() bool { return s.URL.scheme != "" }

// Credentials returns the user and the password for the engine. It reads store-password-file, so that a password that was changed
// there is found.
func (s *Store) Credentials() (user, password string, err error) {
	user, password = s.User+s.URL.User, s.Password+s.URL.Password // one of each is empty
	if s.PasswordFile == "" {
		return user, password, nil
	}
	data, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return "", "", fmt.Errorf("store-password-file: %w", err)
	}
	switch password = strings.TrimRight(string(data), "\r\n"); {
	case password == "":
		return "", "", fmt.Errorf("store-password-file: %s is empty", s.PasswordFile)
	case strings.ContainsAny(password, "\r\n"):
		return "", "", fmt.Errorf("store-password-file: %s has more than one line", s.PasswordFile)
	}
	return user, password, nil
}

// isAccess reports whether an option says how the engine is reached, which import has to know too.
func (o *Option) isAccess() bool { return strings.HasPrefix(o.Name, "store-") && !o.Mutable }

// AddStoreFlags adds the options that say how an engine is reached to the flags of a command. The function that it returns is to be
// called after the flags were parsed: it takes those that were not given from the environment, as Parse does.
func AddStoreFlags(flags *flag.FlagSet, s *Settings) (fromEnvironment func() error) {
	for i := range Table {
		if o := &Table[i]; o.isAccess() {
			flags.Var(setter{o, s}, o.Name, o.Help)
		}
	}
	return func() error {
		given := make(map[string]bool)
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for i := range Table {
			o := &Table[i]
			variable := EnvPrefix + "_" + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
			if text := os.Getenv(variable); o.isAccess() && !given[o.Name] && text != "" {
				if err := o.value.parse(s, text); err != nil {
					return fmt.Errorf("%s: %w", variable, err)
				}
			}
		}
		return nil
	}
}

// StoreHelp returns the lines of --help for the flags of AddStoreFlags.
func StoreHelp() string {
	var b strings.Builder
	for i := range Table {
		if o := &Table[i]; o.isAccess() {
			fmt.Fprintf(&b, "  --%s %s\n        %s\n", o.Name, strings.ToUpper(o.Hint()), o.Help)
		}
	}
	return b.String()
}
