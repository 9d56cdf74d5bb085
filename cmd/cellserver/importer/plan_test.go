package importer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestArguments(t *testing.T) {
	preset := Config{Target: "dump.cell"}
	for _, c := range []struct {
		args   []string
		target string
		match  string
		dryRun bool
		addr   string
	}{
		{[]string{"redis://h:1"}, "dump.cell", "", false, "h:1"},
		{[]string{"redis://h"}, "dump.cell", "", false, "h:6379"},
		{[]string{"--to", "x", "redis://h:1"}, "x", "", false, "h:1"},
		{[]string{"redis://h:1", "--to=x", "--dry-run"}, "x", "", true, "h:1"},
		{[]string{"-match", "a*", "redis://h:1", "-to", "redis://u:p@k:2/1"}, "redis://u@k:2/1", "a*", false, "h:1"},
		{[]string{"--", "rediss://h:1"}, "dump.cell", "", false, "h:1"},
	} {
		p, err := parse(preset, c.args)
		require.NoError(t, err, "%q", c.args)
		assert.Equal(t, c.target, p.target, "%q", c.args)
		assert.Equal(t, c.match, p.match, "%q", c.args)
		assert.Equal(t, c.dryRun, p.dryRun, "%q", c.args)
		assert.Equal(t, c.addr, p.source.Addr, "%q", c.args)
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "redis://host:port is missing"},
		{[]string{"--too", "x"}, "flag provided but not defined: -too"},
		{[]string{"redis://h:1", "--dryrun"}, "not defined: -dryrun"},
		{[]string{"redis://h:1", "--to"}, "flag needs an argument: -to"},
		{[]string{"redis://h:1", "--dry-run=maybe"}, "invalid boolean value"},
		{[]string{"redis://h:1", "redis://u:secret@h:2"}, `not "redis://u@h:2" as well`},
		{[]string{"redis://h:1"}, "--to is missing"},
		{[]string{"localhost:6379"}, "is not the URL of a Redis"},
		{[]string{"dump.cell", "--to", "x"}, "a file is imported into an engine, as in --to valkey://host:port"},
		{[]string{"dump.cell", "--to", "valkey://h", "--match", "x"}, "--match is for a running Redis"},
		{[]string{"redis://h:1", "--to", "x", "--replace"}, "--replace is for an engine"},
		{[]string{"redis://h:1", "--to", "redis://k", "--store-prefix", "x"}, "--store-prefix is for an engine"},
		{[]string{"dump.cell", "--to", "valkey://:secret@h/1"}, "--to: only database 0 is possible"},
		{[]string{"dump.cell", "--to", "gopher://:secret@h"}, "--to: argument must be a URL as in valkey://"},
		{[]string{"dump.cell", "--to", "valkey://:secret@h", "--store-password", "secret"}, "more than one of"},
		{[]string{"dump.cell", "--to", "valkey://h", "--store-password", strings.Repeat("secret", 100)}, "--store-password: argument is longer than"},
		{[]string{"dump.cell", "--to", "valkey://h", "--store-tls-ca-cert-file", "x"}, "needs valkeys:// or rediss://"},
		{[]string{"dump.cell", "--to", "valkey://h", "--store-timeout", "5"}, "not defined: -store-timeout"},
		{[]string{"http://h:1", "--to", "x"}, "http://h:1 is not the URL of a Redis: redis: invalid URL scheme: http"},
		{[]string{"redis://u:secret@h:1/x", "--to", "x"}, "redis://u@h:1/x is not the URL of a Redis"},
		{[]string{"redis://u:secret#@h:1", "--to", "x"}, "everything but letters and digits is written as %XX"},
		{[]string{"redis://u:\x01secret@h:1", "--to", "x"}, "everything but letters and digits is written as %XX"},
		{[]string{"redis://h:1", "--to", "gopher://u:secret@x"}, "gopher://u@x is not the URL of a Redis"},
		{[]string{"redis://h:1", "--to", "redis://u:secret@h:1/3"}, "redis://u@h:1/3 cannot be imported into itself"},
	} {
		var out bytes.Buffer
		err := Run(t.Context(), Config{}, c.args, &out, &out)
		require.ErrorIs(t, err, ErrUsage, "%q", c.args)
		require.ErrorContains(t, err, "(see cellserver import --help)")
		if c.args != nil && c.args[0] == "localhost:6379" {
			continue // a missing argument is reported first
		}
		assert.ErrorContains(t, err, c.want)
		assert.NotContains(t, err.Error(), "secret")
		assert.NotContains(t, err.Error(), "\n")
		assert.Empty(t, out.String())
	}
}

func TestHelpListsEveryOption(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"redis://h:1", "--help"}} {
		var out, stderr bytes.Buffer
		require.NoError(t, Run(t.Context(), Config{Target: "dump.cell"}, args, &out, &stderr))
		assert.Contains(t, out.String(), "the file to write, dump.cell unless it is given\n")
		assert.Empty(t, stderr.String())
	}
	assert.Contains(t, help(Config{}), "the file to write\n")
	for _, option := range []string{"--to", "--match", "--dry-run", "--help", "--replace", "--store-prefix", "--store-password-file", "--store-sentinel"} {
		assert.Contains(t, help(Config{}), "\n  "+option+" ")
	}
}
