package acl_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"cellserver/internal/acl"
	"cellserver/internal/testing/testenv"
)

// realRedis is a redis-server that ends with the test.
type realRedis struct {
	*redis.Client
	socket, aclFile string
}

func startRedis(t *testing.T) *realRedis {
	t.Helper()
	dir := t.TempDir()
	r := &realRedis{aclFile: filepath.Join(dir, "users.acl")}
	require.NoError(t, os.WriteFile(r.aclFile, nil, 0o600))
	r.socket = testenv.Redis(t, "--aclfile", r.aclFile)
	r.Client = r.client()
	t.Cleanup(func() { r.Close() })
	if info, err := r.Info(context.Background(), "server").Result(); err != nil || !strings.Contains(info, "redis_version:7.0.") {
		t.Skipf("needs the rules of Redis 7.0 (%v)", err)
	}
	return r
}

// client returns a client with one connection, on which it sends no commands of its own.
func (r *realRedis) client() *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: r.socket, Protocol: 2, DisableIdentity: true,
		PoolSize: 1, MaxRetries: -1})
}

// ask returns the reply to a command. An error reply is returned as its text.
func (r *realRedis) ask(words ...string) any {
	reply, err := r.Do(context.Background(), anys(words)...).Result()
	if err != nil {
		return err
	}
	return reply
}

func anys(words []string) []any {
	list := make([]any, len(words))
	for i := range words {
		list[i] = words[i]
	}
	return list
}

// texts returns a reply that is an array of strings.
func texts(reply any) []string {
	list := []string{}
	for _, one := range reply.([]any) {
		list = append(list, one.(string))
	}
	return list
}

// redisCommand is a command of Redis and a call of it.
type redisCommand struct {
	acl.Command
	call []string // the words of a call with the required number of arguments
}

// commands returns the command table of Redis.
func (r *realRedis) commands(t *testing.T) []redisCommand {
	t.Helper()
	var all []redisCommand
	var add func(rows []any, parent int)
	add = func(rows []any, parent int) {
		for _, row := range rows {
			fields := row.([]any)
			c := redisCommand{Command: acl.Command{Name: fields[0].(string), Categories: texts(fields[6]),
				Index: len(all), Parent: parent, Always: slices.Contains(texts(fields[2]), "no_auth")}}
			c.call = strings.Split(c.Name, "|")
			arity := fields[1].(int64)
			for range max(arity, -arity) - int64(len(c.call)) {
				c.call = append(c.call, "1")
			}
			all = append(all, c)
			add(fields[9].([]any), c.Index)
		}
	}
	add(r.ask("COMMAND").([]any), -1)
	require.Greater(t, len(all), 300)
	return all
}

// list returns a List with the commands of Redis.
func list(commands []redisCommand) *acl.List {
	rows := make([]acl.Command, len(commands))
	for i := range commands {
		rows[i] = commands[i].Command
	}
	return acl.New(rows)
}
