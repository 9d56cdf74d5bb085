package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cellserver/buckets"
	"cellserver/buckets/cluster"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/resp"
)

// enginePatience is how long a start waits for the engine. After that the server starts without it.
const enginePatience = 5 * time.Second

// engineKeys are keys in a Valkey or Redis.
type engineKeys struct {
	log     *slog.Logger
	cluster *cluster.Store
	where   string // without a password

	ctx    context.Context // ends with abandon and close
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// openEngine makes the store, which begins to connect.
func openEngine(s options.Settings, log *slog.Logger) (*engineKeys, error) {
	config, err := engineConfig(&s.Store, log)
	if err != nil {
		return nil, err
	}
	store, err := cluster.New(config, engineRules(&s))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	defaults := options.Defaults()
	if s.MaxMemory != defaults.MaxMemory || s.MaxMemoryPolicy != defaults.MaxMemoryPolicy {
		log.Warn("maxmemory and maxmemory-policy have no effect: the keys are in the engine, and store-cache bounds what is remembered of them")
	}
	k := &engineKeys{log: log, cluster: store, where: s.Store.URL.String()}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k, nil
}

// engineConfig returns what cluster.New needs.
func engineConfig(s *options.Store, log *slog.Logger) (c cluster.Config, err error) {
	c = cluster.Config{
		Addrs: s.URL.Addresses, Credentials: s.Credentials, Prefix: s.Prefix, Log: log, Local: clock.Steady(),
		Sentinel: s.Sentinel, SentinelUsername: s.SentinelUser, SentinelPassword: s.SentinelPassword,
	}
	if _, _, err := s.Credentials(); err != nil {
		return c, err
	}
	if s.URL.TLS() {
		c.TLS, err = engineTLS(s)
	}
	return c, err
}

// engineTLS returns the configuration of encrypted connections to the engine. The name in its certificate must be that of its
// address.
func engineTLS(s *options.Store) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CAFile != "" {
		authorities, err := readAuthorities(s.CAFile, "")
		if err != nil {
			return nil, fmt.Errorf("store-%w", err)
		}
		config.RootCAs = authorities
	}
	if s.CertFile != "" {
		pair, err := readPair(s.CertFile, s.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("store-%w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// failures are the values of store-failure.
var failures = map[string]cluster.Failure{
	options.FailError: cluster.FailError, options.FailAdmit: cluster.FailAdmit, options.FailRefuse: cluster.FailRefuse,
}

func engineRules(s *options.Settings) cluster.Rules {
	return cluster.Rules{
		Timeout: s.Store.Timeout, RefusalCache: s.Store.RefusalCache, Failure: failures[s.Store.Failure],
		MinReplicas: int(s.Store.MinReplicas), MaxLog: int(s.Wire.MaxLog), CacheBytes: s.Store.Cache,
	}
}

func (k *engineKeys) store() buckets.Store { return k.cluster }
func (k *engineKeys) now() int64           { return k.cluster.Now() }
func (k *engineKeys) disk() resp.Disk      { return nil } // the engine's persistence is its own

func (k *engineKeys) apply(s options.Settings) error {
	if err := s.Check(); err != nil {
		return err
	}
	k.cluster.SetRules(engineRules(&s))
	return nil
}

// load waits for the engine, but not for ever: a server that starts again while the engine is away answers CLUSTERDOWN, or what
// store-failure says, until it is back.
func (k *engineKeys) load() error {
	ctx, cancel := context.WithTimeout(k.ctx, enginePatience)
	defer cancel()
	err := k.cluster.Ready(ctx)
	switch {
	case err == nil:
		k.log.Info("the engine was reached", k.describe()...)
	case k.ctx.Err() != nil:
		k.log.Info("stopped while waiting for the engine")
		return errAbandoned
	default:
		k.log.Warn("the engine is away: requests fail until it is back", "store", k.where, "error", err)
		k.tasks.Go(func() {
			if k.cluster.Ready(k.ctx) == nil {
				k.log.Info("the engine was reached", k.describe()...)
			}
		})
	}
	return nil
}

func (k *engineKeys) abandon() { k.cancel() }

func (k *engineKeys) describe() []any {
	seen := k.cluster.Remote()
	if seen.Engine == "" { // it was not reached yet
		return []any{"store", k.where}
	}
	return []any{"store", k.where, "engine", seen.Engine, "topology", seen.Topology, "mechanism", seen.Mechanism, "nodes", seen.Nodes}
}

func (k *engineKeys) start(sample func()) {
	k.tasks.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				sample()
			case <-k.ctx.Done():
				return
			}
		}
	})
}

func (k *engineKeys) close(bool) error {
	k.cancel()
	k.tasks.Wait()
	return k.cluster.Close()
}
