package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// diskLab is a lab with a directory for each server.
type diskLab struct {
	*lab
	dir     string
	servers []*contender
}

// newDiskLab creates a directory in dir. The caller must call remove, which deletes it.
func newDiskLab(l *lab, dir string) (d *diskLab, remove func() error, err error) {
	d = &diskLab{lab: l}
	if d.dir, err = os.MkdirTemp(dir, "cellserver-bench-"); err != nil {
		return nil, nil, err
	}
	remove = func() error { return os.RemoveAll(d.dir) }
	d.servers = []*contender{cellserver(l)}
	if path, err := exec.LookPath("redis-server"); err == nil {
		d.servers = append(d.servers, redisServer(path))
	}
	for _, c := range d.servers {
		c.dir = filepath.Join(d.dir, c.file)
		if err := os.Mkdir(c.dir, 0o700); err != nil {
			return nil, nil, errors.Join(err, remove())
		}
	}
	return d, remove, nil
}

// facts returns what the results depend on besides the machine.
func (d *diskLab) facts() []fact {
	redis := "none was found"
	if len(d.servers) > 1 {
		if out, err := exec.Command(d.servers[1].path, "--version").Output(); err == nil {
			redis = strings.TrimSpace(string(out))
		}
	}
	facts := []fact{{"Redis", redis}}
	if took, err := syncTime(d.dir); err == nil {
		facts = append(facts, fact{"fsync of 4 KiB, the median of 100", took.Round(10 * time.Microsecond).String()})
	}
	return facts
}

// syncTime returns the median time of appending 4 KiB to a file and syncing it.
func syncTime(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer func() { _ = f.Close() }()
	h := new(histogram)
	for range 100 {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4<<10)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		h.record(time.Since(began))
	}
	return h.quantile(0.5), nil
}

// contender is a server under measurement, with its form of the commands that every contender gets.
type contender struct {
	name    string
	path    string
	file    string // of its snapshot
	dir     string
	command func(port string, args ...string) *exec.Cmd
	fill    []string // the command that makes a key
	probe   []string // the command that changes one
	journal []string // the same for redis-benchmark
	dumped  int64    // keys in the snapshot that is in dir
}

func cellserver(l *lab) *contender {
	return &contender{
		name: "cellserver", path: l.server, file: "dump.cell", command: l.cellserver,
		fill:    longLived,
		probe:   []string{"CL.THROTTLE", "KEY", "1000000", "1000000", "86400", "1"},
		journal: []string{"CL.THROTTLE", "key:__rand_int__", "1000000", "1000000", "86400", "1"},
	}
}

// redisServer returns a Redis with the data that redis-cell keeps: for each key a time in nanoseconds, and an expiry.
func redisServer(path string) *contender {
	set := func(key string) []string { return []string{"SET", key, "1795188573123456789", "PX", "86400000"} }
	return &contender{
		name: "Redis", path: path, file: "dump.rdb",
		command: func(port string, args ...string) *exec.Cmd {
			return exec.Command(path, append([]string{"--bind", "127.0.0.1", "--port", port, "--save", ""}, args...)...)
		},
		fill: set("KEY"), probe: set("KEY"), journal: set("key:__rand_int__"),
	}
}

// snapshot returns the path of the snapshot.
func (c *contender) snapshot() string { return filepath.Join(c.dir, c.file) }

// open starts a server in its directory, which it empties first.
func (d *diskLab) open(ctx context.Context, c *contender, args ...string) (*session, func(*error), error) {
	c.dumped = 0
	if err := os.RemoveAll(c.dir); err != nil {
		return nil, nil, err
	}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return nil, nil, err
	}
	return d.lab.open(ctx, func(port string) *exec.Cmd { return c.command(port, append(args, "--dir", c.dir)...) })
}

// openFull starts a server and fills it with the given number of keys.
func (d *diskLab) openFull(ctx context.Context, c *contender, keys int64) (s *session, end func(*error), err error) {
	s, end, err = d.open(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if _, err = d.runLoad(ctx, s, "filling "+c.name, keyLoad(keys, slices.Clone(c.fill)...)); err != nil {
		end(&err)
		return nil, nil, err
	}
	return s, end, nil
}

// bgSave has a server write a snapshot. It returns the duration and the size of the file.
func (d *diskLab) bgSave(ctx context.Context, c *contender, s *session, p diskPlan) (took time.Duration, size int64, err error) {
	d.progress.step("%s saves", c.name)
	began := time.Now()
	if _, err := s.control.do("BGSAVE"); err != nil {
		return 0, 0, err
	}
	for {
		fields, err := s.control.info("persistence")
		took = time.Since(began)
		switch {
		case err != nil:
			return 0, 0, err
		case fields["rdb_bgsave_in_progress"] == "0" && fields["rdb_last_bgsave_status"] != "ok":
			return 0, 0, fmt.Errorf("%s could not save: %s", c.name, s.last())
		case fields["rdb_bgsave_in_progress"] == "0":
			info, err := os.Stat(c.snapshot())
			if err != nil {
				return 0, 0, err
			}
			c.dumped = p.keys
			return took, info.Size(), nil
		case took > p.patience:
			return 0, 0, fmt.Errorf("%s is still saving after %s", c.name, took.Round(time.Second))
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return 0, 0, err
		}
	}
}

// dump fills a server and writes the snapshot that is loaded later.
func (d *diskLab) dump(ctx context.Context, c *contender, p diskPlan) (err error) {
	s, end, err := d.openFull(ctx, c, p.keys)
	if err != nil {
		return err
	}
	defer end(&err)
	_, _, err = d.bgSave(ctx, c, s, p)
	return err
}

// spawn starts a server on the files in its directory, and does not wait until it is ready.
func (d *diskLab) spawn(c *contender) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p := &process{
		addr: net.JoinHostPort("127.0.0.1", port), cmd: d.pinned(c.command(port, "--dir", c.dir)),
		log: new(lineWriter), done: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL} // as start has it
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.pid = p.cmd.Process.Pid
	d.started = append(d.started, p.pid)
	go func() {
		_ = p.cmd.Wait() // its status is in ProcessState
		close(p.done)
	}()
	return p, nil
}

// ready waits until the server answers PING, and returns the connection.
func (p *process) ready(ctx context.Context, patience time.Duration) (*conn, error) {
	for deadline := time.Now().Add(patience); ; {
		c, err := dial(p.addr)
		if err == nil {
			if _, err = c.do("PING"); err == nil {
				return c, nil
			}
			c.close()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.done:
			return nil, fmt.Errorf("the server has not started: %s", p.last())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the server is not ready: %w: %s", err, p.last())
		}
	}
}
