package options

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// number is a whole number from lo to hi.
func number(field func(*Settings) *int64, lo, hi int64) value {
	return value{
		hint: "number",
		parse: func(s *Settings, text string) error {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || strconv.FormatInt(n, 10) != text { // no plus and no leading zeros, as in Redis
				return errors.New("argument couldn't be parsed into an integer")
			}
			if err := within(n, lo, hi); err != nil {
				return err
			}
			*field(s) = n
			return nil
		},
		show: func(s *Settings) string { return strconv.FormatInt(*field(s), 10) },
	}
}

func within(n, lo, hi int64) error {
	if n < lo || n > hi {
		return fmt.Errorf("argument must be between %d and %d inclusive", lo, hi)
	}
	return nil
}

// seconds is a time in whole seconds.
func seconds(field func(*Settings) *time.Duration, lo, hi int64) value {
	var n int64
	v := number(func(*Settings) *int64 { return &n }, lo, hi)
	return value{
		hint: "seconds",
		parse: func(s *Settings, text string) error {
			if err := v.parse(s, text); err != nil {
				return err
			}
			*field(s) = time.Duration(n) * time.Second
			return nil
		},
		show: func(s *Settings) string { return strconv.FormatInt(int64(*field(s)/time.Second), 10) },
	}
}

// microseconds is a time in whole microseconds, from -1 on.
func microseconds(field func(*Settings) *time.Duration) value {
	return scaled("microseconds", field, time.Microsecond, -1)
}

// milliseconds is a time in whole milliseconds.
func milliseconds(field func(*Settings) *time.Duration) value {
	return scaled("milliseconds", field, time.Millisecond, 0)
}

// scaled is a time in whole units, from lo on.
func scaled(hint string, field func(*Settings) *time.Duration, unit time.Duration, lo int64) value {
	var n int64
	v := number(func(*Settings) *int64 { return &n }, lo, math.MaxInt32)
	return value{
		hint: hint,
		parse: func(s *Settings, text string) error {
			if err := v.parse(s, text); err != nil {
				return err
			}
			*field(s) = time.Duration(n) * unit
			return nil
		},
		show: func(s *Settings) string { return strconv.FormatInt(int64(*field(s)/unit), 10) },
	}
}

// size is a number of bytes with Redis's units: k, m and g are powers of 1000, kb, mb and gb powers of 1024. As in
// Redis, it is shown in bytes.
func size(field func(*Settings) *int64, lo, hi int64) value {
	return value{
		hint: "bytes",
		parse: func(s *Settings, text string) error {
			n, err := parseSize(text)
			if err != nil {
				return err
			}
			if err := within(n, lo, hi); err != nil {
				return err
			}
			*field(s) = n
			return nil
		},
		show: func(s *Settings) string { return strconv.FormatInt(*field(s), 10) },
	}
}

var units = []struct {
	suffix string
	bytes  int64
}{
	{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"b", 1}, {"", 1},
}

func parseSize(text string) (int64, error) {
	digits := strings.TrimRight(strings.ToLower(text), "bkmg")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err == nil && n >= 0 {
		for _, u := range units {
			if strings.EqualFold(text[len(digits):], u.suffix) && n <= math.MaxInt64/u.bytes {
				return n * u.bytes, nil
			}
		}
	}
	return 0, errors.New("argument must be a memory value")
}

// memoryLimit is a size, or a percentage of MachineMemory. It is shown in bytes.
func memoryLimit(field func(*Settings) *int64) value {
	plain := size(field, 0, math.MaxInt64)
	return value{
		hint: "bytes or percent",
		parse: func(s *Settings, text string) error {
			percent, ok := strings.CutSuffix(text, "%")
			if !ok {
				return plain.parse(s, text)
			}
			n, err := strconv.ParseInt(percent, 10, 64)
			if err != nil {
				return errors.New("argument must be a memory value or a percentage")
			}
			if err := within(n, 1, 100); err != nil {
				return err
			}
			*field(s) = MachineMemory() / 100 * n
			return nil
		},
		show: plain.show,
	}
}

// permissions are the permission bits of a file's mode, in octal.
func permissions(field func(*Settings) *int64) value {
	return value{
		hint: "octal",
		parse: func(s *Settings, text string) error {
			n, err := strconv.ParseUint(text, 8, 63)
			if err != nil {
				return errors.New("argument couldn't be parsed as an octal number")
			}
			if n > 0o777 {
				return errors.New("argument must be between 0 and 777 inclusive")
			}
			*field(s) = int64(n)
			return nil
		},
		show: func(s *Settings) string { return strconv.FormatInt(*field(s), 8) },
	}
}
