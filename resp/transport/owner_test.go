package transport

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestOwnership walks over all states and transitions: what the drawing in owner.go does not show must not happen.
func TestOwnership(t *testing.T) {
	states := []owner{own, handshaking, lent, reclaimed, ending}
	for _, transition := range []struct {
		name string
		do   func(o *ownership)
		to   map[owner]owner
	}{
		{"shaken", (*ownership).shaken, map[owner]owner{handshaking: own}},
		{"lend", func(o *ownership) { o.lend() }, map[owner]owner{own: lent}},
		{"reclaim", func(o *ownership) { o.reclaim() }, map[owner]owner{lent: reclaimed}},
		{"finish", func(o *ownership) { o.finish() }, map[owner]owner{own: ending, handshaking: ending}},
		{"giveBack", func(o *ownership) { o.giveBack() }, map[owner]owner{lent: own, reclaimed: own}},
	} {
		for _, from := range states {
			var o ownership
			o.now.Store(int32(from))
			transition.do(&o)
			want, drawn := transition.to[from]
			if !drawn {
				want = from
			}
			assert.Equal(t, want, owner(o.now.Load()), "%s from %d", transition.name, from)
		}
	}
}
