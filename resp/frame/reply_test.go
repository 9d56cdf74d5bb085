package frame_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"

	"cellserver/resp/frame"
)

func TestAmountsAreLikeRedcon(t *testing.T) {
	check := func(n int64) {
		require.Equal(t, string(redcon.AppendInt([]byte("before"), n)), string(frame.AppendAmount([]byte("before"), n)))
	}
	for power := int64(1); ; power *= 10 {
		for n := max(0, power-3); n < power+3; n++ {
			check(n)
		}
		if power == 1e18 {
			break
		}
	}
	check(math.MaxInt64)
	for range 10_000 {
		check(rand.Int64() >> rand.IntN(63))
	}
}
