package latency_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/resp/latency"
)

// A histogram says of any durations what sorting them says, to a hundredth.
func TestHistogramAgreesWithSorting(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var h latency.Histogram
		var took []int64
		for range 1 + random.IntN(500) {
			v := int64(math.Exp(random.Float64() * math.Log(1e9)))
			h.Add(v, 1)
			took = append(took, v)
		}
		slices.Sort(took)
		for _, percent := range []float64{0.1, 50, 99, 99.9, 100} {
			exact := took[max(1, int(percent/100*float64(len(took))+0.5))-1]
			got := h.Percentile(percent)
			require.LessOrEqual(t, exact, got)
			require.LessOrEqual(t, got-exact, exact/128, "percentile %v of %d", percent, len(took))
		}
		before := 0
		for _, step := range h.Steps() {
			most := int64(1031) // the longest that is shown as this step
			for most/1000 < step.Micros && most < 1<<30-1 {
				most = min(2*most+1, 1<<30-1)
			}
			require.Equal(t, step.Micros, most/1000)
			require.EqualValues(t, sort.Search(len(took), func(i int) bool { return took[i] > most }), step.Calls, "not longer than %d", most)
			require.Greater(t, int(step.Calls), before)
			before = int(step.Calls)
		}
		require.Equal(t, len(took), before, "the last step is all")
	}
	var h latency.Histogram
	for shift := range 40 {
		h.Add(1000<<shift, 1)
	}
	var micros []int64
	for _, step := range h.Steps() {
		micros = append(micros, step.Micros)
	}
	assert.Equal(t, []int64{1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16908, 33816, 67633, 135266, 270532,
		541065, 1073741}, micros, "as Redis has them")
	h = latency.Histogram{}
	h.Add(-5, 1)
	h.Add(0, 1)
	assert.EqualValues(t, 1, h.Percentile(100))
}
