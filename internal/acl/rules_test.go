package acl_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/internal/acl"
)

const (
	hashOfP     = "148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940" // SHA-256 of the password p
	hashOfEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// Rules and the user that they make, as Redis 7.0 describes it.
func TestSetUser(t *testing.T) {
	for _, c := range []struct{ rules, want string }{
		{"", "off resetchannels -@all"},
		{"on", "on resetchannels -@all"},
		{"ON OFF On", "on resetchannels -@all"},
		{"nopass", "off nopass resetchannels -@all"},
		{">p nopass", "off nopass resetchannels -@all"},
		{"nopass >p", "off #" + hashOfP + " resetchannels -@all"},
		{">p >p #" + hashOfP, "off #" + hashOfP + " resetchannels -@all"},
		{">p > <p", "off #" + hashOfEmpty + " resetchannels -@all"},
		{">p !" + hashOfP + " >", "off #" + hashOfEmpty + " resetchannels -@all"},
		{">p > <p >p", "off #" + hashOfEmpty + " #" + hashOfP + " resetchannels -@all"},
		{"nopass >p resetpass", "off resetchannels -@all"},
		{"sanitize-payload", "off sanitize-payload resetchannels -@all"},
		{"sanitize-payload skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"},
		{"on nopass ~a &a +@all reset", "off sanitize-payload resetchannels -@all"},

		{"~a ~b ~a", "off ~a ~b resetchannels -@all"},
		{"~", "off ~ resetchannels -@all"},
		{"%R~a %w~b %rW~c %WR~d", "off %R~a %W~b ~c ~d resetchannels -@all"},
		{"%R~a ~b %W~a", "off ~a ~b resetchannels -@all"},
		{"%R", "off %R~ resetchannels -@all"},
		{"~a ~* allkeys ALLKEYS", "off ~* resetchannels -@all"},
		{"~* resetkeys ~a", "off ~a resetchannels -@all"},
		{"%R~*", "off %R~* resetchannels -@all"},
		{"%R~a~b", "off %R~a~b resetchannels -@all"},
		{"~a %R~* %W~*", "off ~* resetchannels -@all"}, // Redis: ~a ~*, which it cannot read back

		{"&a &b &a", "off resetchannels &a &b -@all"},
		{"&a &*", "off &* -@all"},
		{"allchannels resetchannels &", "off resetchannels & -@all"},

		{"+@all", "off resetchannels +@all"},
		{"allcommands -ttl", "off resetchannels +@all -ttl"},
		{"+@ALL -@Admin", "off resetchannels +@all -@admin"},
		{"+ttl -ttl", "off resetchannels -@all -ttl"},
		{"+TTL +Ping", "off resetchannels -@all +ttl +ping"},
		{"+@all nocommands", "off resetchannels -@all"},
		{"+acl", "off resetchannels -@all +acl"},
		{"+acl -acl|setuser", "off resetchannels -@all +acl -acl|setuser"},
		{"+client", "off resetchannels -@all +client"},
		{"+client|id +CLIENT|KILL", "off resetchannels -@all +client|id +client|kill"},
		{"+@all -config +config|get", "off resetchannels +@all -config +config|get"},
		{"+@throttle -cl.get", "off resetchannels -@all +@throttle -cl.get"},
		{"+cl.throttle +cl.window", "off resetchannels -@all +cl.throttle +cl.window"},
		{"+@connection -@dangerous", "off resetchannels -@all +@connection -@dangerous"},

		// Rules keep their order, without those that later ones override.
		{"+ttl +ping -TTL +Ttl", "off resetchannels -@all +ping +ttl"},
		{"+ttl -@read +ttl", "off resetchannels -@all -@read +ttl"},
		{"-@read +ttl +@READ", "off resetchannels -@all +ttl +@read"},
		{"+client|id +ping -client", "off resetchannels -@all +ping -client"},
		{"+client|id -client|id", "off resetchannels -@all -client|id"},
		{"+ttl +@all -ping -@all", "off resetchannels -@all"},
		{"+@all -debug reset +eval", "off sanitize-payload resetchannels -@all +eval"},

		// Names that only Redis has.
		{"+@all -debug -eval +get", "off resetchannels +@all -debug -eval +get"},
		{"+GET -@Geo +@stream", "off resetchannels -@all +get -@geo +@stream"},
		{"+script|load -script +xgroup|create", "off resetchannels -@all -script +xgroup|create"},
		{"+config|rewrite -config|get", "off resetchannels -@all +config|rewrite -config|get"},
		{"+config|rewrite -config|get +config", "off resetchannels -@all +config"},
		{"+waitaof +hexpire +commandlog|get", "off resetchannels -@all +waitaof +hexpire +commandlog|get"}, // since 7.2
	} {
		t.Run(c.rules, func(t *testing.T) {
			u := with(t, acl.New(sampleCommands()), strings.Split(c.rules, " ")...)
			assert.Equal(t, "user someone "+c.want, u.Describe())
		})
	}
}

func TestSetUserErrors(t *testing.T) {
	for _, c := range []struct {
		rule string
		want acl.Error
	}{
		{"foo", acl.ErrSyntax}, {"on ", acl.ErrSyntax}, {"\x00", acl.ErrSyntax}, {"*", acl.ErrSyntax},
		{"all\u212aeys", acl.ErrSyntax}, // a Kelvin sign in place of the k
		{"+foo", acl.ErrUnknown}, {"-foo", acl.ErrUnknown}, {"+", acl.ErrUnknown}, {"-", acl.ErrUnknown},
		{"+@", acl.ErrUnknown}, {"+@foo", acl.ErrUnknown}, {"-@foo", acl.ErrUnknown}, {"+client|foo", acl.ErrUnknown},
		{"-client|foo", acl.ErrUnknown}, {"-client|", acl.ErrUnknown}, {"-client|id|x", acl.ErrUnknown},
		{"+foo|bar", acl.ErrUnknown}, {"-ttl|x", acl.ErrUnknown}, {"+ttl|x|y", acl.ErrUnknown}, {"+|", acl.ErrUnknown},
		{"+@all|x", acl.ErrUnknown}, {"+ ttl", acl.ErrUnknown}, {"+client|foo|x", acl.ErrUnknown},
		{"+client|", acl.ErrSyntax}, {"+ttl|", acl.ErrSyntax},
		{"+client|id|x", acl.ErrSubArg}, {"+client|id|", acl.ErrSubArg},
		{"+select|0", acl.ErrFirstArg}, {"+get|x", acl.ErrFirstArg}, {"-get|x", acl.ErrUnknown}, {"+get|", acl.ErrSyntax},
		{"+script|nope", acl.ErrUnknown}, {"-script|nope", acl.ErrUnknown}, {"+script|", acl.ErrSyntax},
		{"+script|load|x", acl.ErrSubArg}, {"+config|nope", acl.ErrUnknown}, {"+getx", acl.ErrUnknown}, {"+script:", acl.ErrUnknown},
		{"%", acl.ErrSyntax}, {"%~a", acl.ErrSyntax}, {"%X~a", acl.ErrSyntax}, {"%RR~a", acl.ErrSyntax},
		{"%RWR~a", acl.ErrSyntax}, {"%Ra", acl.ErrSyntax},
		{"~a b", acl.ErrSyntax}, {"~a\tb", acl.ErrSyntax}, {"%R~\n", acl.ErrSyntax}, {"~a\x00", acl.ErrSyntax},
		{"&a b", acl.ErrSyntax},
		{"<no", acl.ErrNoPassword}, {"!" + hashOfP, acl.ErrNoPassword},
		{"#", acl.ErrHash}, {"!x", acl.ErrHash}, {"#" + strings.ToUpper(hashOfP), acl.ErrHash},
		{"#" + hashOfP + "0", acl.ErrHash}, {"#" + strings.Repeat("g", 64), acl.ErrHash},
		{"(", acl.ErrSelectors}, {"(~a +get)", acl.ErrSelectors},
	} {
		t.Run(c.rule, func(t *testing.T) {
			l := acl.New(sampleCommands())
			before := with(t, l, "on", "~b", "+ping", ">q").Describe()
			err := l.SetUser("someone", []string{"off", "+ttl", c.rule, "~c"})
			require.ErrorIs(t, err, c.want)
			shown, _, _ := strings.Cut(c.rule, "\x00")
			require.EqualError(t, err, "Error in ACL SETUSER modifier '"+shown+"': "+string(c.want))

			u, _ := l.User("someone")
			assert.Equal(t, before, u.Describe(), "none of the rules applies")
			require.Error(t, l.SetUser("other", []string{c.rule}))
			_, made := l.User("other")
			assert.False(t, made)
		})
	}
	l := acl.New(sampleCommands())
	assert.ErrorIs(t, l.SetUser("a", []string{"allkeys", "~b"}), acl.ErrAllKeys)
	assert.ErrorIs(t, l.SetUser("a", []string{"allkeys", "%"}), acl.ErrAllKeys) // as Redis
	assert.ErrorIs(t, l.SetUser("a", []string{"allchannels", "&b"}), acl.ErrAllChannels)
	for _, name := range []string{" ", "a b", "a\x00", "\t", "a\n"} {
		assert.ErrorIs(t, l.SetUser(name, nil), acl.ErrName)
	}
	assert.Equal(t, []string{"default"}, l.Names())
}

// Finding one rule takes the same time among many as among few.
func TestSetUserTakesManyRules(t *testing.T) {
	var rules []string
	for i := range 20_000 {
		s := strings.Repeat("x", i%7) + string(rune('a'+i%26)) + strings.Repeat("y", i%1000/10) + string(rune('0'+i%10))
		rules = append(rules, "~"+s, "&"+s, ">"+s, "<"+s)
	}
	l := acl.New(sampleCommands())
	require.NoError(t, l.SetUser("a", rules))
	u, _ := l.User("a")
	assert.Empty(t, u.Passwords())
}

// someRules draws rules that are valid one by one, though perhaps not together.
func someRules(commands []acl.Command, categories []string) *rapid.Generator[[]string] {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name
	}
	pattern := rapid.StringOfN(rapid.SampledFrom([]rune("ab*?[]^-\\~%")), 0, 4, -1)
	return rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]string{"on", "off", "nopass", "resetpass", "allkeys", "resetkeys", "allchannels",
			"resetchannels", "allcommands", "nocommands", "sanitize-payload", "skip-sanitize-payload", "reset", ""}),
		rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"+", "-"}).Draw(t, "sign") + rapid.SampledFrom(names).Draw(t, "command")
		}),
		rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"+@", "-@"}).Draw(t, "sign") + rapid.SampledFrom(categories).Draw(t, "category")
		}),
		rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"~", "%R~", "%W~", "%RW~", "&"}).Draw(t, "may") + pattern.Draw(t, "pattern")
		}),
		rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{">", "<"}).Draw(t, "sign") + rapid.SampledFrom([]string{"p", "q", ""}).Draw(t, "password")
		}),
	), 0, 12)
}

