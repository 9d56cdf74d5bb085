package testenv

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// untilEOF is a shell script that runs a program until its own standard input ends: with this process, however that ends. The first
// line that it prints is the process id of the program. Once the program has ended nothing is killed: another may have its id.
const untilEOF = `exec 3<&0
sh -c 'echo $$; exec "$@"' sh "$@" 3<&- 2>&1 & pid=$!
{ cat <&3; kill -9 $pid; } >/dev/null 2>&1 & killer=$!
exec 3<&-
wait $pid
kill $killer`

// keptOutput bounds what a Process keeps of the output of its program, in bytes.
const keptOutput = 64 << 10

// Process is a program that ends with this process, however that ends.
type Process struct {
	pid   int
	in    io.Closer
	ended chan struct{} // closed when it has ended

	mu   sync.Mutex
	said strings.Builder
}

// StartProcess starts a program and returns when it has printed a line that ready accepts. If it ends before, the error says what it
// printed.
func StartProcess(ready func(line string) bool, program string, args ...string) (*Process, error) {
	cmd := exec.Command("sh", append([]string{"-c", untilEOF, "sh", program}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{in: in, ended: make(chan struct{})}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(first))
	}
	if err != nil {
		_ = in.Close()
		_ = cmd.Wait()
		return nil, fmt.Errorf("%s did not start: %q, %w", program, first, err)
	}
	isReady := make(chan struct{})
	go func() {
		defer close(p.ended)
		for waits := true; ; {
			line, err := lines.ReadString('\n')
			p.say(line)
			if waits && ready(line) {
				waits = false
				close(isReady)
			}
			if err != nil {
				break
			}
		}
		_ = in.Close()
		_ = cmd.Wait() // how it ended is in its output
	}()
	select {
	case <-isReady:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%s did not start:\n%s", program, p.Output())
	}
}

func (p *Process) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said.Len() > keptOutput {
		kept := p.said.String()[keptOutput/2:]
		p.said.Reset()
		p.said.WriteString(kept)
	}
	p.said.WriteString(line)
}

// Output returns the end of what the program has printed.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// PID returns the id of the program's process.
func (p *Process) PID() int { return p.pid }

// Ended returns a channel that is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Signal sends the program a signal. It does nothing when the program has ended.
func (p *Process) Signal(signal syscall.Signal) error {
	select {
	case <-p.ended:
		return nil
	default:
		return syscall.Kill(p.pid, signal)
	}
}

// End kills the program and waits until it has ended.
func (p *Process) End() {
	_ = p.in.Close() // which kills it
	<-p.ended
}
