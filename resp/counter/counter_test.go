package counter_test

import (
	"math"
	"math/big"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"cellserver/buckets"
	"cellserver/resp/counter"
)

// key is what a key holds, in the model: a text as in Redis, and whether and when it expires.
type key struct {
	text    string // "" if there is no key
	other   bool   // of another type
	expires bool
	at      int64
}

const now = 1_700_000_123 * int64(1e9)

func (k key) state() buckets.State {
	at := buckets.NoExpiry
	if k.expires {
		at = k.at
	}
	switch n, err := strconv.ParseInt(k.text, 10, 64); {
	case k.other:
		return buckets.State{Kind: buckets.Throttle, Words: [buckets.MaxWords]int64{now + 5e9}}
	case k.text == "":
		return buckets.State{}
	case err == nil:
		return buckets.Counted(n, at)
	}
	value, err := strconv.ParseFloat(k.text, 64)
	if err != nil {
		panic(err)
	}
	return buckets.CountedFloat(value, at)
}

var (
	edges   = rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3), rapid.SampledFrom([]int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1}))
	times   = rapid.Int64Range(now-2, now+1e12)
	anyKeys = rapid.Custom(func(t *rapid.T) key {
		k := key{expires: rapid.Bool().Draw(t, "expires"), at: rapid.Int64Range(now+1, now+1e12).Draw(t, "at")}
		switch rapid.IntRange(0, 5).Draw(t, "holds") {
		case 0:
			return key{}
		case 1:
			return key{other: true}
		case 2:
			k.text = "1.5"
		default:
			k.text = strconv.FormatInt(edges.Draw(t, "value"), 10)
		}
		return k
	})
)

const (
	wrongType   = "the key holds another kind of bucket"
	notInteger  = "ERR value is not an integer or out of range"
	overflow    = "ERR increment or decrement would overflow"
	noViolation = ""
)

// model is c on k in the words of Redis's documentation, with integers of any size. It returns what the key holds afterwards, the two
// integers that INCREX answers, and the error.
func model(k key, c *counter.Change) (after key, value, applied int64, did bool, fault string) {
	exists := k.text != "" || k.other
	expire := func(to *key) {
		switch c.How {
		case counter.Drop:
			to.expires = false
		case counter.At:
			to.expires, to.at = true, c.Expiry
		}
	}
	if c.Verb == counter.Assign {
		if c.When == counter.Absent && exists && !c.Returns {
			return k, 0, 0, false, noViolation
		}
	}
	if k.other {
		return k, 0, 0, false, wrongType
	}
	switch c.Verb {
	case counter.Read, counter.Delete:
		if after = k; !exists {
			return k, 0, 0, false, noViolation
		}
		if expire(&after); c.Verb == counter.Delete {
			after = key{}
		}
		return after, 0, 0, false, noViolation
	case counter.Assign:
		switch {
		case c.When == counter.Absent && exists, c.When == counter.Present && !exists, c.When == counter.Equal && k.text != string(c.Operand):
			return k, 0, 0, false, noViolation
		case c.When == counter.Equal && !exists:
			return k, 0, 0, false, noViolation
		}
		after = key{text: strconv.FormatInt(c.Value, 10)}
		if c.How == counter.Keep {
			after.expires, after.at = k.expires, k.at
		}
		expire(&after)
		return after, c.Value, 0, true, noViolation
	}
	old := new(big.Int)
	if exists {
		if _, ok := old.SetString(k.text, 10); !ok {
			return k, 0, 0, false, notInteger
		}
	}
	sum := new(big.Int).Add(old, big.NewInt(c.Value))
	after = k
	if c.Verb == counter.Increase {
		if !sum.IsInt64() {
			return k, 0, 0, false, overflow
		}
		after.text = sum.String()
		return after, sum.Int64(), 0, true, noViolation
	}
	low, high := big.NewInt(c.Low), big.NewInt(c.High)
	if sum.Cmp(low) < 0 || sum.Cmp(high) > 0 {
		if !c.Saturate {
			return k, old.Int64(), 0, false, noViolation
		}
		if sum.Cmp(low) < 0 {
			sum = low
		} else {
			sum = high
		}
	}
	change := new(big.Int).Sub(sum, old)
	if !change.IsInt64() {
		return k, 0, 0, false, overflow
	}
	after.text = sum.String()
	if !c.IfNoExpiry || !k.expires {
		expire(&after)
	}
	return after, sum.Int64(), change.Int64(), true, noViolation
}

