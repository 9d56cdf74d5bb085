// Command sharding spreads limits over several cellservers that know nothing of each other: each key is on one of them, which the
// client finds by a hash of the key.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

// NewRing returns a client of several cellservers. All programs must name the servers alike and in any order: the names, not the addresses,
// say where a key is.
//
// A server that does not answer is left out after three checks, and its keys go to the others, where their buckets are full.
func NewRing(servers map[string]string) *redis.Ring { return redis.NewRing(options(servers)) }

func options(servers map[string]string) *redis.RingOptions {
	return &redis.RingOptions{
		Addrs: servers,
		// A request whose answer was lost may have been counted: asking again could count it twice.
		MaxRetries: -1,
	}
}

// Allow takes one request of 5 at once, and 10 an hour, from the bucket of a user.
func Allow(ctx context.Context, ring *redis.Ring, user string) (allowed bool, left int64, err error) {
	// The reply is: limited, limit, remaining, retry_after, reset_after.
	answer, err := ring.Do(ctx, "CL.THROTTLE", "api:"+user, 4, 10, 3600).Int64Slice()
	switch {
	case err != nil:
		return false, 0, err
	case len(answer) != 5:
		return false, 0, fmt.Errorf("CL.THROTTLE answers %v", answer)
	}
	return answer[0] == 0, answer[2], nil
}

func main() {
	addrs := flag.String("cellservers", "a=127.0.0.1:6379,b=127.0.0.1:6380,c=127.0.0.1:6381", "the servers: name=address, separated by commas")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: sharding [options] user...")
		flag.PrintDefaults()
	}
	flag.Parse()
	servers, err := parse(*addrs)
	if err != nil || flag.NArg() == 0 {
		if err != nil {
			fmt.Fprintln(os.Stderr, "sharding:", err)
		}
		flag.Usage()
		os.Exit(2)
	}
	ring := NewRing(servers)
	err = run(context.Background(), ring, flag.Args(), os.Stdout)
	if err := errors.Join(err, ring.Close()); err != nil {
		fmt.Fprintln(os.Stderr, "sharding:", err)
		os.Exit(1)
	}
}

// parse reads name=address,name=address.
func parse(text string) (map[string]string, error) {
	servers := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		name, addr, found := strings.Cut(part, "=")
		if !found || name == "" || addr == "" || servers[name] != "" {
			return nil, fmt.Errorf("%q is not name=address of another server", part)
		}
		servers[name] = addr
	}
	return servers, nil
}

// run asks for one request of each user, and tells the answers.
func run(ctx context.Context, ring *redis.Ring, users []string, out io.Writer) error {
	for _, user := range users {
		allowed, left, err := Allow(ctx, ring, user)
		if err != nil {
			return err
		}
		said := "allowed"
		if !allowed {
			said = "refused"
		}
		if _, err := fmt.Fprintf(out, "%s: %s, %d left\n", user, said, left); err != nil {
			return err
		}
	}
	return nil
}
