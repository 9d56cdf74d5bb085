package options_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/cmd/cellserver/options"
)

func TestStoreURL(t *testing.T) {
	for _, row := range []struct {
		text           string
		addresses      []string
		user, password string
		tls            bool
	}{
		{text: "valkey://h", addresses: []string{"h:6379"}},
		{text: "valkeys://[::1],10.0.0.1:7000", addresses: []string{"[::1]:6379", "10.0.0.1:7000"}, tls: true},
		{text: "rediss://:pw@h:1/0", addresses: []string{"h:1"}, password: "pw", tls: true},
		{text: "redis://user@h", addresses: []string{"h:6379"}, user: "user"},
		{text: "redis://us%3Aer:p%40%2F%25w@h", addresses: []string{"h:6379"}, user: "us:er", password: "p@/%w"},
		{text: "redis://user:p@s:s/w?o#d@h", addresses: []string{"h:6379"}, user: "user", password: "p@s:s/w?o#d"},
	} {
		u, err := options.ParseStoreURL(row.text)
		require.NoError(t, err, row.text)
		assert.Equal(t, row.addresses, u.Addresses, row.text)
		assert.Equal(t, [2]string{row.user, row.password}, [2]string{u.User, u.Password}, row.text)
		assert.Equal(t, row.tls, u.TLS(), row.text)
	}
}

func TestSettingsOfTheStoreThatContradictEachOther(t *testing.T) {
	const store = "--store=valkey://127.0.0.1"
	for _, row := range []struct{ args, want string }{
		{store, ""},
		{store + " --save= --appendonly=no --databases=1", ""},
		{store + " --store-user=u --store-password=p", ""},
		{"--store=valkey://u@h --store-password=p", ""},
		{"--store=valkeys://h --store-tls-cert-file=c --store-tls-key-file=k", ""},
		{"--store-prefix=x --store-failure=admit", ""},
		{"--store-password=p", "store-password is set, but store is not"},
		{"--store-sentinel=m", "store-sentinel is set, but store is not"},
		{store + " --save=60\t1", "save is for keys in memory"},
		{store + " --appendonly=yes", "appendonly is for keys in memory"},
		{store + " --databases=2", "database 0 only"},
		{"--store=valkey://:p@h --store-password=p", "more than one of"},
		{store + " --store-password=p --store-password-file=f", "more than one of"},
		{"--store=valkey://u:p@h --store-user=u", "the user is set by store and by store-user"},
		{store + " --store-user=u", "has no password"},
		{"--store=valkey://u@h", "has no password"},
		{store + " --store-sentinel-password=p", "need store-sentinel"},
		{store + " --store-sentinel=m --store-sentinel-user=u", "needs store-sentinel-password"},
		{store + " --store-tls-ca-cert-file=f", "needs valkeys:// or rediss://"},
		{"--store=rediss://h --store-tls-cert-file=f", "go together"},
	} {
		s, err := options.Parse(strings.Split(row.args, " "))
		require.NoError(t, err)
		if err = s.Check(); row.want == "" {
			assert.NoError(t, err, row.args)
		} else {
			assert.ErrorContains(t, err, row.want, row.args)
		}
	}
}

func TestThePasswordFileIsReadEachTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	s := options.Store{User: "cell", PasswordFile: path}
	for _, row := range []struct{ text, password, fault string }{
		{text: "OpenSesame\n", password: "OpenSesame"},
		{text: "other", password: "other"},
		{text: "a b \r\n", password: "a b "},
		{text: "\n", fault: "is empty"},
		{text: "one\ntwo\n", fault: "more than one line"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(row.text), 0o600))
		user, password, err := s.Credentials()
		if row.fault != "" {
			require.ErrorContains(t, err, row.fault)
			assert.NotContains(t, err.Error(), "two")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "cell", user)
		assert.Equal(t, row.password, password)
	}
	require.NoError(t, os.Remove(path))
	_, _, err := s.Credentials()
	require.ErrorContains(t, err, "store-password-file: open "+path)
}

// The passwords of the store are in nothing that the options write.
func TestPasswordsOfTheStoreAreShownNowhere(t *testing.T) {
	const secret = "OpenSesame"
	ways := map[string]func(t *testing.T, name, value string) (options.Settings, string, error){
		"a flag": func(_ *testing.T, name, value string) (options.Settings, string, error) {
			s, err := options.Parse([]string{"--" + name, value})
			return s, "", err
		},
		"a variable": func(t *testing.T, name, value string) (options.Settings, string, error) {
			t.Setenv(options.EnvPrefix+"_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
			s, err := options.Parse(nil)
			return s, "", err
		},
		"a file": func(t *testing.T, name, value string) (options.Settings, string, error) {
			path := file(t, name+" other\n"+name+" "+value+"\n")
			if name == "store" {
				path = file(t, "store valkey://other\nstore "+value+"\n")
			}
			s, err := options.Parse([]string{path})
			return s, path, err
		},
	}
	for way, parse := range ways {
		for _, row := range []struct{ name, value string }{
			{"store", "valkey://:" + secret + "@h"}, {"store", "valkey://" + secret + "@h"}, {"store", "valkey://" + secret + ":x@h"},
			{"store", "valkey://:" + secret + "@h/1"}, {"store", "valkey://:" + secret + "%zz@h"}, {"store", "http://:" + secret + "@h"},
			{"store", secret}, {"store", "valkey://:" + secret + "@h:0"}, {"store", "valkey://:" + secret + "@h?db=1"},
			{"store-password", secret}, {"store-password", strings.Repeat(secret, 60)},
			{"store-sentinel-password", secret}, {"store-sentinel-password", strings.Repeat(secret, 60)},
		} {
			t.Run(way+", "+row.name, func(t *testing.T) {
				s, path, err := parse(t, row.name, row.value)
				if err != nil {
					assert.NotContains(t, err.Error(), secret)
					assert.Contains(t, strings.ToLower(strings.ReplaceAll(err.Error(), "_", "-")), row.name, "it says which option")
					return
				}
				for name, value := range values(s) {
					assert.NotContains(t, value, secret, name)
				}
				if err := s.Check(); err != nil {
					assert.NotContains(t, err.Error(), secret)
				}
				live := options.NewLive(s, func(options.Settings) error { return nil })
				if live.File = path; path == "" {
					live.File = file(t, "port 0\n")
				}
				require.NoError(t, live.Rewrite())
				after, err := os.ReadFile(live.File)
				require.NoError(t, err)
				if path == "" {
					assert.NotContains(t, string(after), secret, "what was not in the file does not get there")
					assert.NotContains(t, string(after), "redacted")
					return
				}
				again, err := options.Parse([]string{path})
				require.NoError(t, err)
				assert.Equal(t, s.Store, again.Store, "what was in the file stays")
				assert.Equal(t, 1, strings.Count(string(after), row.name+" "), "once")
			})
		}
	}
	assert.NotContains(t, options.Help(), secret)
	_, err := options.Parse([]string{"--store-password", "Open", "Sesame"})
	require.ErrorContains(t, err, "behind --store-password")
	assert.NotContains(t, err.Error(), "Sesame")
}