// Whatever a key holds and whatever is asked, a change does what the model says, and a change that fails or is refused leaves the
// state alone and says so.
func TestChangesAreThoseOfTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := anyKeys.Draw(t, "key")
		c := counter.Change{
			Verb:  rapid.SampledFrom([]counter.Verb{counter.Read, counter.Assign, counter.Increase, counter.Bounded, counter.Delete}).Draw(t, "verb"),
			How:   rapid.SampledFrom([]counter.How{counter.Keep, counter.Drop, counter.At}).Draw(t, "how"),
			Value: edges.Draw(t, "operand"), Expiry: times.Draw(t, "expiry"),
		}
		switch c.Verb {
		case counter.Assign:
			c.When = rapid.SampledFrom([]counter.When{counter.Always, counter.Absent, counter.Present, counter.Equal}).Draw(t, "when")
			c.Returns = rapid.Bool().Draw(t, "returns")
			c.Operand = []byte(rapid.SampledFrom([]string{k.text, "0", "", "+1", "1.5"}).Draw(t, "if equal"))
		case counter.Increase:
			c.How = counter.Keep
		case counter.Delete:
			c.How = counter.Keep
		case counter.Bounded:
			c.Low, c.High = edges.Draw(t, "low"), edges.Draw(t, "high")
			if c.Low > c.High {
				c.Low, c.High = c.High, c.Low
			}
			c.Saturate = rapid.Bool().Draw(t, "saturate")
			c.IfNoExpiry = c.How == counter.At && rapid.Bool().Draw(t, "only without expiry")
		}
		after, value, applied, did, fault := model(k, &c)

		states := []buckets.State{k.state()}
		changed, err := c.Update(now, states)
		if fault != "" {
			require.Error(t, err)
			if fault == wrongType {
				require.ErrorIs(t, err, buckets.ErrWrongKind)
			} else {
				require.EqualError(t, err, fault)
			}
			require.False(t, changed)
			return
		}
		require.NoError(t, err)
		before := k.state()
		require.Equal(t, before, c.Before)
		if after != k {
			require.True(t, changed)
		}
		if changed {
			require.Equal(t, after.state(), states[0])
		} else {
			require.Equal(t, after, k)
		}
		if c.Verb == counter.Increase || c.Verb == counter.Bounded {
			require.Equal(t, value, c.After)
		}
		require.Equal(t, []any{applied, did}, []any{c.Applied, c.Did})
		if c.Verb != counter.Read && c.Verb != counter.Delete {
			require.Equal(t, did, changed, "what is done is a change, to the same value too")
		}
	})
}

// A store may call Update again with other states: what the first call has left in the change does not matter.
func TestChangesMayBeMadeAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := anyKeys.Draw(t, "first"), anyKeys.Draw(t, "second")
		asked := counter.Change{Verb: counter.Bounded, Value: edges.Draw(t, "by"), Low: -5, High: 1e15, Saturate: rapid.Bool().Draw(t, "saturate")}
		again, once := asked, asked
		_, _ = again.Update(now, []buckets.State{first.state()})
		a, b := []buckets.State{second.state()}, []buckets.State{second.state()}
		changed, err := again.Update(now, a)
		changedOnce, errOnce := once.Update(now, b)
		require.Equal(t, changedOnce, changed)
		require.Equal(t, errOnce, err)
		require.Equal(t, once, again)
		require.Equal(t, b, a)
	})
}

// MSET changes all keys or none, and MGET none.
func TestManyIsAllOrNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(anyKeys, 1, 6).Draw(t, "keys")
		var states, before []buckets.State
		var values []int64
		wrong := false
		for _, k := range keys {
			states, before = append(states, k.state()), append(before, k.state())
			values = append(values, edges.Draw(t, "value"))
			wrong = wrong || k.other
		}
		m := counter.Many{}
		changed, err := m.Update(now, states)
		require.NoError(t, err)
		require.False(t, changed)
		require.Equal(t, before, m.Before)
		require.Equal(t, before, states)

		m.Values = values
		changed, err = m.Update(now, states)
		require.Equal(t, !wrong, changed)
		if wrong {
			require.ErrorIs(t, err, buckets.ErrWrongKind)
			require.Equal(t, before, states)
			return
		}
		for i := range states {
			assert.Equal(t, buckets.Counted(values[i], buckets.NoExpiry), states[i])
		}
	})
}
