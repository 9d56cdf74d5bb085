package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func init() {
	subcommands = append(subcommands, subcommand{"disk", "snapshots, loading them, and what a journal costs", runDisk})
}

// diskPlan is how much of everything the subcommand disk does.
type diskPlan struct {
	keys     int64
	rounds   int
	only     []string      // names of diskParts
	quiet    time.Duration // how long a probe of a server that does nothing else takes
	requests int64         // of one run of redis-benchmark
	patience time.Duration // how long a snapshot may take, or loading one
	dir      string        // where files are written, in a directory that is made there
}

// fullDiskPlan measures what the flags name by default; --quick makes it smaller.
func fullDiskPlan() diskPlan {
	return diskPlan{
		keys: 10_000_000, rounds: 2, quiet: 10 * time.Second, requests: 5_000_000, patience: 10 * time.Minute,
		dir: os.TempDir(),
	}
}

// quick returns the plan for --quick, which leaves alone what has a flag of its own.
func (p diskPlan) quick(keepKeys, keepRounds bool) diskPlan {
	if !keepKeys {
		p.keys = 1_000_000
	}
	if !keepRounds {
		p.rounds = 1
	}
	p.quiet, p.requests = 3*time.Second, 1_000_000
	return p
}

// diskPart is a part of the subcommand disk.
type diskPart struct {
	name, title string
	about       func(diskPlan) string
	measure     func(context.Context, *diskLab, diskPlan) (measured, error)
}

var diskParts = []diskPart{
	{"save", "Writing a snapshot", aboutSave, measureSave},
	{"load", "Loading a snapshot", aboutLoad, measureLoad},
	{"journal", "What a journal costs", aboutJournal, measureJournal},
}

func diskPartNames() (names []string) {
	for _, p := range diskParts {
		names = append(names, p.name)
	}
	return names
}

const aboutDisk = `disk measures what keeping the keys of a limiter costs: snapshots and what clients see of them, the time until a server
is back, and the throughput that a journal takes. Where there is a redis-server, it is measured beside, with the keys that
the module redis-cell would keep in it. It needs redis-benchmark for the journal, and some 3 GB of disk.`

// runDisk is the subcommand.
func runDisk(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	p, out, server, err := parseDisk(args, stdout)
	if err != nil {
		return err
	}
	show := newProgress(stderr)
	l, closeLab, err := newLab(ctx, server, show)
	if err != nil {
		return err
	}
	defer closeLab()
	d, closeDisk, err := newDiskLab(l, p.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDisk()) }()
	result, err := diskReport(ctx, d, p)
	show.end()
	result.command = strings.Join(append([]string{"go run . disk"}, args...), " ")
	if len(result.sections) > 0 {
		_, wrote := io.WriteString(stdout, result.text()) // also what was measured before something failed
		err = errors.Join(err, wrote)
	}
	if err != nil || out == "" {
		return err
	}
	if err := result.save(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "the same, with how it was measured, is in %s\n", out)
	return err
}

