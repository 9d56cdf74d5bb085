package resp

import "fmt"

// Nanoseconds.
const (
	second      = int64(1e9)
	millisecond = int64(1e6)
)

func boolInt(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }
