package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cellserver/persistence"
	"cellserver/resp"
)

// value converts the text of an option to a setting, and back. If parse returns an error, it has changed nothing.
type value struct {
	hint   string // what may be written, for --help
	parse  func(s *Settings, text string) error
	show   func(s *Settings) string
	secret bool // the text may have a password in it, so that errors do not quote it
}

// oneOf is one of the given words.
func oneOf(field func(*Settings) *string, choices ...string) value {
	return value{
		hint: "word",
		parse: func(s *Settings, text string) error {
			for _, c := range choices {
				if strings.EqualFold(c, text) {
					*field(s) = c
					return nil
				}
			}
			return errors.New("argument(s) must be one of the following: " + strings.Join(choices, ", "))
		},
		show: func(s *Settings) string { return *field(s) },
	}
}

// words is a list of words separated by spaces.
func words(hint string, field func(*Settings) *[]string) value {
	return value{
		hint: hint,
		parse: func(s *Settings, text string) error {
			*field(s) = strings.Fields(text)
			return nil
		},
		show: func(s *Settings) string { return strings.Join(*field(s), " ") },
	}
}

// path is the name of a file.
func path(field func(*Settings) *string) value {
	return value{
		hint:  "path",
		parse: func(s *Settings, text string) error { *field(s) = text; return nil },
		show:  func(s *Settings) string { return *field(s) },
	}
}

// word is any text without spaces.
func word(field func(*Settings) *string) value {
	return value{
		hint: "name",
		parse: func(s *Settings, text string) error {
			if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
				return errors.New("argument must be one word")
			}
			*field(s) = text
			return nil
		},
		show: func(s *Settings) string { return *field(s) },
	}
}

// maxPrefix is the length in bytes of the longest prefix of keys.
const maxPrefix = 128

// prefix begins keys; it may be empty.
func prefix(field func(*Settings) *string) value {
	return value{
		hint: "text",
		parse: func(s *Settings, text string) error {
			if len(text) > maxPrefix {
				return fmt.Errorf("argument is longer than %d bytes", maxPrefix)
			}
			*field(s) = text
			return nil
		},
		show: func(s *Settings) string { return *field(s) },
	}
}

// directory is the path of a directory. As in Redis, it is stored and shown as an absolute path.
func directory(field func(*Settings) *string) value {
	v := path(field)
	v.parse = func(s *Settings, text string) error { *field(s) = absolute(text); return nil }
	return v
}

// versions are the versions of TLS, by OpenSSL's names.
var versions = []struct {
	name string
	id   uint16
}{
	{"TLSv1.2", tls.VersionTLS12}, {"TLSv1.3", tls.VersionTLS13},
}

// tlsVersions is a set of versions, the oldest first. As in Redis, an empty value means all of them.
func tlsVersions(field func(*Settings) *[]uint16) value {
	return value{
		hint: "words",
		parse: func(s *Settings, text string) error {
			var chosen []uint16
			rest := strings.Fields(text)
			every := len(rest) == 0
			for _, v := range versions {
				others := slices.DeleteFunc(slices.Clone(rest), func(name string) bool { return strings.EqualFold(name, v.name) })
				if every || len(others) < len(rest) {
					chosen = append(chosen, v.id)
				}
				rest = others
			}
			if len(rest) > 0 {
				return fmt.Errorf("%q is not one of the following: TLSv1.2, TLSv1.3", rest[0])
			}
			*field(s) = chosen
			return nil
		},
		show: func(s *Settings) string {
			var names []string
			for _, v := range versions {
				if slices.Contains(*field(s), v.id) {
					names = append(names, v.name)
				}
			}
			return strings.Join(names, " ")
		},
	}
}

// only is an option with a single possible value. It exists because clients and tools ask for it.
func only(hint, one, why string) value {
	return value{
		hint: hint,
		parse: func(_ *Settings, text string) error {
			if !strings.EqualFold(text, one) {
				return fmt.Errorf("only %q is possible: %s", one, why)
			}
			return nil
		},
		show: func(*Settings) string { return one },
	}
}

// levels are Redis's names for how much is logged.
var levels = []struct {
	name  string
	level slog.Level
}{
	{"debug", slog.LevelDebug}, {"verbose", slog.LevelDebug + 1}, {"notice", slog.LevelInfo},
	{"warning", slog.LevelWarn}, {"nothing", slog.LevelError + 4},
}

func logLevel() value {
	return value{
		hint: "level",
		parse: func(s *Settings, text string) error {
			var names []string
			for _, l := range levels {
				if strings.EqualFold(l.name, text) {
					s.LogLevel = l.level
					return nil
				}
				names = append(names, l.name)
			}
			return errors.New("argument(s) must be one of the following: " + strings.Join(names, ", "))
		},
		show: func(s *Settings) string {
			for _, l := range levels {
				if l.level == s.LogLevel {
					return l.name
				}
			}
			return s.LogLevel.String()
		},
	}
}

