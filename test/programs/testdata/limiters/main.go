// Limiters asks rate limiters for Go, one after the other, and prints a line for each answer:
//
//	limiters host:port
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	redis8 "github.com/go-redis/redis/v8"
	rate10 "github.com/go-redis/redis_rate/v10"
	rate9 "github.com/go-redis/redis_rate/v9"
	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledgoredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	throttledredigo "github.com/throttled/throttled/v2/store/redigostore"
	"github.com/ulule/limiter/v3"
	ululehttp "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ulule "github.com/ulule/limiter/v3/drivers/store/redis"
)

// clients is how many ask at once in the end.
const clients = 64

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: limiters host:port")
	}
	ctx, address := context.Background(), os.Args[1]
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	older := redis8.NewClient(&redis8.Options{Addr: address})
	defer older.Close()
	pool := &redigo.Pool{MaxIdle: 16, MaxActive: 16, Wait: true, Dial: func() (redigo.Conn, error) { return redigo.Dial("tcp", address) }}
	defer pool.Close()

	ten := rate10.NewLimiter(client)
	redisRate("redis_rate v10", func(key string, rate, burst, n int, period time.Duration, atMost bool) (rate10.Result, error) {
		ask, limit := ten.AllowN, rate10.Limit{Rate: rate, Burst: burst, Period: period}
		if atMost {
			ask = ten.AllowAtMost
		}
		reply, err := ask(ctx, key, limit, n)
		if err != nil {
			return rate10.Result{}, err
		}
		return *reply, nil
	})
	nine := rate9.NewLimiter(older)
	redisRate("redis_rate v9", func(key string, rate, burst, n int, period time.Duration, atMost bool) (rate10.Result, error) {
		ask, limit := nine.AllowN, rate9.Limit{Rate: rate, Burst: burst, Period: period}
		if atMost {
			ask = nine.AllowAtMost
		}
		reply, err := ask(ctx, "nine:"+key, limit, n)
		if err != nil {
			return rate10.Result{}, err
		}
		return rate10.Result{Allowed: reply.Allowed, Remaining: reply.Remaining, RetryAfter: reply.RetryAfter, ResetAfter: reply.ResetAfter}, nil
	})

	store, err := ulule.NewStoreWithOptions(client, limiter.StoreOptions{Prefix: "ulule"})
	check(err)
	byUser := ululehttp.WithKeyGetter(func(r *http.Request) string { return r.Header.Get("X-User") })
	middlewareOf := func(period time.Duration, limit int64) func(http.Handler) http.Handler {
		return ululehttp.NewMiddleware(limiter.New(store, limiter.Rate{Period: period, Limit: limit}), byUser).Handler
	}
	overHTTP("ulule/limiter", "ulule", middlewareOf(time.Minute, 3), middlewareOf(time.Second, 2), middlewareOf(time.Minute, 100))

	stores := map[string]throttled.GCRAStoreCtx{
		"go-redis": must(throttledgoredis.NewCtx(client, "throttled:")),
		"redigo":   must(throttledredigo.NewCtx(pool, "redigo:", 0)),
	}
	for _, name := range []string{"go-redis", "redigo"} {
		middlewareOf := func(quota throttled.RateQuota) func(http.Handler) http.Handler {
			limiter, err := throttled.NewGCRARateLimiterCtx(stores[name], quota)
			check(err)
			limiter.SetMaxCASAttemptsLimit(10_000) // all clients ask of one key
			h := throttled.HTTPRateLimiterCtx{RateLimiter: limiter, VaryBy: &throttled.VaryBy{Headers: []string{"X-User"}}}
			return h.RateLimit
		}
		overHTTP("throttled, "+name, name, middlewareOf(throttled.RateQuota{MaxRate: throttled.PerMin(3), MaxBurst: 2}),
			middlewareOf(throttled.RateQuota{MaxRate: throttled.PerSec(2), MaxBurst: 1}),
			middlewareOf(throttled.RateQuota{MaxRate: throttled.PerHour(1), MaxBurst: 99}))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func show(what string, answer ...string) {
	fmt.Printf("%s: %s\n", what, strings.Join(answer, ", "))
}

// within has a group of requests made that must not take longer, for another user each time, until they do not. It shows
// what they answered.
func within(most time.Duration, what string, ask func(user string) []string) {
	for n := range 20 {
		began := time.Now()
		answers := ask(fmt.Sprint("user", n))
		if time.Since(began) < most {
			for _, answer := range answers {
				show(what, answer)
			}
			return
		}
	}
	log.Fatal("the machine is too busy")
}

type askRedisRate func(key string, rate, burst, n int, period time.Duration, atMost bool) (rate10.Result, error)

// redisRate asks as the two major versions of redis_rate do.
func redisRate(name string, ask askRedisRate) {
	one := func(key string, rate, burst, n int, period time.Duration, atMost bool) string {
		r, err := ask(key, rate, burst, n, period, atMost)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("allowed %d, remaining %d, retry after %.3fs, reset after %.3fs",
			r.Allowed, r.Remaining, r.RetryAfter.Seconds(), r.ResetAfter.Seconds())
	}
	for range 5 {
		show(name+", 3 a minute", one("ann", 3, 3, 1, time.Minute, false))
	}
	// In a tenth of a second the next one is free.
	within(90*time.Millisecond, name+", 10 a second, so many at once", func(user string) (answers []string) {
		for _, n := range []int{0, 2, 7, 1000} {
			answers = append(answers, one("all "+user, 10, 10, n, time.Second, false))
		}
		return answers
	})
	within(90*time.Millisecond, name+", 10 a second, at most so many", func(user string) (answers []string) {
		for _, n := range []int{0, 2, 1000, 1} {
			answers = append(answers, one("most "+user, 10, 10, n, time.Second, true))
		}
		return answers
	})
	var mu sync.Mutex
	seen := make(map[string]int)
	atOnce(func() {
		r, err := ask("all", 1, 100, 1, time.Hour, false)
		mu.Lock()
		defer mu.Unlock()
		seen[fmt.Sprintf("allowed %d, error %v", r.Allowed, err)]++
	})
	showSeen(name, seen)
}

// atOnce calls it three times from each of the clients.
func atOnce(ask func()) {
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range 3 {
				ask()
			}
		})
	}
	all.Wait()
}

