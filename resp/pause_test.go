package resp_test

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/buckets/memory"
)

// clientList returns the lines of CLIENT LIST.
func (p *peer) clientList() (lines []string) {
	p.t.Helper()
	p.send("CLIENT LIST\r\n")
	var size int
	_, err := fmt.Fscanf(p.r, "$%d\r\n", &size)
	require.NoError(p.t, err)
	list := make([]byte, size+2)
	_, err = io.ReadFull(p.r, list)
	require.NoError(p.t, err)
	return strings.Split(strings.TrimSpace(string(list)), "\n")
}

// eventually waits until the given number of lines of CLIENT LIST match.
func (p *peer) eventually(n int, pattern string) {
	p.t.Helper()
	match := regexp.MustCompile(pattern)
	require.Eventually(p.t, func() bool {
		found := 0
		for _, line := range p.clientList() {
			if match.MatchString(line) {
				found++
			}
		}
		return found == n
	}, patience, time.Millisecond, "%d clients with %s", n, pattern)
}

// leave is a way in which a waiting client ends.
type leave struct {
	name string
	do   func(p, operator *peer)
}

var leaves = []leave{
	{"it hangs up", func(p, _ *peer) { p.Close() }},
	{"it is killed", func(p, operator *peer) {
		operator.ask("CLIENT KILL ID "+p.id(operator)+" SKIPME yes", ":1\r\n")
		p.wantEnd()
	}},
	{"it says that nothing follows", func(p, _ *peer) {
		half, ok := p.Conn.(interface{ CloseWrite() error })
		if !ok {
			p.Close()
			return
		}
		require.NoError(p.t, half.CloseWrite())
		p.wantEnd()
	}},
	{"it is reset", func(p, _ *peer) {
		if tcp, ok := p.Conn.(*net.TCPConn); ok {
			require.NoError(p.t, tcp.SetLinger(0))
		}
		p.Close()
	}},
	{"it goes on sending, and hangs up", func(p, _ *peer) {
		p.send(strings.Repeat("CL.WINDOW k 10 60\r\n", 5000))
		p.Close()
	}},
	{"it sends more than may wait", func(p, _ *peer) {
		_, _ = io.WriteString(p, strings.Repeat("CL.WINDOW k 10 60\r\n", 200_000)) // the connection ends during the write
		p.wantEnd()
	}},
}

// id returns the id of the client named waiting.
func (p *peer) id(operator *peer) string {
	for _, line := range operator.clientList() {
		if strings.Contains(line, " name=waiting ") {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
			return id
		}
	}
	require.Fail(p.t, "nobody waits")
	return ""
}

// A client that leaves or is killed while it waits for the end of a pause is removed at once: its place is free, and its
// commands do not run when the pause ends.
func TestClientThatLeavesDuringAPauseIsForgotten(t *testing.T) {
	for _, network := range networks {
		for _, leave := range leaves {
			for _, mode := range []string{"ALL", "WRITE"} {
				t.Run(network.name+"/"+leave.name+"/"+mode, func(t *testing.T) {
					store := &counting{Store: memory.NewStore(1)}
					s := newSubject(t, store, "maxclients 2", "client-query-buffer-limit 1mb")
					dial := network.serve(s, t)
					operator := connect(t, dial)
					for range 2 { // the second time shows that the place is free again
						operator.ask("CLIENT PAUSE 3600000 "+mode, "+OK\r\n")
						p := connect(t, dial)
						p.ask("CLIENT SETNAME waiting", "+OK\r\n")
						p.send("MULTI\r\nCL.WINDOW k 10 60\r\nEXEC\r\nCL.WINDOW k 10 60\r\n")
						operator.eventually(1, " name=waiting .* flags=x?b")
						leave.do(p, operator)
						operator.eventually(0, " name=waiting ")
						operator.ask("CLIENT UNPAUSE", "+OK\r\n")
						operator.ask("EXISTS k", ":0\r\n")
					}
					assert.Zero(t, store.taken.Load(), "what was dropped is not run")
				})
			}
		}
	}
}

// An operator can authenticate during a pause, in order to end it.
func TestOperatorCanAuthenticateDuringAPause(t *testing.T) {
	s := newSubject(t, nil)
	s.SetPassword("sesame")
	dial := s.onSocket(t)
	first := connect(t, dial)
	first.ask("AUTH sesame", "+OK\r\n")
	first.ask("CLIENT PAUSE 3600000", "+OK\r\n")
	first.send("PING\r\n")
	for _, hello := range []string{"AUTH sesame", "HELLO 2 AUTH default sesame"} {
		p := connect(t, dial)
		p.send(hello + "\r\nCLIENT SETNAME operator\r\nQUIT\r\n")
		assert.Contains(t, p.wantEnd(), "+OK\r\n+OK\r\n")
		p.Close()
	}
	operator := connect(t, dial)
	operator.ask("AUTH sesame", "+OK\r\n")
	operator.ask("CLIENT UNPAUSE", "+OK\r\n")
	first.expect("+PONG\r\n")
}

// timeout ends neither a client that waits for the end of a pause nor a monitor: neither of them is idle.
func TestTimeoutSparesPausedClientsAndMonitors(t *testing.T) {
	bubble(t, "as in Redis", func(t *testing.T) {
		l := newSubject(t, nil, "timeout 10").inMemory(t)
		monitor, waiting, reset, silent := connect(t, l.Dial), connect(t, l.Dial), connect(t, l.Dial), connect(t, l.Dial)
		monitor.ask("MONITOR", "+OK\r\n")
		reset.ask("MONITOR", "+OK\r\n")
		reset.ask("RESET", "+RESET\r\n")
		waiting.ask("CLIENT PAUSE 30000", "+OK\r\n")
		waiting.send("ECHO awake\r\n")
		began := time.Now()
		reset.expectEOF()
		silent.expectEOF()
		assert.Equal(t, 10*time.Second, time.Since(began), "others are ended, and who listens no more")
		waiting.expect("$5\r\nawake\r\n")
		assert.Equal(t, 30*time.Second, time.Since(began))
		line, err := monitor.r.ReadString('\n')
		require.NoError(t, err)
		assert.Contains(t, line, `"RESET"`)
		line, err = monitor.r.ReadString('\n')
		require.NoError(t, err)
		assert.Contains(t, line, `"ECHO" "awake"`)
		waiting.expectEOF()
		assert.Equal(t, 40*time.Second, time.Since(began), "from when its command was run")
		time.Sleep(5 * time.Second)
		monitor.ask("RESET", "+RESET\r\n")
		began = time.Now()
		monitor.expectEOF()
		assert.Equal(t, 10*time.Second, time.Since(began))
	})
}

// On a loop a timer ends idle connections. It must not end a monitor.
func TestTimeoutSparesAMonitorOnALoop(t *testing.T) {
	for _, network := range []int{0, 2} {
		t.Run(networks[network].name, func(t *testing.T) {
			dial := networks[network].serve(newSubject(t, nil, "timeout 1"), t)
			monitor, silent := connect(t, dial), connect(t, dial)
			monitor.ask("MONITOR", "+OK\r\n")
			silent.ask("PING", "+PONG\r\n")
			silent.expectEOF()
			silent = connect(t, dial)
			silent.expectEOF() // by then the timeout of the monitor has passed too
			connect(t, dial).ask("ECHO heard", "$5\r\nheard\r\n")
			var heard string
			for !strings.Contains(heard, "heard") {
				line, err := monitor.r.ReadString('\n')
				require.NoError(t, err)
				heard += line
			}
		})
	}
}
