package test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/testenv"
)

// The Go examples have their own tests; this one runs them with the commands of their READMEs.
func TestGoExamplesRunAsTheirReadmesSay(t *testing.T) {
	dir := t.TempDir()
	said, err := exec.Command("go", "build", "-o", dir+"/", "../examples/...").CombinedOutput()
	require.NoError(t, err, "%s", said)
	s := start(t)
	t.Run("sms", func(t *testing.T) {
		assert.Regexp(t, `^message 1: sent to \+15550100, 2 left of 3 a minute, 9 left of 10 a day
message 2: sent to \+15550100, 1 left of 3 a minute, 8 left of 10 a day
message 3: sent to \+15550100, 0 left of 3 a minute, 7 left of 10 a day
message 4: not sent, 3 a minute are sent already: wait [0-9ms]+; 0 left of 3 a minute, 7 left of 10 a day
message 5: not sent, 3 a minute are sent already: wait [0-9ms]+; 0 left of 3 a minute, 7 left of 10 a day
$`, converse(t, "", filepath.Join(dir, "sms"), "-cellserver", s.addr, "-n", "5", "+15550100"))
	})
	t.Run("transfers", func(t *testing.T) {
		said := converse(t, "", filepath.Join(dir, "transfers"), "-cellserver", s.addr,
			"alice", "800", "700", "600", "500x", "1")
		assert.Regexp(t, `^\$800.00 moved; \$1200.00 left
\$700.00 moved; \$500.00 left
\$600.00 refused: \$500.00 is possible now, this in [0-9hms]+; \$500.00 left
\$500.00 given back: the bank failed; \$500.00 left
\$1.00 moved; \$499.00 left
$`, said)
	})
	t.Run("sharding", func(t *testing.T) {
		servers := "a=" + s.addr + ",b=" + start(t).addr + ",c=" + start(t).addr
		assert.Equal(t, "alice: allowed, 4 left\nbob: allowed, 4 left\ncarol: allowed, 4 left\nalice: allowed, 3 left\n",
			converse(t, "", filepath.Join(dir, "sharding"), "-cellservers", servers, "alice", "bob", "carol", "alice"))
	})
	t.Run("middleware", func(t *testing.T) {
		site := serve(t, exec.Command(filepath.Join(dir, "middleware"),
			"-cellserver", s.addr, "-listen", "127.0.0.1:0", "-patience", "1m"))
		status, headers, body := site.do(t, http.MethodGet, "/", "")
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, "hello\n", body)
		assert.Equal(t, "4", headers.Get("X-RateLimit-Remaining"))
		site.stop(t, os.Interrupt)
	})
}

func TestPythonExampleRunsAsItsReadmeSays(t *testing.T) {
	python := testenv.Tool(t, "/usr/bin/python3")
	if exec.Command(python, "-c", "import redis").Run() != nil {
		missing(t, "redis-py for "+python)
	}
	s := start(t)
	assert.Regexp(t, `^(alice may try a password\n){5}(too many calls: try again in [0-9]+ s\n){2}$`,
		converse(t, "", python, "../examples/python/limit.py", "127.0.0.1", s.port))
	// -B writes no bytecode into the tree.
	assert.Contains(t, converse(t, "", python, "-B", "../examples/python/limit_test.py", "127.0.0.1", s.port), "\nOK\n")
}

// website is a running program that serves HTTP.
type website struct {
	url   string
	said  lines
	cmd   *exec.Cmd
	ended chan struct{}
}

// serve starts a program, waits until it prints its address, and kills it when the test ends.
func serve(t *testing.T, cmd *exec.Cmd) *website {
	t.Helper()
	w := &website{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &w.said, &w.said
	require.NoError(t, cmd.Start())
	go func() {
		defer close(w.ended)
		cmd.Wait()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-w.ended
		if t.Failed() {
			t.Logf("%s said:\n%s", cmd, &w.said)
		}
	})
	address := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)
	require.Eventually(t, func() bool {
		w.url = address.FindString(w.said.String())
		return w.url != ""
	}, patience, time.Millisecond)
	return w
}

// do sends a request on a new connection, with a JSON body or none.
func (w *website) do(t *testing.T, method, path, body string) (status int, headers http.Header, said string) {
	r, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(body))
	if !assert.NoError(t, err) {
		return 0, nil, ""
	}
	r.Close = true
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if !assert.NoError(t, err) {
		return 0, nil, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	assert.NoError(t, err)
	return answer.StatusCode, answer.Header, string(text)
}