func showSeen(name string, seen map[string]int) {
	var counts []string
	for what, n := range seen {
		counts = append(counts, fmt.Sprintf("%d of %s", n, what))
	}
	sort.Strings(counts)
	show(fmt.Sprintf("%s, %d clients, 100", name, clients), counts...)
}

// overHTTP asks a web server before which a limiter stands.
func overHTTP(name, prefix string, slow, fast, many func(http.Handler) http.Handler) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	mux := http.NewServeMux()
	mux.Handle("/slow", slow(hello))
	mux.Handle("/fast", fast(hello))
	mux.Handle("/many", many(hello))
	server := httptest.NewServer(mux)
	defer server.Close()

	get := func(path, user string) (answer []string) {
		r, err := http.NewRequest(http.MethodGet, server.URL+path, nil)
		check(err)
		r.Header.Set("X-User", user)
		response, err := http.DefaultClient.Do(r)
		check(err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		check(err)
		answer = append(answer, response.Status)
		for _, header := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "Retry-After"} {
			if value := response.Header.Get(header); value != "" {
				answer = append(answer, header+"="+value)
			}
		}
		return append(answer, strings.TrimSpace(string(text)))
	}
	for range 5 {
		show(name+", 3 a minute", get("/slow", prefix+":ann")...)
	}
	show(name+", 3 a minute, another user", get("/slow", prefix+":ben")...)
	// In half a second the next one may be free.
	within(450*time.Millisecond, name+", 2 a second", func(user string) (answers []string) {
		for range 3 {
			answers = append(answers, strings.Join(get("/fast", prefix+":"+user), ", "))
		}
		return answers
	})
	for range 2 {
		get("/fast", prefix+":cid")
	}
	time.Sleep(1100 * time.Millisecond)
	show(name+", 2 a second, later", get("/fast", prefix+":cid")...)
	var mu sync.Mutex
	seen := make(map[string]int)
	atOnce(func() {
		answer := get("/many", prefix+":all")[0]
		mu.Lock()
		defer mu.Unlock()
		seen[answer]++
	})
	showSeen(name, seen)
}