// parseDisk reads the command line of the subcommand.
func parseDisk(args []string, stdout io.Writer) (p diskPlan, out, server string, err error) {
	p = fullDiskPlan()
	set := flag.NewFlagSet("disk", flag.ContinueOnError)
	quick := set.Bool("quick", false, "measure 1 million keys and requests, once, and rest less")
	only := set.String("only", "", "measure only these parts: some of "+strings.Join(diskPartNames(), ", "))
	set.Int64Var(&p.keys, "keys", p.keys, "number of keys of a snapshot")
	set.IntVar(&p.rounds, "rounds", p.rounds, "measure everything so often, and show every value")
	set.StringVar(&p.dir, "dir", p.dir, "where the servers write their files, in a directory that is removed at the end")
	set.StringVar(&out, "out", "results/disk.md", "file for the result, besides standard output; empty for none")
	set.StringVar(&server, "server", "", "path of a built cellserver (default: one built from ../cmd/cellserver)")
	if err := parseFlags(set, aboutDisk, args, stdout); err != nil {
		return p, "", "", err
	}
	if *quick {
		given := map[string]bool{}
		set.Visit(func(f *flag.Flag) { given[f.Name] = true })
		p = p.quick(given["keys"], given["rounds"])
	}
	for name := range strings.SplitSeq(*only, ",") {
		switch {
		case *only == "":
		case slices.Contains(diskPartNames(), name):
			p.only = append(p.only, name)
		default:
			return p, "", "", usagef("--only: no part is called %q; there are %s", name, strings.Join(diskPartNames(), ", "))
		}
	}
	if p.keys < 1 || p.rounds < 1 {
		return p, "", "", usagef("--keys and --rounds begin at 1")
	}
	for name, path := range map[string]string{"server": server, "dir": p.dir} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return p, "", "", usagef("--%s: %w", name, err)
		}
	}
	return p, out, server, nil
}

// diskReport measures. With an error, the report holds what was measured before.
func diskReport(ctx context.Context, d *diskLab, p diskPlan) (report, error) {
	result := report{title: "Disk", machine: append(describe(d.lab), d.facts()...)}
	for _, part := range diskParts {
		if len(p.only) > 0 && !slices.Contains(p.only, part.name) {
			continue
		}
		s := section{title: part.title, about: part.about(p)}
		for round := range p.rounds {
			d.progress.part = part.name
			if p.rounds > 1 {
				d.progress.part = fmt.Sprintf("%s, round %d of %d", part.name, round+1, p.rounds)
			}
			m, err := part.measure(ctx, d, p)
			if err != nil {
				return result, fmt.Errorf("%s: %w", part.name, err)
			}
			s.rounds = append(s.rounds, m)
		}
		result.sections = append(result.sections, s)
	}
	return result, nil
}

// diskLab is a lab whose servers have directories.
type diskLab struct {
	*lab
	dir     string
	servers []*contender
}

// newDiskLab makes a directory in dir. The caller calls the function that it returns, which removes it.
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

// facts are what the results depend on besides the machine.
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

// syncTime returns how long it takes to append 4 KiB to a file and to have them on the disk.
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

// contender is a server that is measured, and how it is asked for the same things as the others.
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

// redisServer is a Redis that gets what redis-cell keeps in one: a time in nanoseconds for each key, and when it expires.
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

// snapshot is where the server keeps its snapshot.
func (c *contender) snapshot() string { return filepath.Join(c.dir, c.file) }

// open starts a server in its directory, from nothing.
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

// openFull starts a server with so many keys.
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

// bgSave has a server write a snapshot, and returns how long that took and how large the file is.
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

// diskProbeRate is that of the probes beside snapshots, in commands per second.
const diskProbeRate = 1000

func aboutSave(p diskPlan) string {
	return fmt.Sprintf(`A server has %s keys of %d bytes, which live for hours, and is asked for BGSAVE. It is saved when INFO persistence says
so, which is asked every 10 ms. Redis has the same keys with a value of 19 digits and an expiry, as the module redis-cell
keeps them. A probe changes %d random keys a second, by CL.THROTTLE or by SET, before the BGSAVE and during it; latency
counts from when a command was due. The server, its background work, and with Redis the process that it forks, share one
core; both write with an fsync at the end.`,
		grouped(float64(p.keys)), keyBytes, diskProbeRate)
}

