// Command middleware is a web server that asks cellserver before it answers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "middleware:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("middleware", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cellserver := flags.String("cellserver", "127.0.0.1:6379", "where cellserver listens")
	address := flags.String("listen", "127.0.0.1:8080", "where to listen")
	apiKey := flags.String("api-key", "secret", "an API key that has a limit of its own")
	limit := Limit{Log: slog.New(slog.NewTextHandler(stderr, nil))}
	flags.IntVar(&limit.Burst, "burst", 4, "requests at once, beyond the pace")
	flags.IntVar(&limit.Count, "count", 10, "requests per period on average")
	flags.DurationVar(&limit.Period, "period", time.Minute, "the period")
	flags.DurationVar(&limit.Patience, "patience", 250*time.Millisecond, "how long to wait for cellserver")
	flags.BoolVar(&limit.FailClosed, "fail-closed", false, "answer 503 while cellserver cannot be asked")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	limit.Key = ByAPIKey(func(key string) bool { return key == *apiKey })

	rdb := redis.NewClient(clientOptions(*cellserver))
	defer func() { err = errors.Join(err, rdb.Close()) }()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello\n")
	})
	server := &http.Server{Handler: Middleware(rdb, limit, hello), ReadHeaderTimeout: 10 * time.Second}

	l, err := net.Listen("tcp", *address)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "try: curl -i http://%s/\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}

// clientOptions are those of a client that nobody waits for longer than they want to.
func clientOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr:                  addr,
		ContextTimeoutEnabled: true,
		// A request whose answer was lost may have been counted: asking again could count it twice.
		MaxRetries:    -1,
		DialerRetries: 1,
	}
}
