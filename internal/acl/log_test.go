package acl_test

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"cellserver/internal/acl"
)

const second = int64(time.Second)

func denial(object string) acl.Denial {
	return acl.Denial{Reason: acl.ReasonKey, Context: acl.ContextTopLevel, Object: object, Username: "u", Client: "id=1"}
}

func TestLogCountsEqualDenials(t *testing.T) {
	var g acl.Log
	assert.Empty(t, g.Entries(0, 10))
	g.Add(0, denial("a"))
	g.Add(1*second, denial("b"))
	other := denial("a")
	other.Client = "id=2"
	g.Add(60*second, other) // a minute after the last
	want := acl.Entry{Denial: other, Count: 2, Age: 2 * time.Second}
	assert.Equal(t, []acl.Entry{want, {Denial: denial("b"), Count: 1, Age: 61 * time.Second}}, g.Entries(62*second, 10))
	assert.Len(t, g.Entries(62*second, 1), 1)
	assert.Empty(t, g.Entries(62*second, 0))
	assert.Empty(t, g.Entries(62*second, -1))

	g.Add(120*second, denial("a"))
	assert.Equal(t, uint64(3), g.Entries(120*second, 1)[0].Count, "a minute after the last of them")
	g.Add(180*second+1, denial("a"))
	assert.Equal(t, uint64(1), g.Entries(181*second, 1)[0].Count, "more than a minute")
	assert.Len(t, g.Entries(181*second, 10), 3)

	g.Reset()
	assert.Empty(t, g.Entries(181*second, 10))
	g.Add(181*second, denial("a"))
	assert.Equal(t, uint64(1), g.Entries(181*second, 1)[0].Count)
}

func TestLogTellsDenialsApart(t *testing.T) {
	var g acl.Log
	g.Add(0, denial("a"))
	for _, change := range []func(*acl.Denial){
		func(d *acl.Denial) { d.Reason = acl.ReasonCommand }, func(d *acl.Denial) { d.Context = acl.ContextMulti },
		func(d *acl.Denial) { d.Object = "b" }, func(d *acl.Denial) { d.Username = "v" },
	} {
		d := denial("a")
		change(&d)
		g.Add(0, d)
		assert.Equal(t, acl.Entry{Denial: d, Count: 1}, g.Entries(0, 1)[0])
	}
	assert.Len(t, g.Entries(0, 10), 5)
}

// Only the last ten entries are compared, as in Redis, so that a flood of different denials costs little.
func TestLogComparesTheLastTen(t *testing.T) {
	var g acl.Log
	for i := range 11 {
		g.Add(0, denial(strconv.Itoa(i)))
	}
	g.Add(0, denial("1"))
	assert.Len(t, g.Entries(0, 100), 11)
	assert.Equal(t, "1", g.Entries(0, 100)[0].Object)
	assert.Equal(t, "10", g.Entries(0, 100)[1].Object)
	g.Add(0, denial("0"))
	assert.Len(t, g.Entries(0, 100), 12)
}

func TestLogIsBounded(t *testing.T) {
	var g acl.Log
	long := strings.Repeat("x", acl.LogText+1)
	for i := range 3 * acl.LogEntries {
		d := denial(strconv.Itoa(i) + long)
		d.Username, d.Client = long, long
		g.Add(int64(i), d)
	}
	entries := g.Entries(0, math.MaxInt)
	assert.Len(t, entries, acl.LogEntries)
	assert.Equal(t, "383xxx", entries[0].Object[:6])
	for _, e := range entries {
		assert.Equal(t, []int{acl.LogText, acl.LogText, acl.LogText}, []int{len(e.Object), len(e.Username), len(e.Client)})
	}
	d := denial("383" + long + "y") // differs only in the part that is cut off
	d.Username, d.Client = long, long
	g.Add(0, d)
	assert.Equal(t, uint64(2), g.Entries(0, 1)[0].Count)
}

func TestTheLogMayBeUsedByManyAtOnce(t *testing.T) {
	var g acl.Log
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 500 {
				g.Add(0, denial("a"))
				g.Entries(0, i)
			}
		})
	}
	all.Wait()
	assert.Equal(t, []acl.Entry{{Denial: denial("a"), Count: 2000}}, g.Entries(0, 10))
}
