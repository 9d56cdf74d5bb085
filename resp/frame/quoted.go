package frame

import "fmt"

// AppendQuoted appends b in double quotes, with Redis's escapes for characters that are not printable.
func AppendQuoted(dst, b []byte) []byte {
	dst = append(dst, '"')
	for _, c := range b {
		switch c {
		case '\\', '"':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\a':
			dst = append(dst, `\a`...)
		case '\b':
			dst = append(dst, `\b`...)
		default:
			if c < ' ' || c > '~' {
				dst = fmt.Appendf(dst, `\x%02x`, c)
				continue
			}
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
