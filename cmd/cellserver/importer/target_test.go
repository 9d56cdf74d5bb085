package importer

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
)

// answering returns a server that replies to each command by its name, with an error if answers has none.
func answering(t *testing.T, answers map[string]string) *server {
	t.Helper()
	var all sync.WaitGroup
	c := connect(&redis.Options{MaxRetries: -1, DisableIdentity: true, Dialer: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		all.Go(func() {
			defer ours.Close()
			in := bufio.NewReader(ours)
			for words, err := readCommand(in); err == nil; words, err = readCommand(in) {
				answer, ok := answers[strings.ToUpper(words[0])]
				if !ok {
					answer = "-ERR unknown command\r\n"
				}
				all.Go(func() { io.WriteString(ours, answer) })
			}
		})
		return theirs, nil
	}})
	t.Cleanup(func() {
		c.Close()
		all.Wait()
	})
	return &server{c}
}

func readCommand(in *bufio.Reader) (words []string, err error) {
	number := func() int {
		var line string
		if line, err = in.ReadString('\n'); err != nil {
			return 0
		}
		n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		return n
	}
	for range number() {
		word := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(in, word)
		}
		words = append(words, string(word[:len(word)-2]))
	}
	return words, err
}

func TestAnswersOfTheTargetAreCounted(t *testing.T) {
	const taken, refused = "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n", "*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n"
	tomorrow := in(24 * time.Hour)
	for _, c := range []struct {
		name             string
		exists, throttle string
		tat              int64
		taken            int
		why              reason
		err              string
	}{
		{"taken", ":0\r\n", taken, tomorrow, 1, fits, ""},
		{"there", ":1\r\n", "", tomorrow, 0, exists, ""},
		{"there in the meantime", ":0\r\n", refused, tomorrow, 0, exists, ""},
		{"there in the meantime, another kind", ":0\r\n", "-WRONGTYPE x\r\n", tomorrow, 0, exists, ""},
		{"full in the meantime", ":0\r\n", "", in(-1), 0, full, ""},
		{"too long for one", "-ERR key is longer than max-key-bytes (1)\r\n", "", tomorrow, 0, long, ""},
		{"too long for the other", ":0\r\n", "-ERR key is longer than max-key-bytes (1)\r\n", tomorrow, 0, long, ""},
		{"out of memory", ":0\r\n", "-OOM command not allowed\r\n", tomorrow, 0, fits, "OOM command not allowed"},
		{"no permission", "-NOPERM no\r\n", "", tomorrow, 0, fits, "NOPERM no"},
		{"nonsense", ":0\r\n", "*1\r\n:0\r\n", tomorrow, 0, fits, "CL.THROTTLE is not answered as by a cellserver"},
		{"more nonsense", "+OK\r\n", "", tomorrow, 0, fits, "OK"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := answering(t, map[string]string{"EXISTS": c.exists, "CL.THROTTLE": c.throttle})
			var n counts
			err := s.put(t.Context(), []bucket{{"a", c.tat}}, &n)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			want := counts{Taken: c.taken}
			if c.why != fits {
				want.skip(c.why, 1)
			}
			assert.Equal(t, want, n)
		})
	}
	t.Run("gone", func(t *testing.T) {
		s := answering(t, nil)
		require.NoError(t, s.put(t.Context(), nil, &counts{}))
		require.NoError(t, s.close())
		require.ErrorIs(t, s.put(t.Context(), []bucket{{"a", tomorrow}}, &counts{}), redis.ErrClosed)
	})
}

func TestNanosecondsAreWrittenAsSeconds(t *testing.T) {
	assert.Equal(t, "0.000000001", seconds(1))
	assert.Equal(t, "1.234567890", seconds(1_234_567_890))
	assert.Equal(t, "4611686018.000000000", seconds(buckets.MaxPeriod))
}

func TestOnlyBucketsOfRedisCellAreTaken(t *testing.T) {
	const (
		ms, day = int64(1e6), int64(24 * time.Hour)
		now     = int64(1_800_000_000) * 1e9
		hour    = int64(time.Hour)
		most    = now + buckets.MaxPeriod
	)
	for _, c := range []struct {
		value string
		ttl   int64
		why   reason
	}{
		{strconv.FormatInt(now+hour, 10), hour / ms, fits},
		{strconv.FormatInt(now+hour+1, 10), hour / ms, fits},
		{strconv.FormatInt(now+hour, 10), hour/ms - 60_000, fits},
		{strconv.FormatInt(now+hour, 10), hour/ms + 60_000, fits},
		{strconv.FormatInt(now+hour, 10), hour/ms - 60_001, otherTTL},
		{strconv.FormatInt(now+hour, 10), hour/ms + 60_001, otherTTL},
		{strconv.FormatInt(now+1, 10), 0, fits},
		{strconv.FormatInt(now, 10), 0, full},
		{strconv.FormatInt(now-60e9, 10), 0, full},
		{strconv.FormatInt(now-day, 10), 0, otherTTL},
		{strconv.FormatInt(now-day-1, 10), 0, noTime},
		{strconv.FormatInt(most, 10), (most - now) / ms, fits},
		{strconv.FormatInt(most+1, 10), (most - now) / ms, noTime},
		{strconv.FormatInt(now+hour, 10), -1, noTTL},
		{strconv.FormatInt(now+hour, 10), -2, gone},
		{strconv.FormatInt(now+hour, 10), 1<<63 - 1, otherTTL},
		{strconv.FormatInt(now+hour, 10), -1 << 63, otherTTL},
		{"hello", -1, noTime},
		{"", -2, gone},
		{"-0", 1, noTime},
	} {
		tat, why := judge(c.value, c.ttl, now/ms, now)
		assert.Equal(t, c.why, why, "%+v", c)
		if why == fits {
			assert.Equal(t, c.value, strconv.FormatInt(tat, 10))
		}
	}
}
