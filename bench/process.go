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

// lab is what all measurements of one run share: the program to measure, and where servers and load run.
type lab struct {
	server    string // path of the built cellserver
	serverIs  string // what it was built from, for the report
	serverCPU int    // the core that servers are pinned to, -1 for none
	pinning   string // how servers and load are pinned, for the report
	progress  *progress
	started   []int // process ids of all servers so far
}

// newLab finds the server, or builds it when no path is given, and pins this process. The caller calls close.
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

// build builds the server of the tree around this folder.
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

// pin keeps this process, with the load that it makes, on the second core that it may use, and servers on the first.
func (l *lab) pin(ctx context.Context) {
	// Two: one for the load, and one for a probe that comes back from a system call and must not wait for the load.
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

// process is a server that was started.
type process struct {
	pid  int
	addr string

	cmd  *exec.Cmd
	log  *lineWriter
	done chan struct{} // closed when it has ended and been waited for
}

// startTimeout is how long a server may take until it answers, and stopTimeout how long to end.
const (
	startTimeout = 10 * time.Second
	stopTimeout  = 10 * time.Second
)

// cellserver is a command for start: a cellserver without a bound on memory, unless args give one, and free of what the
// environment would set in it.
func (l *lab) cellserver(port string, args ...string) *exec.Cmd {
	c := exec.Command(l.server, append([]string{"--bind", "127.0.0.1", "--port", port, "--maxmemory", "0"}, args...)...)
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !strings.HasPrefix(name, "CELLSERVER_") && !slices.Contains(tunesGo, name) {
			c.Env = append(c.Env, v)
		}
	}
	return c
}

// tunesGo are the variables by which Go's runtime takes less or more.
var tunesGo = []string{"GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS"}

// start starts the server that command makes for a free port of the loopback, pinned, and returns once it answers PING.
// Every server must be stopped; should this program be killed, the kernel kills them.
func (l *lab) start(ctx context.Context, command func(port string) *exec.Cmd) (*process, error) {
	var failed error
	for range 3 { // somebody else may take the port between its being found free and the server's taking it
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		p := &process{
			addr: net.JoinHostPort("127.0.0.1", port), cmd: l.pinned(command(port)),
			log: new(lineWriter), done: make(chan struct{}),
		}
		p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
		// A group of its own: ctrl-C at the terminal is for this program, which then stops the server.
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

// pinned makes a command run on the core of servers. taskset becomes the server, so that the process id is the server's.
func (l *lab) pinned(c *exec.Cmd) *exec.Cmd {
	if l.serverCPU < 0 {
		return c
	}
	p := exec.Command("taskset", append([]string{"-c", strconv.Itoa(l.serverCPU), c.Path}, c.Args[1:]...)...)
	p.Env, p.Dir = c.Env, c.Dir
	return p
}

// serverProcs returns how many processors the servers may use: GOMAXPROCS of one that is written in Go.
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

// await returns once the server answers.
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

// stop ends the server by its process id, first gently. It may be called again.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// explain adds to an error what is known of a server that has ended before its time.
func (p *process) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	select {
	case <-p.done:
		return fmt.Errorf("%w: the server has ended: %v: %s", err, p.cmd.ProcessState, p.last())
	case <-time.After(100 * time.Millisecond): // its connections close shortly before it ends
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

// lineWriter keeps what is written to it, as lines.
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

// since returns the lines from number n on.
func (w *lineWriter) since(n int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lines[n:])
}
