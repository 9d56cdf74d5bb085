package resp_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"cellserver/resp"
)

// A connection caches the last parsed limit. It gives the same replies as new connections, one for each command.
func TestCachedLimitsAnswerAsFreshlyParsedOnes(t *testing.T) {
	requests := []string{
		"CL.THROTTLE k 15 30 60 0", "CL.THROTTLE k 15 30 60 0 MS", "CL.THROTTLE k 15 30 60 0 ms", "CL.THROTTLE k 15 306 0 0",
		"CL.THROTTLE k 153 0 60 0", "CL.THROTTLE k 1 530 60 0", "CL.THROTTLE k 15 30 6 00", "CL.THROTTLE k 15 30 60 0 PEEK",
		"CL.THROTTLE k 15 30 60 1 PEEK", "CL.THROTTLE k 15 30 60 17 PEEK", "CL.THROTTLE k 15 30 60 17 PEEK MS",
		"CL.THROTTLE k 15 30 60 x", "CL.THROTTLE k 15 30 60 0 x", "CL.THROTTLE k -1 30 60 0", "CL.THROTTLE k 15 0 60 0",
		"CL.THROTTLE k 15 30 60.5 0", "CL.THROTTLE k 9223372036854775806 1 4611686018", "CL.THROTTLE k",
		"CL.WINDOW k 15 30 0", "CL.WINDOW k 15 30 0 ALIGN 5", "CL.WINDOW k 15 30 0 ALIGN 6", "CL.WINDOW k 15 30 0 ALIGN",
		"CL.WINDOW k 15 30 60", "CL.WINDOW k 1 530 0", "CL.WINDOW k 15 30 0 MS PEEK ALIGN 0.000000001 PEEK",
		"CL.WINDOW k 15 30 0 ALIGN 0.000000000000000000000000000000000000000000000000000000000000000000000000001",
		"CL.ZSLIDE k 15 30 0", "CL.ZSLIDE k 15 30 16 PEEK", "CL.ZSLIDE k 15 30 60",
		"CL.ZSLIDE k 0000000000000000000000000000000000000000000000000000000000000000000000000015 30 0",
		"CL.ALL WINDOW k 15 30 0 THROTTLE l 15 30 60 0",
	}
	now := int64(1_700_000_123_456_789_012)
	old := resp.NewTestConn(newQuiet(8, &now), now)
	for range 5000 {
		request := []byte(requests[rand.IntN(len(requests))] + "\r\n")
		want := resp.NewTestConn(newQuiet(8, &now), now).Feed(now, request)
		assert.Equal(t, string(want), string(old.Feed(now, request)), "%s", request)
	}
}
