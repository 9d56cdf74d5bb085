package testserver

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Client(t, Start(t))
		for _, want := range [][]int64{{0, 1, 0, -1, 3600}, {1, 1, 0, 3600, 3600}} {
			got, err := c.Do(t.Context(), "CL.WINDOW", "k", 1, 3600).Int64Slice()
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		time.Sleep(time.Hour)
		assert.Zero(t, c.Exists(t.Context(), "k").Val())
	})
}

func TestLoopback(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: Listen(t)})
	defer c.Close()
	assert.Equal(t, "PONG", c.Ping(t.Context()).Val())
}