// measureSave measures BGSAVE.
func measureSave(ctx context.Context, d *diskLab, p diskPlan) (m measured, err error) {
	for _, c := range d.servers {
		if err := d.measureSaveOf(ctx, c, p, &m); err != nil {
			return m, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return m, nil
}

func (d *diskLab) measureSaveOf(ctx context.Context, c *contender, p diskPlan, m *measured) (err error) {
	s, end, err := d.openFull(ctx, c, p.keys)
	if err != nil {
		return err
	}
	defer end(&err)
	d.progress.step("probing %s", c.name)
	change := randomKeys(p.keys, c.probe...)
	idle, err := probeFor(s.addr, diskProbeRate, change, func() error { return sleep(ctx, p.quiet) })
	if err != nil {
		return err
	}
	before, err := s.cpuNow()
	if err != nil {
		return err
	}
	var took time.Duration
	var size int64
	during, err := probeFor(s.addr, diskProbeRate, change, func() (err error) {
		took, size, err = d.bgSave(ctx, c, s, p)
		return err
	})
	if err != nil {
		return err
	}
	after, err := s.cpuNow()
	if err != nil {
		return err
	}
	keys, err := s.control.size()
	if err != nil {
		return err
	}
	name := func(what string) string { return c.name + ": " + what }
	m.add(name("keys"), float64(keys), asCount)
	m.add(name("BGSAVE"), float64(took), asLatency)
	m.add(name("keys saved"), float64(keys)/took.Seconds(), perSecond)
	m.add(name("size of the file"), float64(size), inBytes)
	m.add(name("bytes per key in the file"), float64(size)/float64(keys), bytesEach)
	m.add(name(waitFigure+", during BGSAVE"), waitShare(before, after), inPercent)
	m.add(name("p99.9 of the probe, idle"), float64(idle.quantile(0.999)), asLatency)
	m.add(name("p99.9 of the probe, during BGSAVE"), float64(during.quantile(0.999)), asLatency)
	m.probes = append(m.probes,
		latencies{name("idle"), idle}, latencies{name("during BGSAVE"), during})
	return nil
}

// randomKeys is a probe that sends a command for random keys.
func randomKeys(keys int64, args ...string) func([]byte, *rand.Rand) []byte {
	t := newTemplate(slices.Clone(args)...)
	return func(b []byte, r *rand.Rand) []byte { return t.appendTo(b, r.Int64N(keys)) }
}

func aboutLoad(p diskPlan) string {
	return fmt.Sprintf(`A server is started in a directory that has a snapshot of %s keys, as in the part save. It is ready when it answers
PING, which is tried every 10 ms: before, it does not listen, or says that it is loading. The file has just been written
or read, so it comes from memory and not from the disk. The server has one core.`, grouped(float64(p.keys)))
}

// measureLoad measures the time until a server with a snapshot answers.
func measureLoad(ctx context.Context, d *diskLab, p diskPlan) (m measured, err error) {
	for _, c := range d.servers {
		if err := d.measureLoadOf(ctx, c, p, &m); err != nil {
			return m, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return m, nil
}

func (d *diskLab) measureLoadOf(ctx context.Context, c *contender, p diskPlan, m *measured) (err error) {
	if c.dumped != p.keys {
		if err := d.dump(ctx, c, p); err != nil {
			return err
		}
	}
	d.progress.step("%s loads", c.name)
	began := time.Now()
	s, err := d.spawn(c)
	if err != nil {
		return err
	}
	defer s.stop()
	control, err := s.ready(ctx, p.patience)
	took := time.Since(began)
	if err != nil {
		return s.explain(err)
	}
	defer control.close()
	cpu, err := cpuTime(s.pid)
	if err != nil {
		return err
	}
	waited, err := waitTime(s.pid)
	if err != nil {
		return err
	}
	rss, _, err := resident(s.pid)
	if err != nil {
		return err
	}
	keys, err := control.size()
	if err != nil {
		return err
	}
	if keys != p.keys {
		return fmt.Errorf("%d of %d keys were loaded", keys, p.keys)
	}
	name := func(what string) string { return c.name + ": " + what }
	m.add(name("ready after"), float64(took), asLatency)
	m.add(name("keys loaded"), float64(keys)/took.Seconds(), perSecond)
	m.add(name("processor time per key"), cpu.Seconds()*1e6/float64(keys), inMicros)
	m.add(name(waitFigure), 100*waited.Seconds()/took.Seconds(), inPercent)
	m.add(name("RSS then"), float64(rss), inBytes)
	return nil
}

// dump makes a snapshot to load.
func (d *diskLab) dump(ctx context.Context, c *contender, p diskPlan) (err error) {
	s, end, err := d.openFull(ctx, c, p.keys)
	if err != nil {
		return err
	}
	defer end(&err)
	_, _, err = d.bgSave(ctx, c, s, p)
	return err
}

// spawn starts a server in its directory, with what is there, and waits for nothing.
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

// ready returns a connection to a server once that answers PING.
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

// Connections, pipeline and keys of redis-benchmark.
const (
	benchmarkConns = 50
	benchmarkDepth = 16
	benchmarkKeys  = 100_000
)

func aboutJournal(p diskPlan) string {
	return fmt.Sprintf(`redis-benchmark -P %d -c %d -r %d sends %s requests to a server without a journal, then to two with appendonly yes and
appendfsync everysec, and to one without again, each of which begins with nothing; what is shown of each kind is the mean
of its two. cellserver gets CL.THROTTLE that is always admitted, and so changes its key; Redis gets SET of 19 digits with
PX. Everything else is as the servers have it by default: Redis also rewrites its journal, in a process that shares the
core.`, benchmarkDepth, benchmarkConns, benchmarkKeys, grouped(float64(p.requests)))
}

// measureJournal measures the throughput with and without a journal.
func measureJournal(ctx context.Context, d *diskLab, p diskPlan) (m measured, err error) {
	for _, c := range d.servers {
		var rates [2]float64
		var size int64
		for _, journal := range []int{0, 1, 1, 0} {
			rate, bytes, err := d.benchmark(ctx, c, p, journal == 1)
			if err != nil {
				return m, fmt.Errorf("%s: %w", c.name, err)
			}
			rates[journal] += rate / 2
			size = max(size, bytes)
		}
		m.add(c.name+": requests without a journal", rates[0], perSecond)
		m.add(c.name+": requests with a journal", rates[1], perSecond)
		m.add(c.name+": with, of what it is without", 100*rates[1]/rates[0], inPercent)
		m.add(c.name+": the journal at the end", float64(size), inBytes)
	}
	return m, nil
}

// benchmark runs redis-benchmark against a new server, and returns its rate, and how large the journal is then.
func (d *diskLab) benchmark(ctx context.Context, c *contender, p diskPlan, journal bool) (rate float64, size int64, err error) {
	var args []string
	what := "without a journal"
	if journal {
		args, what = []string{"--appendonly", "yes", "--appendfsync", "everysec"}, "with a journal"
	}
	s, end, err := d.open(ctx, c, args...)
	if err != nil {
		return 0, 0, err
	}
	defer end(&err)
	d.progress.step("%s %s", c.name, what)
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, "redis-benchmark", append([]string{"-p", port, "--csv",
		"-P", strconv.Itoa(benchmarkDepth), "-c", strconv.Itoa(benchmarkConns), "-r", strconv.Itoa(benchmarkKeys),
		"-n", strconv.FormatInt(p.requests, 10)}, c.journal...)...)
	out, err := cmd.Output() // it fails when the server answers with an error
	if err != nil {
		return 0, 0, fmt.Errorf("redis-benchmark: %w: %s", err, out)
	}
	if rate, err = parseBenchmark(string(out)); err != nil || !journal {
		return rate, 0, err
	}
	size, err = s.control.number("persistence", "aof_current_size")
	return rate, size, err
}

// parseBenchmark returns the requests per second that redis-benchmark --csv tells of.
func parseBenchmark(out string) (float64, error) {
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w", err)
	}
	if len(rows) != 2 || len(rows[0]) < 2 || rows[0][1] != "rps" {
		return 0, fmt.Errorf("redis-benchmark said %q", out)
	}
	return strconv.ParseFloat(rows[1][1], 64)
}