// stop sends a signal. The test fails unless the program ends with status 0.
func (w *website) stop(t *testing.T, s os.Signal) {
	t.Helper()
	require.NoError(t, w.cmd.Process.Signal(s))
	select {
	case <-w.ended:
	case <-time.After(patience):
		require.FailNow(t, "it does not end")
	}
	assert.Zero(t, w.cmd.ProcessState.ExitCode())
}

func TestExpressExampleRunsAsItsReadmeSays(t *testing.T) {
	node := os.Getenv("CELLSERVER_TEST_NODE")
	if node == "" {
		missing(t, "the path of node in CELLSERVER_TEST_NODE")
	}
	if _, err := os.Stat("../examples/express/node_modules"); err != nil {
		missing(t, "the packages in examples/express/node_modules")
	}
	app := func(t *testing.T, addr string, env ...string) *website {
		cmd := exec.Command(node, "../examples/express/app.js")
		cmd.Env = append([]string{"PORT=0", "REDIS_URL=redis://" + addr}, env...)
		return serve(t, cmd)
	}
	const alice, bob, carol = `{"userId": "alice"}`, `{"userId": "bob"}`, `{"userId": "carol"}`
	const done = `{"done":true}`

	t.Run("with cellserver and then without", func(t *testing.T) {
		s := start(t)
		web := app(t, s.addr, "PERIOD=86400", "PATIENCE=60000")
		// The application listens before it is connected to cellserver, and admits every request until then.
		require.Eventually(t, func() bool {
			_, headers, _ := web.do(t, http.MethodPost, "/operations", bob)
			return headers.Get("X-RateLimit-Limit") != ""
		}, patience, time.Millisecond)

		for n := range 5 {
			status, headers, body := web.do(t, http.MethodPost, "/operations", alice)
			assert.Equal(t, http.StatusOK, status)
			assert.Equal(t, done, body)
			assert.Equal(t, "5", headers.Get("X-RateLimit-Limit"))
			assert.Equal(t, string("43210"[n]), headers.Get("X-RateLimit-Remaining"))
			assert.Regexp(t, "^[0-9]+$", headers.Get("X-RateLimit-Reset"))
			assert.Empty(t, headers.Get("Retry-After"))
		}
		status, headers, body := web.do(t, http.MethodPost, "/operations", alice)
		assert.Equal(t, http.StatusTooManyRequests, status)
		assert.Equal(t, `{"error":"too many requests"}`, body)
		assert.Equal(t, "5", headers.Get("X-RateLimit-Limit"))
		assert.Equal(t, "0", headers.Get("X-RateLimit-Remaining"))
		assert.Regexp(t, "^8[0-9]{3}$", headers.Get("Retry-After"), "a tenth of a day, or a little less")
		assert.Regexp(t, "^43[0-9]{3}$", headers.Get("X-RateLimit-Reset"), "half a day, or a little less")

		var admitted, refused atomic.Int64
		var wait sync.WaitGroup
		for range everybody {
			wait.Go(func() {
				switch status, _, _ := web.do(t, http.MethodPost, "/operations", carol); status {
				case http.StatusOK:
					admitted.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				}
			})
		}
		wait.Wait()
		assert.EqualValues(t, 5, admitted.Load(), "admitted of many at once")
		assert.EqualValues(t, everybody-5, refused.Load())

		s.signal(syscall.SIGKILL)
		s.exit()
		status, headers, body = web.do(t, http.MethodPost, "/operations", alice)
		assert.Equal(t, http.StatusOK, status, "it fails open")
		assert.Equal(t, done, body)
		assert.Empty(t, headers.Get("X-RateLimit-Limit"))
		web.stop(t, syscall.SIGTERM)
	})
	t.Run("that fails closed", func(t *testing.T) {
		s := start(t)
		s.signal(syscall.SIGKILL)
		s.exit()
		web := app(t, s.addr, "FAIL_CLOSED=1")
		status, headers, body := web.do(t, http.MethodPost, "/operations", alice)
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Equal(t, `{"error":"limits cannot be checked"}`, body)
		assert.Equal(t, "1", headers.Get("Retry-After"))
		web.stop(t, os.Interrupt)
	})
}
