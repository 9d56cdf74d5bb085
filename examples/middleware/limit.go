package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Limit says how many requests of one key are admitted, and what happens when nobody can say.
type Limit struct {
	Burst  int // requests at once, beyond the pace
	Count  int // requests per Period on average
	Period time.Duration

	// Key names who asks.
	Key func(*http.Request) string

	// FailClosed answers 503 while cellserver cannot be asked. Otherwise requests are admitted then.
	FailClosed bool
	// Patience is how long to wait for cellserver.
	Patience time.Duration
	Log      *slog.Logger
}

// Middleware admits to next what limit admits, and answers the rest with 429.
func Middleware(rdb *redis.Client, limit Limit, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := limit.ask(r.Context(), rdb, limit.Key(r))
		if err != nil {
			limit.Log.Warn("cellserver cannot be asked", "error", err, "admitted", !limit.FailClosed)
			if limit.FailClosed {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "limits cannot be checked", http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		set := func(name string, n int64) { w.Header().Set(name, strconv.FormatInt(n, 10)) }
		set("X-RateLimit-Limit", answer.limit)
		set("X-RateLimit-Remaining", answer.remaining)
		set("X-RateLimit-Reset", answer.resetAfter)
		if answer.limited {
			set("Retry-After", answer.retryAfter)
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answer is what CL.THROTTLE answers. Times are in seconds.
type answer struct {
	limited                                  bool
	limit, remaining, retryAfter, resetAfter int64
}

// ask takes one request from the bucket of key.
func (l Limit) ask(ctx context.Context, rdb *redis.Client, key string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Patience)
	defer cancel()
	n, err := rdb.Do(ctx, "CL.THROTTLE", key, l.Burst, l.Count, strconv.FormatFloat(l.Period.Seconds(), 'f', -1, 64)).Int64Slice()
	if err != nil {
		return answer{}, err
	}
	if len(n) != 5 {
		return answer{}, fmt.Errorf("CL.THROTTLE answers %d integers", len(n))
	}
	return answer{n[0] == 1, n[1], n[2], n[3], n[4]}, nil
}

// ByAddress names a client by its address. An IPv6 client has a whole /64 to choose from, so that is its name. Behind a
// proxy RemoteAddr is the proxy: take the address from the header that yours sets, and only from there.
func ByAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "address:" + host
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			return "address:" + network.String()
		}
	}
	return "address:" + addr.String()
}

// ByAPIKey names a client by the key in its X-API-Key, if that is known, and else by its address: whoever invents a new
// key for each request gains nothing. Keys are hashed, so that who may list the buckets does not learn them.
func ByAPIKey(known func(key string) bool) func(*http.Request) string {
	return func(r *http.Request) string {
		key := r.Header.Get("X-API-Key")
		if !known(key) {
			return ByAddress(r)
		}
		sum := sha256.Sum256([]byte(key))
		return "api:" + hex.EncodeToString(sum[:16])
	}
}
