// Command sms sends text messages, but no more than 3 a minute and 10 a day to one number. One CL.ALL asks both limits:
// a message is counted by both of them, or by none.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// limits are those of a number.
var limits = []struct {
	name  string
	check func(number string) []any
}{
	{"3 a minute", func(number string) []any { return []any{"ZSLIDE", "sms:minute:" + number, 3, 60, 1} }},
	{"10 a day", func(number string) []any { return []any{"WINDOW", "sms:day:" + number, 10, 86400, 1, "ALIGN", 0} }},
}

// Refused is the error of a message that is one too many.
type Refused struct {
	Limit string        // the one that refuses for longest
	Wait  time.Duration // until all of them would admit the message
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s are sent already: wait %v", r.Limit, r.Wait)
}

// Allow counts a message to number, and returns how many more each limit would admit now. The error is a *Refused when
// the message must not be sent; nothing is counted then.
func Allow(ctx context.Context, rdb *redis.Client, number string) (left []int64, err error) {
	words := []any{"CL.ALL"}
	for _, l := range limits {
		words = append(words, l.check(number)...)
	}
	reply, err := rdb.Do(ctx, words...).Slice()
	if err != nil {
		return nil, err
	}
	// The reply is: limited, which, and five integers for each check.
	malformed := fmt.Errorf("CL.ALL answers %v", reply)
	if len(reply) != 2+len(limits) {
		return nil, malformed
	}
	var answers [][]int64
	for _, part := range reply[2:] {
		five, ok := integers(part)
		if !ok {
			return nil, malformed
		}
		answers = append(answers, five)
		left = append(left, five[2])
	}
	if which, _ := reply[1].(int64); which > 0 {
		return left, &Refused{Limit: limits[which-1].name, Wait: time.Duration(answers[which-1][3]) * time.Second}
	}
	return left, nil
}

// integers is the answer of one check.
func integers(part any) (five []int64, ok bool) {
	all, _ := part.([]any)
	for _, one := range all {
		n, ok := one.(int64)
		if !ok {
			return nil, false
		}
		five = append(five, n)
	}
	return five, len(five) == 5
}

func main() {
	addr := flag.String("cellserver", "127.0.0.1:6379", "where cellserver listens")
	n := flag.Int("n", 5, "how many messages to send")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: sms [options] number")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	// A message whose answer was lost may have been counted: asking again could count it twice.
	rdb := redis.NewClient(&redis.Options{Addr: *addr, MaxRetries: -1})
	err := run(context.Background(), rdb, flag.Arg(0), *n, os.Stdout)
	if err := errors.Join(err, rdb.Close()); err != nil {
		fmt.Fprintln(os.Stderr, "sms:", err)
		os.Exit(1)
	}
}

// run sends n messages to number, as far as it may, and tells what became of each.
func run(ctx context.Context, rdb *redis.Client, number string, n int, out io.Writer) error {
	for i := range n {
		left, err := Allow(ctx, rdb, number)
		var refused *Refused
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		// Here the message would be handed to whoever delivers it.
		said := fmt.Sprintf("message %d: sent to %s, ", i+1, number)
		if refused != nil {
			said = fmt.Sprintf("message %d: not sent, %v; ", i+1, refused)
		}
		var all []string
		for i, l := range limits {
			all = append(all, fmt.Sprintf("%d left of %s", left[i], l.name))
		}
		if _, err := fmt.Fprintln(out, said+strings.Join(all, ", ")); err != nil {
			return err
		}
	}
	return nil
}
