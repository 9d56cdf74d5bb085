package resp

import (
	"errors"
	"sort"
	"strings"

	"cellserver/internal/glob"
	"cellserver/resp/frame"
)

// configGet is CONFIG GET pattern [pattern ...].
func configGet(s *session, words [][]byte) {
	var pairs [][2]string
	s.srv.options.Each(func(name, value string) {
		for _, pattern := range words[2:] {
			if glob.MatchBounded([]byte(strings.ToLower(string(pattern))), []byte(name)) {
				pairs = append(pairs, [2]string{name, value})
				return
			}
		}
	})
	sort.Slice(pairs, func(i, j int) bool { return pairs[i][0] < pairs[j][0] })
	s.out.Map(len(pairs))
	for _, p := range pairs {
		s.out.BulkString(p[0])
		s.out.BulkString(p[1])
	}
}

// configSet is CONFIG SET name value [name value ...]: it sets all options or none.
func configSet(s *session, words [][]byte) {
	if len(words)%2 != 0 {
		s.out.Error(errSyntax)
		return
	}
	var pairs [][2]string
	for i := 2; i < len(words); i += 2 {
		pairs = append(pairs, [2]string{string(words[i]), string(words[i+1])})
	}
	err := s.srv.options.Set(pairs)
	var bad *OptionError
	switch {
	case err == nil:
		s.bounds = s.srv.bounds.Load() // they apply to the rest of the batch
		s.out.OK()
	case errors.As(err, &bad) && bad.Unknown:
		s.out.Errorf(errConfigUnknown, bad.Name)
	case errors.As(err, &bad):
		s.out.Errorf(errConfigFailed, bad.Name, bad.Reason)
	default:
		s.out.Error("ERR " + err.Error())
	}
}

// configRewrite is CONFIG REWRITE.
func configRewrite(s *session, _ [][]byte) {
	err := s.srv.options.Rewrite()
	switch {
	case errors.Is(err, ErrNoConfigFile):
		s.out.Error(errNoConfigFile)
	case err != nil:
		s.srv.log.Error("CONFIG REWRITE failed", "client", s.client.addr, "error", err)
		s.out.Errorf(errRewrite, oneLine(err.Error()))
	default:
		s.srv.log.Info("CONFIG REWRITE", "client", s.client.addr)
		s.out.OK()
	}
}

func configResetStat(s *session, _ [][]byte) {
	keys := s.store.Stats()
	s.srv.stats.Reset(keys.Expired, keys.Evicted)
	s.srv.transport.Counts.Reset()
	s.srv.rates.Reset()
	s.srv.commands.each(func(c *entry) { c.Reset() })
	s.out.OK()
}

func timeNow(s *session, _ [][]byte) {
	s.out.Array(2)
	s.out.BulkString(sprintf("%d", s.now/second))
	s.out.BulkString(sprintf("%d", s.now%second/1000))
}

// memoryMallocStats is MEMORY MALLOC-STATS, with the reply of a Redis without jemalloc.
func memoryMallocStats(s *session, _ [][]byte) {
	s.out.BulkString("Stats not supported for the current allocator")
}

// lolwut is LOLWUT [VERSION version].
func lolwut(s *session, words [][]byte) {
	if len(words) > 2 && frame.Is(words[1], "VERSION") {
		if _, ok := frame.ParseInt(words[2]); !ok {
			s.out.Error(errNotInteger)
			return
		}
	}
	s.out.Text(`
     .--------------------------.
     |  o  o  o  o  o  .  .  .  |   may this happen now?
     '--------------------------'
                |
                '--> one every interval, and a burst for the impatient

cellserver ver. ` + s.srv.version + "\n")
}
