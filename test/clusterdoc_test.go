package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"cellserver/internal/testing/engines"
	"cellserver/internal/testing/testenv"
)

// Whoever follows "How to move" in docs/cluster.md, command by command, gets from one cellserver with a snapshot to three on a cluster.
// Only the ports and the folder are others here.
func TestMoveAsDocumented(t *testing.T) {
	g := follow(t, "../docs/cluster.md", "How to move")

	out, servers := g.do("Before")
	require.Len(t, servers, 1)
	assert.Equal(t, "0\n5\n4\n-1\n2880\n", out)
	out, _ = g.do("1")
	assert.Contains(t, out, "[OK] All 16384 slots covered.")
	for _, port := range g.valkeys {
		g.run("until valkey-cli -p " + port + " CLUSTER INFO | grep cluster_state:ok; do sleep 0.05; done")
	}
	out, _ = g.do("2")
	assert.Equal(t, strings.Repeat("OK\n", 6), out)
	out, _ = g.do("3")
	assert.Zero(t, servers[0].exit())
	assert.Regexp(t, `(?m)^1 taken into valkey://127\.0\.0\.1:\d+$`, out)
	_, servers = g.do("4")
	require.Len(t, servers, 3)
	for _, s := range servers {
		assert.Regexp(t, ` is ready" .* topology=cluster mechanism=ifeq nodes=3 `, s.log.String())
		assert.NotContains(t, s.log.String(), "level=WARN")
		assert.NotContains(t, s.log.String(), "secret")
	}
	out, _ = g.do("5")
	assert.Regexp(t, `\A0\n5\n3\n-1\n\d+\n0\n5\n2\n-1\n\d+\n# Store\r\n`, out)
	promised := field.FindAllStringSubmatch(g.text, -1)
	require.Len(t, promised, 3)
	for _, p := range promised {
		assert.Contains(t, out, "\n"+p[1]+":"+p[2]+"\r\n")
	}
	servers[1].signal(syscall.SIGTERM)
	assert.Zero(t, servers[1].exit())
	assert.Regexp(t, `\A0\n5\n1\n`, g.run("redis-cli -p "+g.ports["6381"]+" CL.THROTTLE user123 4 30 86400"))
	assert.Empty(t, g.commands, "steps that were not followed")
}

// guide is a section of a document, and what its commands need.
type guide struct {
	t        *testing.T
	text     string
	commands map[string][]string // the lines of each step that has not been followed yet
	env      []string
	ports    map[string]string // the one here for the one in the document
	valkeys  []string          // those of the cluster
}

var (
	// step matches what begins a step in a guide: "**1. A cluster.**".
	step = regexp.MustCompile(`^\*\*(\w+)\b`)
	// field matches what a guide says of a field of INFO: "`store_nodes` is 3".
	field = regexp.MustCompile("`(store_\\w+)` is `?(\\w+)`?")
	// number matches what may be a port.
	number = regexp.MustCompile(`\b\d{4}\b`)
)

// follow reads the section of a document, and makes a folder and ports in place of those in its commands. The programs on the PATH are
// the cellserver that was built, those of Valkey and redis-cli. Valkeys that the commands leave behind end with the test, however that
// ends.
func follow(t *testing.T, page, section string) *guide {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, body, found := strings.Cut(string(text), "\n## "+section+"\n")
	require.True(t, found)
	body, _, _ = strings.Cut(body, "\n## ")

	dir := t.TempDir()
	g := &guide{t: t, text: body, commands: make(map[string][]string), ports: make(map[string]string)}
	g.env = []string{"PATH=" + programs(t) + ":" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C",
		"CELLSERVER_STORE_TIMEOUT=10000"} // other tests keep the machine busy
	for i, port := range portsOfACluster(t, 9) {
		if i < 6 {
			g.ports[strconv.Itoa(7001+i)] = port
			g.valkeys = append(g.valkeys, port)
		} else {
			g.ports[strconv.Itoa(6373+i)] = port
		}
	}
	var at string
	for line := range strings.Lines(body) {
		if begun := step.FindStringSubmatch(line); begun != nil {
			at = begun[1]
		}
		if command, is := strings.CutPrefix(line, "    "); is {
			require.NotEmpty(t, at)
			command = number.ReplaceAllStringFunc(command, func(port string) string {
				require.Contains(t, g.ports, port)
				return g.ports[port]
			})
			g.commands[at] = append(g.commands[at], strings.ReplaceAll(command, "/var/lib/", dir+"/"))
		}
	}
	g.endValkeys(filepath.Join(dir, "valkey"))
	return g
}

