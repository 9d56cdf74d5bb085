package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

type randSource = *rand.Rand

// randomCommand is a command with random numbers in it, in the notation of redis-benchmark.
type randomCommand struct {
	raw []byte
	at  []int // where numbers are
}

func newRandomCommand(args []string) randomCommand {
	c := randomCommand{raw: appendCommand(nil, args...)}
	for from := 0; ; {
		at := bytes.Index(c.raw[from:], []byte(randInt))
		if at < 0 {
			return c
		}
		c.at = append(c.at, from+at)
		from += at + len(randInt)
	}
}

// appendTo appends the command, with the same number in every place.
func (c randomCommand) appendTo(b []byte, number int64) []byte {
	start := len(b)
	b = append(b, c.raw...)
	for _, at := range c.at {
		digits, left := b[start+at:][:len(randInt)], number
		for i := len(digits) - 1; i >= 0; i-- {
			digits[i] = byte('0' + left%10)
			left /= 10
		}
	}
	return b
}

// clientRun is one run of redis-benchmark.
type clientRun struct {
	conns, depth   int
	requests, keys int64
	options        []string // more of them
	limit          time.Duration
}

// whole rounds n up to a number of requests that all connections share equally in full pipelines: redis-benchmark sends
// full pipelines only.
func (c clientRun) whole(n float64) int64 {
	batch := float64(c.conns * c.depth)
	return int64(max(1, (n+batch-1)/batch)) * int64(batch)
}

// took returns the duration of a run that had the given rate.
func (c clientRun) took(rate float64) time.Duration {
	return time.Duration(float64(c.requests) / rate * float64(time.Second))
}

// clientResult is the result of a run.
type clientResult struct {
	rate   float64       // requests per second
	wall   time.Duration // of the program, including its start
	cpu    time.Duration // processor time of redis-benchmark
	output string
}

// benchmarkWith runs redis-benchmark against a rival. It kills redis-benchmark when the server ends or the time is up,
// because redis-benchmark retries a failed connection forever.
func (l *lab) benchmarkWith(ctx context.Context, path string, r *rival, args []string, run clientRun) (result clientResult, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, run.limit, fmt.Errorf("redis-benchmark took more than %s", run.limit))
	defer cancel()
	host, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		return result, err
	}
	if len(run.options) > 0 {
		port = r.tlsPort
	}
	cmd := exec.CommandContext(ctx, path, append(append([]string{"-h", host, "-p", port, "--csv",
		"-c", strconv.Itoa(run.conns), "-P", strconv.Itoa(run.depth), "-r", strconv.FormatInt(run.keys, 10),
		"-n", strconv.FormatInt(run.requests, 10)}, run.options...), args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // as start has it
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return result, err
	}
	l.started = append(l.started, cmd.Process.Pid)
	ended := make(chan struct{})
	if r.own() {
		go func() {
			select {
			case <-r.s.done:
				cancel()
			case <-ended:
			}
		}()
	}
	err = cmd.Wait()
	close(ended)
	result.wall = time.Since(began)
	result.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	result.output = out.String()
	if cause := context.Cause(ctx); cause != nil {
		return result, cause
	}
	// redis-benchmark continues after an error reply and reports it.
	if text := strings.TrimSpace(complaint.String()); err != nil || strings.Contains(text, "Error from server") {
		return result, errors.Join(fmt.Errorf("redis-benchmark %s: %s", strings.Join(args, " "), text), err)
	}
	result.rate, err = parseThroughput(result.output)
	return result, err
}

var requestsPerSecond = regexp.MustCompile(`([0-9.]+) requests per second`)

// parseThroughput returns the last rate, in requests per second, that redis-benchmark reports, as CSV or in words. Lines
// of progress end in \r and come before it.
func parseThroughput(output string) (rate float64, err error) {
	found := ""
	column := 0 // of the rate, counted from the end: the test's name may have commas; 0 before the head
	for line := range strings.FieldsFuncSeq(output, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if m := requestsPerSecond.FindStringSubmatch(line); m != nil {
			found = m[1]
			continue
		}
		r := csv.NewReader(strings.NewReader(line))
		r.LazyQuotes = true
		row, err := r.Read()
		if err != nil {
			continue
		}
		if row[0] == "test" {
			column = 0
			for i, name := range row {
				if name == "rps" {
					column = i - len(row)
				}
			}
		} else if column < 0 && len(row)+column > 0 {
			found = row[len(row)+column]
		}
	}
	if rate, err = strconv.ParseFloat(found, 64); err != nil || !(rate > 0) {
		return 0, fmt.Errorf("redis-benchmark said %q", output)
	}
	return rate, nil
}

// processTime returns the same as cpuTime with a resolution of a nanosecond: it reads the CPU clock of the process, which
// /proc/PID/stat rounds to hundredths of a second.
func processTime(pid int) (time.Duration, error) {
	const schedClock = 2
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(^pid<<3|schedClock), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return cpuTime(pid)
	}
	return time.Duration(ts.Nano()), nil
}
