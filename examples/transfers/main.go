// Command transfers moves money, but no more than 2000 dollars out of one account in any 24 hours. The quantity of a
// request is its cents, and what the bank fails to move is given back.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	limit  = 2000_00 // cents
	period = 24 * time.Hour
)

// Refused is the error of a transfer that would be more than the limit.
type Refused struct {
	Left int64         // cents that could be moved now
	Wait time.Duration // until this transfer would be admitted; negative when it never will be
}

func (r *Refused) Error() string {
	if r.Wait < 0 {
		return fmt.Sprintf("more than %s in 24 hours is not possible", dollars(limit))
	}
	return fmt.Sprintf("%s is possible now, this in %v", dollars(r.Left), r.Wait)
}

// Transfer has cents moved out of an account by move. They are taken from the limit first, so that many transfers at
// once cannot exceed it, and given back when move fails. The error is move's, or a *Refused, and then move was not
// called.
func Transfer(
	ctx context.Context, rdb *redis.Client, account string, cents int64, move func(context.Context) error,
) error {
	if cents <= 0 {
		return errors.New("a transfer needs an amount") // a negative quantity would give back
	}
	taken := time.Now()
	n, err := ask(ctx, rdb, account, cents)
	switch {
	case err != nil:
		return err
	case n[0] == 1 && n[3] < 0:
		return &Refused{Left: n[2], Wait: -1}
	case n[0] == 1:
		return &Refused{Left: n[2], Wait: time.Duration(n[3]) * time.Second}
	}
	failure := move(ctx)
	if failure == nil || time.Since(taken) >= period { // by then it counts no more
		return failure
	}
	// Whatever ended ctx must not keep what was taken.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err = ask(ctx, rdb, account, -cents)
	return errors.Join(failure, err)
}

// ask takes cents from the limit of an account, gives back what is negative, and only looks for 0.
func ask(ctx context.Context, rdb *redis.Client, account string, cents int64) ([]int64, error) {
	n, err := rdb.Do(ctx, "CL.ZSLIDE", "transfers:"+account, limit, int64(period/time.Second), cents).Int64Slice()
	if err == nil && len(n) != 5 {
		err = fmt.Errorf("CL.ZSLIDE answers %v", n)
	}
	return n, err
}

func main() {
	addr := flag.String("cellserver", "127.0.0.1:6379", "where cellserver listens")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: transfers [options] account dollars...\nThe bank fails at amounts that end in x.")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	// A transfer whose answer was lost may have been counted: asking again could count it twice.
	rdb := redis.NewClient(&redis.Options{Addr: *addr, MaxRetries: -1})
	err := run(context.Background(), rdb, flag.Arg(0), flag.Args()[1:], os.Stdout)
	if err := errors.Join(err, rdb.Close()); err != nil {
		fmt.Fprintln(os.Stderr, "transfers:", err)
		os.Exit(1)
	}
}

// run moves amounts out of an account, one after the other, and tells what became of each.
func run(ctx context.Context, rdb *redis.Client, account string, amounts []string, out io.Writer) error {
	for _, amount := range amounts {
		amount, fails := strings.CutSuffix(amount, "x")
		cents, err := parse(amount)
		if err != nil {
			return err
		}
		said := "moved"
		err = Transfer(ctx, rdb, account, cents, func(context.Context) error {
			if fails {
				return errBank
			}
			return nil // here a bank would move the money
		})
		var refused *Refused
		switch {
		case errors.As(err, &refused):
			said = "refused: " + refused.Error()
		case errors.Is(err, errBank):
			said = "given back: " + err.Error()
		case err != nil:
			return err
		}
		n, err := ask(ctx, rdb, account, 0)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s %s; %s left\n", dollars(cents), said, dollars(n[2])); err != nil {
			return err
		}
	}
	return nil
}

var errBank = errors.New("the bank failed")

// dollars writes cents as people do.
func dollars(cents int64) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }

// parse reads dollars that have at most two decimals, without losing a cent.
func parse(amount string) (cents int64, err error) {
	whole, decimals, _ := strings.Cut(amount, ".")
	if len(decimals) <= 2 && whole != "" {
		n, err := strconv.ParseUint(whole+(decimals + "00")[:2], 10, 63)
		if err == nil {
			return int64(n), nil
		}
	}
	return 0, fmt.Errorf("%q is not an amount in dollars", amount)
}
