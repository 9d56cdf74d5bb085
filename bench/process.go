package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// lab is what all measurements of one run share: the program to measure, and the cores of the servers and the load.
type lab struct {
	server    string // path of the built cellserver
	serverIs  string // the commit it was built from, for the report
	serverCPU int    // the core that servers are pinned to, -1 for none
	pinning   string // how servers and load are pinned, for the report
	progress  *progress
	started   []int // process ids of all servers so far
}

// newLab finds the server, or builds it if no path is given, and pins this process. The caller must call close.
func newLab(ctx context.Context, path string, p *progress) (l *lab, closeLab func(), err error) {
	l = &lab{server: path, serverCPU: -1, progress: p}
	closeLab = func() {}
	if path != "" {
		if l.server, err = filepath.Abs(path); err == nil {
			_, err = os.Stat(l.server)
		}
		l.serverIs = "given, of commit " + revision(l.server)
	} else {
		closeLab, err = l.build(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	l.pin(ctx)
	return l, closeLab, nil
}

// build builds the server from the working tree that contains this directory.
func (l *lab) build(ctx context.Context) (remove func(), err error) {
	if _, err := os.Stat("../cmd/cellserver"); err != nil {
		return nil, usagef("there is no ../cmd/cellserver to build: run this in the folder bench, or give --server")
	}
	dir, err := os.MkdirTemp("", "cellserver-bench-")
	if err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	l.progress.step("building the server")
	l.server, l.serverIs = filepath.Join(dir, "cellserver"), "commit "+treeCommit("..")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", l.server, "./cmd/cellserver")
	c.Dir = ".."
	if out, err := c.CombinedOutput(); err != nil {
		remove()
		return nil, fmt.Errorf("the server does not build: %w\n%s", err, out)
	}
	return remove, nil
}

// pin pins this process, which sends the load, to the second core that it may use, and servers to the first.
func (l *lab) pin(ctx context.Context) {
	// Two: one for the load, and one for a probe, which must not wait for the load when it returns from a system call.
	runtime.GOMAXPROCS(2)
	cpus, err := allowedCPUs()
	if err != nil || len(cpus) < 2 {
		l.pinning = "none: there is only one core"
		return
	}
	out, err := exec.CommandContext(ctx, "taskset", "-a", "-c", "-p", strconv.Itoa(cpus[1]), strconv.Itoa(os.Getpid())).CombinedOutput()
	if err != nil {
		l.pinning = "none: " + strings.TrimSpace("taskset: "+err.Error()+" "+string(out))
		return
	}
	l.serverCPU = cpus[0]
	l.pinning = fmt.Sprintf("servers on core %d; load and probes on core %d", cpus[0], cpus[1])
}

// process is a server process.
type process struct {
	pid  int
	addr string

	cmd  *exec.Cmd
	log  *lineWriter
	done chan struct{} // closed when it has ended and has been reaped
}

// startTimeout is the limit for a server to answer, and stopTimeout the limit to end.
const (
	startTimeout = 10 * time.Second
	stopTimeout  = 10 * time.Second
)

// cellserver returns the command that starts a cellserver without maxmemory, unless args set it. The environment sets no
// options.
func (l *lab) cellserver(port string, args ...string) *exec.Cmd {
	c := exec.Command(l.server, append([]string{"--bind", "127.0.0.1", "--port", port, "--maxmemory", "0"}, args...)...)
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "CELLSERVER_") && !slices.Contains(tunesGo, name) {
			c.Env = append(c.Env, v)
		}
	}
	return c
}

// tunesGo are the environment variables that tune Go's runtime.
var tunesGo = []string{"GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS"}

// start starts the server that command returns for a free loopback port, pins it, and returns when it answers PING. The
// caller must stop it; if this program is killed, the kernel kills the server.
func (l *lab) start(ctx context.Context, command func(port string) *exec.Cmd) (*process, error) {
	var failed error
	for range 3 { // another process may take the free port before the server does
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		p := &process{
			addr: net.JoinHostPort("127.0.0.1", port), cmd: l.pinned(command(port)),
			log: new(lineWriter), done: make(chan struct{}),
		}
		p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
		// Its own process group: ctrl-C at the terminal signals this program only, which then stops the server.
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := p.cmd.Start(); err != nil {
			return nil, err
		}
		p.pid = p.cmd.Process.Pid
		l.started = append(l.started, p.pid)
		go func() {
			_ = p.cmd.Wait() // its status is in ProcessState
			close(p.done)
		}()
		if failed = p.await(ctx); failed == nil {
			return p, nil
		}
		p.stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, failed
}

// pinned runs a command on the core of the servers. taskset replaces itself with the server, so the process id is the
// server's.
func (l *lab) pinned(c *exec.Cmd) *exec.Cmd {
	if l.serverCPU < 0 {
		return c
	}
	p := exec.Command("taskset", append([]string{"-c", strconv.Itoa(l.serverCPU), c.Path}, c.Args[1:]...)...)
	p.Env, p.Dir = c.Env, c.Dir
	return p
}

// serverProcs returns the number of processors that the servers may use, which is GOMAXPROCS of a server in Go.
func (l *lab) serverProcs() int {
	if l.serverCPU >= 0 {
		return 1
	}
	return runtime.NumCPU()
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// await waits until the server answers PING.
func (p *process) await(ctx context.Context) error {
	deadline := time.Now().Add(startTimeout)
	for {
		c, err := dial(p.addr)
		if err == nil {
			_, err = c.do("PING")
			c.close()
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return fmt.Errorf("the server did not start: %s", p.last())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the server does not answer: %w: %s", err, p.last())
		}
	}
}

// stop ends the server: with SIGTERM, and with SIGKILL after stopTimeout. It may be called again.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// explain adds to an error why the server has ended early, if it has.
func (p *process) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	select {
	case <-p.done:
		return fmt.Errorf("%w: the server has ended: %v: %s", err, p.cmd.ProcessState, p.last())
	case <-time.After(100 * time.Millisecond): // connections close shortly before the process ends
		return err
	}
}

// last returns the last line that the server wrote.
func (p *process) last() string {
	lines := p.log.since(0)
	if len(lines) == 0 {
		return "it wrote nothing"
	}
	return lines[len(lines)-1]
}

// lineWriter stores the lines that are written to it.
type lineWriter struct {
	mu    sync.Mutex
	part  []byte
	lines []string
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.part = append(w.part, b...)
	for {
		line, rest, ok := bytes.Cut(w.part, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		w.lines, w.part = append(w.lines, string(line)), rest
	}
}

// since returns the lines from index n on.
func (w *lineWriter) since(n int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lines[n:])
}
