package programs

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// server is a cellserver or a Redis of one test, on a port of its own.
type server struct {
	name, port string
	log        *lines // of cellserver
}

// host and port, as most programs want them.
func (s server) address() string { return "127.0.0.1:" + s.port }

// client is a connection to one database.
func (s server) client(t *testing.T, database int) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.address(), DB: database})
	t.Cleanup(func() { c.Close() })
	return c
}

// pair starts what is compared. The one that is right stands behind.
func pair(t *testing.T) [2]server {
	t.Helper()
	redis := server{name: "Redis", port: testenv.RedisOnTCP(t)}
	return [2]server{startCellserver(t), redis}
}

// lines gathers what is written to it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startCellserver starts the built program and waits until it is ready. It is killed when the test ends.
func startCellserver(t *testing.T) server {
	t.Helper()
	for range 20 { // another process may take the port first
		port := testenv.FreePort(t)
		cmd := exec.Command(binary, "--port", port)
		cmd.Env = []string{}
		log := new(lines)
		cmd.Stderr = log
		require.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait() // it is killed
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-ended
			if t.Failed() {
				t.Logf("the log of cellserver:\n%s", log)
			}
		})
		ready := func() bool {
			select {
			case <-ended:
				return true
			default:
				return strings.Contains(log.String(), ` is ready" address=127.0.0.1:`+port)
			}
		}
		require.Eventually(t, ready, patience, 5*time.Millisecond)
		select {
		case <-ended:
			require.Contains(t, log.String(), "is in use")
		default:
			return server{name: "cellserver", port: port, log: log}
		}
	}
	require.FailNow(t, "no port is free")
	return server{}
}

// appDatabase is the database that Laravel, Rails and Django use unless they are told otherwise.
const appDatabase = 1