// programs returns a folder with the programs of the guide.
func programs(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for name, path := range map[string]string{
		"cellserver": binary, "redis-cli": testenv.Tool(t, "redis-cli"),
		"valkey-server": engines.Valkey91.Program(t, "server"), "valkey-cli": engines.Valkey91.Program(t, "cli"),
	} {
		require.NoError(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	return bin
}

// portsOfACluster returns ports that are free, and so are those for the bus of a cluster, which are 10000 above them. All are below those
// that the kernel gives to connections.
func portsOfACluster(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(10000)
		client, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer client.Close()
		bus, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10000))
		if err != nil {
			continue
		}
		defer bus.Close()
		if ports = append(ports, strconv.Itoa(port)); len(ports) == n {
			return ports
		}
	}
	require.FailNow(t, "no ports are free")
	return nil
}

// endValkeys ends the servers whose ids are in the files valkey.pid below dir when this test ends, or this process.
func (g *guide) endValkeys(dir string) {
	g.t.Helper()
	guard := exec.Command("sh", "-c", `cat; for file in "$0"/*/valkey.pid; do [ -f "$file" ] && kill -9 "$(cat "$file")"; done`, dir)
	end, err := guard.StdinPipe()
	require.NoError(g.t, err)
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ctrl-C is not for it
	require.NoError(g.t, guard.Start())
	g.t.Cleanup(func() {
		assert.NoError(g.t, end.Close())
		_ = guard.Wait()
		for _, port := range g.valkeys {
			assert.Eventually(g.t, func() bool {
				c, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err == nil {
					c.Close()
				}
				return err != nil
			}, patience, time.Millisecond)
		}
	})
}

// do follows a step: it runs the commands in a shell, and starts each cellserver as from a terminal of its own. It returns what the
// commands print, and the servers when they are ready.
func (g *guide) do(at string) (out string, servers []*process) {
	g.t.Helper()
	lines := g.commands[at]
	require.NotEmpty(g.t, lines, at)
	delete(g.commands, at)
	isServer := func(line string) bool {
		return strings.HasPrefix(line, "cellserver ") && !strings.HasPrefix(line, "cellserver import ")
	}
	for len(lines) > 0 {
		if isServer(lines[0]) {
			p := launchCommand(g.t, exec.Command("bash", "-c", "exec "+lines[0]), nil, g.env)
			p.says(" is ready")
			servers = append(servers, p)
			lines = lines[1:]
			continue
		}
		script := lines
		if end := slices.IndexFunc(lines, isServer); end >= 0 {
			script = lines[:end]
		}
		lines = lines[len(script):]
		out += g.run(strings.Join(script, ""))
	}
	return out, servers
}

// run returns what commands print to the standard output. None may fail or complain.
func (g *guide) run(script string) string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-e", "-u", "-o", "pipefail", "-c", script)
	shell.Env = g.env
	shell.Dir = g.t.TempDir()
	var out, complaints strings.Builder
	shell.Stdout, shell.Stderr = &out, &complaints
	require.NoError(g.t, shell.Run(), "%s: %s%s", script, &out, &complaints)
	require.Empty(g.t, complaints.String(), script)
	return out.String()
}