// The description of a user makes the same user.
func TestDescribeMakesTheSameUser(t *testing.T) {
	commands := sampleCommands()
	rapid.Check(t, func(t *rapid.T) {
		l := acl.New(commands)
		for _, rule := range someRules(commands, l.Categories()).Draw(t, "rules") {
			l.SetUser("a", []string{rule}) // invalid rules are left out
		}
		require.NoError(t, l.SetUser("a", nil))
		sameAgain(t, commands, l, "a")
	})
}

// sameAgain requires that a user can be made from its description.
func sameAgain(t require.TestingT, commands []acl.Command, l *acl.List, name string) {
	u, known := l.User(name)
	require.True(t, known)
	l2 := acl.New(commands)
	require.NoError(t, l2.SetUser(name, []string{"reset", "+@all", "~x", ">x"})) // rules that the description must override
	_, err := l2.DelUser(name)
	if name == acl.DefaultUser {
		require.ErrorIs(t, err, acl.ErrDefault)
		require.NoError(t, l2.SetUser(name, []string{"reset"}))
	}
	words := strings.Split(u.Describe(), " ")
	require.Equal(t, []string{"user", name}, words[:2])
	require.NoError(t, l2.SetUser(name, words[2:]))
	u2, _ := l2.User(name)
	require.Equal(t, allowed(u, commands), allowed(u2, commands))
	require.Equal(t, u.Passwords(), u2.Passwords())
	require.Equal(t, u.Keys(), u2.Keys())
	require.Equal(t, u.Channels(), u2.Channels())
	require.Equal(t, u.Commands(), u2.Commands())
	if name != acl.DefaultUser { // because reset has set the rule about payloads of the default user
		require.Equal(t, u.Describe(), u2.Describe())
	}
}

