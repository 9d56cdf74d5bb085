package resp_test

import (
	"cellserver/internal/testing/testenv"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shownAlike are conversations that MONITOR shows as Redis does. The first connection is a monitor, the second is not.
var shownAlike = []string{
	"PING", "ECHO x", "NOSUCH a", "EXPIRE k", "PING a b c", "EXEC", "DISCARD", "MULTI\r\nEXEC", "MULTI\r\nPING\r\nECHO y\r\nEXEC",
	"MULTI\r\nNOSUCH\r\nEXEC", "MULTI\r\nPING\r\nDISCARD", "MULTI\r\nMULTI\r\nWATCH k\r\nEXEC", "WATCH k\r\nMULTI\r\nPING\r\nEXEC",
	"AUTH x", "AUTH default x", "HELLO 2", "HELLO 2 AUTH default x", "SELECT 0", "CLIENT ID", "CLIENT SETNAME x",
	"CLIENT LIST", "CLIENT NOSUCH", "CONFIG GET port", "CONFIG SET requirepass \"\"", "ACL WHOAMI", "ACL SETUSER x", "ACL DRYRUN default PING",
	"COMMAND COUNT", "COMMAND GETKEYS EXPIRE k 1", "CLIENT REPLY SKIP\r\nPING", "MULTI\r\nSELECT 0\r\nCLIENT ID\r\nEXEC",
}

var stamp = regexp.MustCompile(`\+\d+\.\d{6} \[0 [^\]]*\]`)

// monitorStream returns what a monitor receives while it runs the conversations itself, and while another connection does. It
// leaves out replies that do not show the order.
func monitorStream(t *testing.T, dial func() (net.Conn, error)) string {
	m, p := connect(t, dial), connect(t, dial)
	m.ask("MONITOR", "+OK\r\n")
	var stream strings.Builder
	until := func(end string) {
		for {
			line, err := m.r.ReadString('\n')
			require.NoError(t, err)
			line = stamp.ReplaceAllString(line, "+SHOWN")
			if strings.Contains(line, end) {
				return
			}
			if strings.HasPrefix(line, "+SHOWN") {
				stream.WriteString(line)
			}
		}
	}
	for _, lines := range shownAlike {
		stream.WriteString(lines + ":\r\n")
		p.send(lines + "\r\nECHO end-of-it\r\n")
		until(`"ECHO" "end-of-it"`)
		m.send(lines + "\r\nECHO end-of-mine\r\n")
		until(`"ECHO" "end-of-mine"`)
	}
	// A monitor sees its own commands after their replies.
	m.send("PING one\r\nECHO two\r\nSELECT 0\r\n")
	for range 8 {
		line, err := m.r.ReadString('\n')
		require.NoError(t, err)
		stream.WriteString(stamp.ReplaceAllString(line, "+SHOWN"))
	}
	return stream.String()
}

// MONITOR shows the same as in Redis in the same order: a command after it has run, and EXEC after its commands.
func TestMonitorShowsCommandsAsRedis(t *testing.T) {
	socket := testenv.Redis(t)
	want := monitorStream(t, func() (net.Conn, error) { return net.Dial("unix", socket) })
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			assert.Equal(t, want, monitorStream(t, network.serve(newSubject(t, nil), t)))
		})
	}
}

// A monitor that runs a transaction gets the whole reply first, and then the lines of MONITOR about it.
func TestMonitorGetsTheReplyOfItsOwnExecFirst(t *testing.T) {
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			m := connect(t, network.serve(newSubject(t, nil), t))
			m.ask("MONITOR", "+OK\r\n")
			m.send("MULTI\r\nPING\r\nMEMORY PURGE\r\nECHO x\r\nEXEC\r\n")
			var stream strings.Builder
			for !strings.Contains(stream.String(), `"EXEC"`) {
				line, err := m.r.ReadString('\n')
				require.NoError(t, err)
				stream.WriteString(stamp.ReplaceAllString(line, "+SHOWN"))
			}
			assert.Equal(t, "+OK\r\n+SHOWN \"MULTI\"\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+PONG\r\n+OK\r\n$1\r\nx\r\n"+
				"+SHOWN \"PING\"\r\n+SHOWN \"ECHO\" \"x\"\r\n+SHOWN \"MEMORY\" \"PURGE\"\r\n+SHOWN \"EXEC\"\r\n", stream.String())
		})
	}
}

// As in Redis, a killed client is no longer visible, not even to commands in the same batch as CLIENT KILL.
func TestKilledClientIsGoneAtOnce(t *testing.T) {
	const conversation = "CLIENT SETNAME me\r\nCLIENT KILL TYPE normal\r\nCLIENT KILL TYPE normal\r\nCLIENT LIST\r\nINFO clients\r\n" +
		"MULTI\r\nCLIENT KILL TYPE normal\r\nCLIENT LIST\r\nEXEC\r\nQUIT\r\n"
	talk := func(t *testing.T, dial func() (net.Conn, error)) string {
		var others []*peer
		for range 5 {
			p := connect(t, dial)
			p.ask("PING", "+PONG\r\n")
			others = append(others, p)
		}
		others[0].ask("MONITOR", "+OK\r\n")
		p := connect(t, dial)
		p.send(conversation)
		reply := p.wantEnd()
		for _, o := range others {
			o.wantEnd()
		}
		var seen []string
		for _, field := range regexp.MustCompile(`(?m)^[:+-].*| name=\S*|connected_clients:\d+`).FindAllString(reply, -1) {
			seen = append(seen, strings.TrimSpace(field))
		}
		return strings.Join(seen, "\n")
	}
	socket := testenv.Redis(t)
	want := talk(t, func() (net.Conn, error) { return net.Dial("unix", socket) })
	require.Contains(t, want, "connected_clients:1")
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			assert.Equal(t, want, talk(t, network.serve(newSubject(t, nil), t)))
		})
	}
}

// A client that has read the end of its connection does not find it in CLIENT LIST or in the counters, as in Redis, which
// removes and closes a connection in one step.
func TestClosedClientIsNotListed(t *testing.T) {
	for _, network := range networks {
		t.Run(network.name, func(t *testing.T) {
			dial := network.serve(newSubject(t, nil), t)
			operator := connect(t, dial)
			for range 50 {
				p := connect(t, dial)
				p.ask("MONITOR", "+OK\r\n")
				p.send("QUIT\r\n")
				p.wantEnd()
				operator.ask("CLIENT KILL USER default", ":0\r\n")
				operator.send("INFO clients\r\nQUIT\r\n")
				assert.Contains(t, operator.wantEnd(), "connected_clients:1\r\n")
				operator = connect(t, dial)
				if _, ok := p.Conn.(interface{ CloseWrite() error }); !ok {
					continue
				}
				q := connect(t, dial)
				q.ask("PING", "+PONG\r\n")
				require.NoError(t, q.Conn.(interface{ CloseWrite() error }).CloseWrite())
				q.wantEnd()
				operator.ask("CLIENT KILL USER default", ":0\r\n")
			}
		})
	}
}
