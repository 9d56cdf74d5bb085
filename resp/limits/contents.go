package limits

import (
	"strconv"

	"cellserver/buckets"
	"cellserver/resp/frame"
)

// AppendContents appends the reply to CL.GET. If asStrings, integers are bulk strings, because JavaScript's numbers cannot hold a
// time in nanoseconds.
func AppendContents(out *frame.Reply, c *buckets.Contents, asStrings bool) {
	fields := append(c.Fields, buckets.Field{Name: "expires", Value: c.Expiry}, buckets.Field{Name: "bytes", Value: c.Bytes})
	number := out.Int
	if asStrings {
		number = func(n int64) { out.BulkString(strconv.FormatInt(n, 10)) }
	}
	out.Map(2 + len(fields))
	out.BulkString("kind")
	out.BulkString(c.Kind.String())
	for _, f := range fields {
		out.BulkString(f.Name)
		switch {
		case f.Text != "":
			out.BulkString(f.Text)
		case f.Name == "expires" && f.Value == buckets.NoExpiry:
			out.Null()
		default:
			number(f.Value)
		}
	}
	out.BulkString("deadline")
	if c.Deadline == 0 {
		out.Null()
	} else {
		number(c.Deadline)
	}
}