// fault is an error whose text is exactly that of Redis, including a final full stop.
type fault string

func (f fault) Error() string { return string(f) }

// outputLimit is client-output-buffer-limit in Redis's form: class, hard limit, soft limit, seconds. The only class is
// normal.
func outputLimit() value {
	return value{
		hint: "normal bytes bytes seconds",
		parse: func(s *Settings, text string) error {
			f := strings.Fields(text)
			if len(f) != 4 {
				return fault("Wrong number of arguments in buffer limit configuration.")
			}
			if !strings.EqualFold(f[0], "normal") {
				return errors.New("the only class of clients is normal")
			}
			hard, err1 := parseSize(f[1])
			soft, err2 := parseSize(f[2])
			after, err3 := strconv.ParseInt(f[3], 10, 32)
			if err := errors.Join(err1, err2, err3); err != nil || after < 0 {
				return fault("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
			}
			s.Wire.Output = resp.OutputLimit{Hard: hard, Soft: soft, SoftFor: time.Duration(after) * time.Second}
			return nil
		},
		show: func(s *Settings) string {
			o := s.Wire.Output
			return fmt.Sprintf("normal %d %d %d", o.Hard, o.Soft, int64(o.SoftFor/time.Second))
		},
	}
}

// yesNo is yes or no.
func yesNo(field func(*Settings) *bool) value {
	return value{
		hint: "yes or no",
		parse: func(s *Settings, text string) error {
			switch {
			case strings.EqualFold(text, "yes"):
				*field(s) = true
			case strings.EqualFold(text, "no"):
				*field(s) = false
			default:
				return errors.New("argument must be 'yes' or 'no'")
			}
			return nil
		},
		show: func(s *Settings) string {
			if *field(s) {
				return "yes"
			}
			return "no"
		},
	}
}

// fileName is the name of a file, without a path.
func fileName(field func(*Settings) *string) value {
	return value{
		hint: "file",
		parse: func(s *Settings, text string) error {
			if text == "" || text == "." || text == ".." || filepath.Base(text) != text {
				return errors.New("argument must be a file's name, without a path")
			}
			*field(s) = text
			return nil
		},
		show: func(s *Settings) string { return *field(s) },
	}
}

// savePoints is a list of pairs of seconds and changes, which may be empty.
func savePoints(field func(*Settings) *[]persistence.SavePoint) value {
	return value{
		hint: "seconds changes",
		parse: func(s *Settings, text string) error {
			words := strings.Fields(text)
			if len(words)%2 != 0 {
				return fault("Invalid save parameters")
			}
			var points []persistence.SavePoint
			for i := 0; i < len(words); i += 2 {
				after, err1 := strconv.ParseInt(words[i], 10, 32)
				changes, err2 := strconv.ParseUint(words[i+1], 10, 63)
				if err1 != nil || err2 != nil || after < 1 {
					return fault("Invalid save parameters")
				}
				points = append(points, persistence.SavePoint{After: time.Duration(after) * time.Second, Changes: changes})
			}
			*field(s) = points
			return nil
		},
		show: func(s *Settings) string {
			var words []string
			for _, p := range *field(s) {
				words = append(words, fmt.Sprintf("%d %d", int64(p.After/time.Second), p.Changes))
			}
			return strings.Join(words, " ")
		},
	}
}

// syncPolicies are the names of appendfsync.
var syncPolicies = map[string]persistence.SyncPolicy{
	"always": persistence.SyncAlways, "everysec": persistence.SyncEverySecond, "no": persistence.SyncNever,
}

func syncPolicy(field func(*Settings) *persistence.SyncPolicy) value {
	return value{
		hint: "word",
		parse: func(s *Settings, text string) error {
			p, ok := syncPolicies[strings.ToLower(text)]
			if !ok {
				return errors.New("argument(s) must be one of the following: everysec, always, no")
			}
			*field(s) = p
			return nil
		},
		show: func(s *Settings) string {
			for name, p := range syncPolicies {
				if p == *field(s) {
					return name
				}
			}
			return ""
		},
	}
}

// password is a secret of at most 512 bytes.
func password(field func(*Settings) *string) value {
	return value{
		hint:   "password",
		secret: true,
		parse: func(s *Settings, text string) error {
			if len(text) > 512 {
				return errors.New("argument is longer than 512 bytes")
			}
			*field(s) = text
			return nil
		},
		show: func(s *Settings) string { return *field(s) },
	}
}
