package limits

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
)

func wordsOf(line string) (words [][]byte) {
	for _, w := range strings.Fields(line) {
		words = append(words, []byte(w))
	}
	return words
}

// Each row names the kind that TYPE names, fits into Values, and makes limits of its own kind of any integers in range.
func TestKindRows(t *testing.T) {
	for i := range Kinds() {
		k := &Kinds()[i]
		assert.Equal(t, strings.ToUpper(k.Kind.String()), k.Word)
		assert.Same(t, k, kindNamed([]byte(strings.ToLower(k.Word))))
		require.LessOrEqual(t, len(k.Integers), maxIntegers, k.Word)
		assert.NotEmpty(t, k.Summary, k.Word)
		assert.NotEmpty(t, k.Cost, k.Word)
		v := Values{Period: 1e9}
		for j, p := range k.Integers {
			v.Integers[j] = p.Min
		}
		l, err := k.New(&v)
		require.NoError(t, err, k.Word)
		assert.Equal(t, k.Kind, l.Kind(), k.Word)
	}
}

// The first word from the left that is wrong makes the reply.
func TestFaultsOfARequest(t *testing.T) {
	for _, row := range []struct{ kind, words, fault string }{
		{"THROTTLE", "k 15 30 60", ""},
		{"THROTTLE", "k x 0 0", "ERR value is not an integer or out of range"},
		{"THROTTLE", "k 9223372036854775807 x 0", "ERR " + string(buckets.ErrBurstRange)},
		{"THROTTLE", "k 9223372036854775806 0 0", "ERR " + string(buckets.ErrCountRange)},
		{"THROTTLE", "k 1 1 0", "ERR " + string(buckets.ErrPeriodRange)},
		{"THROTTLE", "k 1 1 60 1 ALIGN 5", "ERR syntax error"},
		{"WINDOW", "k 0 x", "ERR " + string(buckets.ErrLimitRange)},
		{"WINDOW", "k 1 60 x", "ERR value is not an integer or out of range"},
		{"WINDOW", "k 1 60 -1 MS ALIGN -0.5 PEEK", ""},
		{"WINDOW", "k 1 60 1 ALIGN x", "ERR " + string(buckets.ErrOffsetRange)},
		{"WINDOW", "k 1 60 1 PEEK PEEK", "ERR syntax error"},
		{"ZSLIDE", "k 5 0.000000001 0 PEEK", ""},
		{"ZSLIDE", "k 5 60 1 ALIGN 5", "ERR syntax error"},
	} {
		var l Last
		kind, words := kindNamed([]byte(row.kind)), wordsOf(row.words)
		assert.Equal(t, row.fault, l.Parse(kind, words), "%s %s", row.kind, row.words)
		assert.Equal(t, row.fault == "", l.Is(kind, words[1:]), "%s %s: only a request without a fault is kept", row.kind, row.words)
	}
}

// CL.ALL gives a check for each kind, with the options at the end, and uses its memory again.
func TestAll(t *testing.T) {
	var a All
	anyKey := func([]byte) string { return "" }
	require.Empty(t, a.Parse(wordsOf("WINDOW a 5 60 1 ALIGN 3 THROTTLE b 15 30 60 2 zslide c 3 60 -1 ms PEEK"), anyKey))
	assert.Equal(t, Options{Peek: true, MS: true}, a.Options)
	require.Len(t, a.Checks, 3)
	for i, want := range []struct {
		key      string
		kind     buckets.Kind
		quantity int64
	}{{"a", buckets.Window, 1}, {"b", buckets.Throttle, 2}, {"c", buckets.Slide, -1}} {
		assert.Equal(t, want.key, string(a.Checks[i].Key))
		assert.Equal(t, want.kind, a.Checks[i].Limit.Kind())
		assert.Equal(t, want.quantity, a.Checks[i].Quantity)
	}
	a.Forget()
	assert.Nil(t, a.Checks[2].Key)

	again := wordsOf("WINDOW a 5 60 1 THROTTLE b 15 30 60 2")
	require.Empty(t, a.Parse(again, anyKey))
	assert.Len(t, a.Checks, 2)
	assert.Equal(t, Options{}, a.Options)
	assert.Zero(t, testing.AllocsPerRun(100, func() { a.Parse(again, anyKey) }))

	for words, fault := range map[string]string{
		"WINDOW a 5 60 1 ZSLIDE a 5 60 1":        errKeyTwice,
		"WINDOW a 5 60":                          "ERR syntax error",
		"PEEK":                                   "ERR syntax error",
		"WINDOW a 5 60 1 PEEK ALIGN 5":           "ERR syntax error",
		strings.Repeat("WINDOW a 5 60 1 ", 1000): errKeyTwice,
	} {
		assert.Equal(t, fault, a.Parse(wordsOf(words), anyKey), "%.60s", words)
	}
	assert.Equal(t, "too long", a.Parse(wordsOf("WINDOW a x 60 1"), func([]byte) string { return "too long" }), "the key is read first")
	assert.Equal(t, wordsOf("a b"), Keys(again))
	assert.Nil(t, Keys(wordsOf("WINDOW a 5")))
}
