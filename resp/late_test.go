package resp_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets"
	"cellserver/buckets/memory"
	"cellserver/internal/testing/latestore"
	"cellserver/resp"
)

// lateServer returns a server with a store that answers late.
func lateServer(now *int64, set func(s *latestore.Store)) (*resp.Server, *latestore.Store) {
	var late *latestore.Store
	srv := newWrapped(8, func() int64 { return *now }, slog.DiscardHandler, func(s *memory.Store) buckets.Store {
		late = latestore.New(s)
		if set != nil {
			set(late)
		}
		return late
	})
	return srv, late
}

func TestPipelineOfLimitsIsOneBatch(t *testing.T) {
	now := int64(1e18)
	srv, late := lateServer(&now, nil)
	c := resp.NewTestConn(srv, now)
	var send, want strings.Builder
	for i := range 150 {
		fmt.Fprintf(&send, "CL.WINDOW key:%d 5 60 1 MS\r\n", i%50)
		fmt.Fprintf(&want, "*5\r\n:0\r\n:5\r\n:%d\r\n:-1\r\n:60000\r\n", 4-i/50)
	}
	assert.Equal(t, want.String(), string(c.Feed(now, []byte(send.String()))))
	assert.Equal(t, []int{64, 64, 22}, late.Batches())
}

func TestOtherCommandsComeBehindTheBatch(t *testing.T) {
	now := int64(1e18)
	srv, late := lateServer(&now, nil)
	c := resp.NewTestConn(srv, now)
	const taken = "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60\r\n"
	reply := c.Feed(now, []byte("CL.WINDOW a 5 60\r\nCL.WINDOW b 5 60\r\nPING\r\nCL.WINDOW c 5 60\r\nCL.WINDOW d 0 60\r\n"+
		"CL.WINDOW e 5\r\nCL.WINDOW f 5 60\r\nDEL a b\r\nNOPE\r\nCL.WINDOW g 5 60\r\n"))
	assert.Equal(t, taken+taken+"+PONG\r\n"+taken+"-ERR limit must be between 1 and 9223372036854775807\r\n"+
		"-ERR wrong number of arguments for 'cl.window' command\r\n"+taken+":2\r\n"+
		"-ERR unknown command 'NOPE', with args beginning with: \r\n"+taken, string(reply))
	assert.Equal(t, []int{2, 1, 1, 1, 1}, late.Batches())
}

func TestErrorsOfTheStoreStandWhereTheyBelong(t *testing.T) {
	now := int64(1e18)
	srv, _ := lateServer(&now, func(s *latestore.Store) {
		s.Fail = func(op *buckets.Op) error {
			if strings.HasPrefix(string(op.Key), "bad") {
				return errors.New("the other\r\nmachine does not answer")
			}
			return nil
		}
	})
	c := resp.NewTestConn(srv, now)
	const taken, failed = "*5\r\n:0\r\n:5\r\n:4\r\n:-1\r\n:60\r\n", "-ERR the other  machine does not answer\r\n"
	reply := c.Feed(now, []byte("CL.WINDOW a 5 60\r\nCL.WINDOW bad1 5 60\r\nCL.WINDOW b 5 60\r\nCL.WINDOW bad2 5 60\r\nTTL bad3\r\n"+
		"MULTI\r\nCL.WINDOW c 5 60\r\nCL.WINDOW bad4 5 60\r\nEXEC\r\n"))
	assert.Equal(t, taken+failed+taken+failed+failed+"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n"+taken+failed, string(reply))
	stats := string(c.Feed(now, []byte("INFO commandstats\r\n")))
	assert.Contains(t, stats, "cmdstat_cl.window:calls=6,")
	assert.Regexp(t, `cmdstat_cl\.window:.*failed_calls=3\r`, stats)
}

// If the store fails, every command that uses it gets an error, and no other command does.
func TestEveryCommandSurvivesAStoreThatFails(t *testing.T) {
	for _, row := range resp.Rows() {
		if row.Container || row.Name == "shutdown" || row.Name == "monitor" {
			continue
		}
		t.Run(row.Name, func(t *testing.T) {
			now := int64(1e18)
			srv, _ := lateServer(&now, func(s *latestore.Store) {
				s.Fail = func(*buckets.Op) error { return errors.New("no answer") }
			})
			least := row.Arity
			if least < 0 {
				least = -least
			}
			words := append([]string(nil), row.Words...)
			for len(words) < least {
				words = append(words, "1")
			}
			c := resp.NewTestConn(srv, now)
			require.NotEmpty(t, c.Feed(now, multibulk(words...)))
			if !c.Closed() {
				assert.NotEmpty(t, c.Feed(now, multibulk("PING")))
			}
		})
	}
}

func TestTransactionThatIsRunAgainAnswersOnce(t *testing.T) {
	const conversation = "CL.WINDOW a 5 60\r\nWATCH a\r\nMULTI\r\nCL.WINDOW a 5 60\r\nKEYS *\r\nCONFIG GET maxclients\r\nDEL a\r\nPTTL a\r\nEXEC\r\n"
	var replies []string
	for _, conflicts := range []int{0, 1, 3} {
		now := int64(1e18)
		srv, _ := lateServer(&now, func(s *latestore.Store) { s.Conflicts = conflicts })
		replies = append(replies, string(resp.NewTestConn(srv, now).Feed(now, []byte(conversation))))
	}
	assert.Equal(t, replies[0], replies[1])
	assert.Equal(t, replies[0], replies[2])
	assert.Contains(t, replies[0], "*5\r\n*5\r\n:0\r\n:5\r\n:3\r\n")
}
