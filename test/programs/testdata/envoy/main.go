// Envoy starts Envoy's rate limit service with its own example configuration and asks it as Envoy does, by gRPC and by HTTP.
// It prints a line for each answer.
//
//	envoy host:port service configuration [NAME=VALUE ...]
//
// The address is that of the server under test, service is the built program, configuration the folder examples of its
// module, and what follows goes to its environment.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
)

// clients is how many ask at once in the end.
const clients = 64

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: envoy host:port service configuration [NAME=VALUE ...]")
	}
	if err := drive(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		log.Fatal(err)
	}
}

func drive(redis, program, configuration string, more []string) (err error) {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	cmd := exec.Command(program)
	cmd.Env = append([]string{
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, "REDIS_TYPE=SINGLE", "DISABLE_STATS=true", "LOG_LEVEL=error",
		"RUNTIME_ROOT=" + configuration, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false",
		"EXPIRATION_JITTER_MAX_SECONDS=0", "LIMIT_RESPONSE_HEADERS_ENABLED=true",
		"HOST=127.0.0.1", "PORT=" + ports[0], "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + ports[1],
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + ports[2],
	}, more...)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if ended := cmd.Wait(); err == nil && ended != nil {
			err = fmt.Errorf("the service ended with %w", ended)
		}
		for line := range strings.Lines(log.String()) {
			if !strings.Contains(line, "level=info") {
				fmt.Fprint(os.Stderr, line)
			}
		}
	}()

	byHTTP := "http://127.0.0.1:" + ports[0]
	if err := healthy(byHTTP + "/healthcheck"); err != nil {
		return err
	}
	conn, err := grpc.NewClient("127.0.0.1:"+ports[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	byGRPC := service.NewRateLimitServiceClient(conn)

	if err := within(time.Minute, 15*time.Second, func() []string { return minutes(byGRPC, byHTTP) }); err != nil {
		return err
	}
	for range 2 {
		if err := within(time.Second, 500*time.Millisecond, func() []string { return seconds(byGRPC) }); err != nil {
			return err
		}
		time.Sleep(time.Second) // the next one begins with nothing
	}
	return within(time.Second, 900*time.Millisecond, func() []string { return []string{atOnce(byGRPC)} })
}

// within has a group of requests made within one window, which begins with the clock: it waits for one with so much left. If
// they take longer, they are made once more in another window. It prints what the group answered.
func within(window, takes time.Duration, ask func() []string) error {
	for range 20 {
		if left := time.Until(time.Now().Truncate(window).Add(window)); left < takes {
			time.Sleep(left)
		}
		began := time.Now().Truncate(window)
		answers := ask()
		if time.Now().Truncate(window).Equal(began) {
			for _, answer := range answers {
				fmt.Println(answer)
			}
			return nil
		}
	}
	return errors.New("the machine is too busy")
}

// minutes asks what the example limits per minute.
func minutes(byGRPC service.RateLimitServiceClient, byHTTP string) (answers []string) {
	show := func(what, answer string) { answers = append(answers, what+": "+answer) }
	for range 6 {
		show("grpc 4/minute", ask(byGRPC, request("rl", 1, "category", "account")))
	}
	for _, hits := range []uint32{2, 1, 1} {
		show(fmt.Sprintf("grpc 3/minute, %d hits", hits), ask(byGRPC, request("rl", hits, "foo", "1", "bar", "2")))
	}
	for range 3 {
		show("http 2/minute", post(byHTTP+"/json", request("rl", 1, "source_cluster", "proxy", "destination_cluster", "bkthomps")))
	}
	two := request("rl", 1, "foo", "3")
	two.Descriptors = append(two.Descriptors, request("rl", 1, "foo", "3", "bar", "bkthomps").Descriptors...)
	for range 3 {
		show("grpc two limits", ask(byGRPC, two))
	}
	for range 5 {
		show("grpc shadow 3/minute", ask(byGRPC, request("rl", 1, "foo", "4", "baz", "shady")))
	}
	show("grpc 0/minute", ask(byGRPC, request("rl", 1, "foo", "5", "bar", "banned")))
	show("grpc unlimited", ask(byGRPC, request("rl", 1, "qux", "6")))
	show("grpc no such limit", ask(byGRPC, request("rl", 1, "none", "7")))
	return answers
}

// seconds asks what the example limits per second.
func seconds(byGRPC service.RateLimitServiceClient) (answers []string) {
	for range 3 {
		answers = append(answers, "grpc 1/second: "+ask(byGRPC, request("rl", 1, "foo", "8", "baz", "9")))
	}
	return answers
}

// atOnce asks from all clients at the same time, and says how many were admitted.
func atOnce(byGRPC service.RateLimitServiceClient) string {
	var admitted, refused, failed atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range 10 {
				reply, err := byGRPC.ShouldRateLimit(context.Background(), request("mongo_cps", 1, "database", "users"))
				switch {
				case err != nil:
					failed.Add(1)
				case reply.OverallCode == service.RateLimitResponse_OK:
					admitted.Add(1)
				default:
					refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d clients, 500/second: %d admitted, %d refused, %d failed", clients, admitted.Load(), refused.Load(), failed.Load())
}

// request asks of one descriptor, given as keys and values.
func request(domain string, hits uint32, pairs ...string) *service.RateLimitRequest {
	d := new(ratelimit.RateLimitDescriptor)
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return &service.RateLimitRequest{Domain: domain, HitsAddend: hits, Descriptors: []*ratelimit.RateLimitDescriptor{d}}
}

func ask(c service.RateLimitServiceClient, r *service.RateLimitRequest) string {
	reply, err := c.ShouldRateLimit(context.Background(), r)
	if err != nil {
		return "error: " + err.Error()
	}
	return describe(reply)
}

// describe leaves out the time until the window ends, which differs from run to run.
func describe(reply *service.RateLimitResponse) string {
	words := []string{reply.OverallCode.String()}
	for _, status := range reply.Statuses {
		words = append(words, fmt.Sprintf("%s %d left of %d", status.Code, status.LimitRemaining, status.CurrentLimit.GetRequestsPerUnit()))
	}
	for _, header := range reply.ResponseHeadersToAdd {
		if !strings.HasSuffix(header.Key, "Reset") {
			words = append(words, header.Key+"="+header.Value)
		}
	}
	return strings.Join(words, ", ")
}

func post(url string, r *service.RateLimitRequest) string {
	body, err := protojson.Marshal(r)
	if err != nil {
		return "error: " + err.Error()
	}
	answer, err := http.Post(url, "application/json", strings.NewReader(string(body)))
	if err != nil {
		return "error: " + err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return "error: " + err.Error()
	}
	reply := new(service.RateLimitResponse)
	if err := protojson.Unmarshal(text, reply); err != nil {
		return fmt.Sprintf("%d %s", answer.StatusCode, text)
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, describe(reply))
}

func healthy(url string) error {
	for range 200 {
		if answer, err := http.Get(url); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the service is not healthy")
}

func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // when all are known, so that they differ
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, nil
}