// Any rules are either accepted or refused, and an accepted user can be described.
func FuzzSetUser(f *testing.F) {
	for _, rules := range []string{
		"on\n>p\n~app:*\n+@all\n-@dangerous", "reset\n%R~a\n%W~a\n&x\n-client\n+client|id", "#" + hashOfP + "\n!" + hashOfP,
		"+select|0\n+client|id|x\n+client|\n(~a)\nclearselectors", "%\n~a b\n<x\n%RR~*\n%RW~*", "+\x00\n\xff\n~\xff[",
		"+@all\n-debug\n+config|rewrite\n-config\n+xgroup|create\n-@geo\n+get|x",
	} {
		f.Add("someone", rules)
	}
	commands := sampleCommands()
	f.Fuzz(func(t *testing.T, name, rules string) {
		l := acl.New(commands)
		before, _ := l.User(name)
		for _, rule := range strings.Split(rules, "\n") {
			l.SetUser(name, []string{rule})
		}
		u, known := l.User(name)
		if strings.ContainsAny(name, " \t\n\v\f\r\x00") {
			require.False(t, known)
			return
		}
		if known && u != before {
			sameAgain(t, commands, l, name)
			u.AllowsKey([]byte(rules), true, false)
		}
		l = acl.New(commands)
		if err := l.SetUser(name, strings.Split(rules, "\n")); err != nil {
			same, _ := l.User(name)
			require.Equal(t, before == nil, same == nil, "nobody is made")
			if same != nil {
				require.Equal(t, before.Describe(), same.Describe())
			}
		}
	})
}

// A rule with a name that only Redis has neither allows nor denies anything, in any letter case and with either sign.
func TestNamesOfRedisMeanNothing(t *testing.T) {
	commands := sampleCommands()
	l := acl.New(commands)
	for _, base := range []string{"+@all", "-@all", "+@read"} {
		want := allowed(with(t, l, base), commands)
		for _, rule := range []string{"+get", "-get", "-DEBUG", "+script|load", "-config|rewrite", "+@geo", "-@STREAM"} {
			assert.Equal(t, want, allowed(with(t, l, base, rule), commands), "%s %s", base, rule)
		}
	}
}
