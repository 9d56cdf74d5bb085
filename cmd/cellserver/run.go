package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"cellserver/buckets/memory"
	"cellserver/cmd/cellserver/options"
	"cellserver/internal/clock"
	"cellserver/internal/disk"
	"cellserver/persistence"
	"cellserver/resp"
)

// version is that of the release that the section Unreleased of CHANGELOG.md becomes.
const version = "0.1.0"

// run is the program, from its arguments to its last breath. It starts things in this order and stops them in the
// reverse one:
//
//	options    nothing is touched before they are known to be right
//	log        so that everything after it can be told
//	TLS        its files are read, if it is to be served
//	store      the buckets, and the clock they are decided at
//	disk       takes its directory, but has loaded nothing yet
//	server     which answers, but listens to nobody yet
//	listeners  as soon as there is somebody to answer: that the buckets are being loaded, at first
//	loading    what was kept, before anything is decided
//	keeping    the journal and the snapshots
//	sweeper    forgets what has expired
//
// The first SIGINT or SIGTERM, SHUTDOWN, or the end of ctx drains the server; a second signal ends the process at once.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) > 0 {
		if command, ok := commands[args[0]]; ok {
			return command(ctx, args[1:], stdout, stderr)
		}
	}
	settings, err := options.Parse(args)
	switch {
	case errors.Is(err, options.ErrHelp):
		_, err = io.WriteString(stdout, options.Help())
		return err
	case errors.Is(err, options.ErrVersion):
		_, err = fmt.Fprintln(stdout, "cellserver", version)
		return err
	case err != nil:
		return fmt.Errorf("%w (see cellserver --help)", err)
	}

	level := new(slog.LevelVar)
	log, logFile, err := openLog(settings, level, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, logFile.Close()) }()
	for _, name := range options.UnknownInEnvironment() {
		log.Warn("an environment variable sets nothing", "variable", name)
	}

	secure, err := openTLS(settings.TLS, log)
	if err != nil {
		return err
	}

	now := clock.New().Now
	store := memory.NewStore(memory.DefaultShards)
	keeper, err := persistence.New(persistence.Config{
		FS: persistence.OS, Dir: settings.Dir, Snapshot: settings.Snapshot, Journal: settings.Journal,
		Store: store, Now: now, Log: log,
	}, settings.Disk)
	if err != nil {
		return err
	}
	var server *resp.Server
	apply := func(s options.Settings) error {
		if err := keeper.SetRules(s.Disk); err != nil {
			return err
		}
		level.Set(s.LogLevel)
		s.Bound(store)
		setRuntimeMemory(s.MaxMemory)
		server.SetLimits(s.Wire)
		server.SetPassword(s.Password)
		return nil
	}
	live := options.NewLive(settings, apply)
	live.File = options.ConfigFile(args)
	asked := make(chan resp.Ending, 1) // by SHUTDOWN
	server = resp.NewServer(resp.Config{
		Store: store, Now: now, Log: log, Version: version, Options: live, Limits: settings.Wire,
		Memory: options.MachineMemory(), ACLFile: aclFile(settings.ACLFile), Disk: disk.Of(keeper), Stop: func(e resp.Ending) {
			select {
			case asked <- e:
			default:
			}
		},
	})
	if settings.ACLFile != "" {
		if err := server.LoadUsers(); err != nil {
			return fmt.Errorf("aclfile: %w", err)
		}
	}
	if err := apply(settings); err != nil {
		return err
	}
	listeners, err := listen(settings)
	if err != nil {
		return errors.Join(err, keeper.Stop(false))
	}

	// Whoever reads the log may go away, and so may the terminal: neither is a reason to forget every bucket.
	signal.Ignore(syscall.SIGPIPE)
	defer secure.readAgainOnHangUp()()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() {
			if l.secure {
				failed <- server.ServeTLS(l, secure.config.Load)
			} else {
				failed <- server.Serve(l)
			}
		}()
	}
	loaded := make(chan error, 1)
	go func() { loaded <- keeper.Load() }()
	select {
	case err = <-loaded:
	case e := <-asked:
		asked <- e // for the case that all has been loaded by now
		keeper.Abandon()
		err = <-loaded
	case <-ctx.Done():
		stop() // a second signal ends the process at once
		keeper.Abandon()
		err = <-loaded
	}
	if err != nil {
		if errors.Is(err, persistence.ErrAbandoned) {
			log.Info("stopped while loading: what is on disk stays as it is")
			err = nil
		}
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(cancelled)
		return errors.Join(err, keeper.Stop(false))
	}
	keeper.Start()
	stopSweeper := sweep(store, now, server.Sample)
	defer stopSweeper()
	for _, l := range listeners {
		log.Info("cellserver "+version+" is ready", "address", l.Addr().String(), "tls", l.secure, "pid", os.Getpid(),
			"maxmemory", settings.MaxMemory, "maxmemory-policy", settings.MaxMemoryPolicy, "try", tryIt(l, &settings.TLS))
	}

	ending := resp.EndAsConfigured
	select {
	case <-ctx.Done():
	case ending = <-asked:
	case err = <-failed: // a listener broke; nil is for Shutdown only, which has not been called
	}
	stop() // a second signal now does what it always did
	log.Info("stopping: no new connections, commands that were read are answered")
	grace, cancel := context.WithTimeout(context.Background(), live.Settings().ShutdownTimeout)
	defer cancel()
	if cut := server.Shutdown(grace); cut != nil {
		log.Warn("some replies could not be sent within shutdown-timeout")
	}
	save := ending == resp.EndSaving || ending == resp.EndAsConfigured && len(live.Settings().Disk.SavePoints) > 0
	err = errors.Join(err, keeper.Stop(save))
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// garbagePercent is how much garbage may gather beside what is live before it is collected. What is live is nearly all
// blocks and indexes without pointers, which cost nothing to look through, and what becomes garbage is nearly all indexes
// that have grown. While ten million keys of 13 bytes were filled in (docs/performance.md), 10, 25 and 100 percent took
// 34.5, 35.2 and 37.3 bytes of RSS a key, with 81, 45 and 14 collections of some 5 ms of processor time each in 6 s;
// once they are there, requests leave no garbage behind, and there are none.
const garbagePercent = 10

// setRuntimeMemory tells Go's runtime what the buckets may take: beyond that and what connections need, it collects
// garbage before it asks the system for more.
func setRuntimeMemory(maxMemory int64) {
	debug.SetGCPercent(garbagePercent)
	limit := int64(math.MaxInt64)
	if maxMemory > 0 {
		limit = maxMemory + max(64<<20, maxMemory/8)
	}
	debug.SetMemoryLimit(limit)
}

// openLog makes the log. Its level follows level.
func openLog(s options.Settings, level *slog.LevelVar, stderr io.Writer) (*slog.Logger, io.Closer, error) {
	level.Set(s.LogLevel)
	out := struct {
		io.Writer
		io.Closer
	}{stderr, io.NopCloser(nil)}
	if s.LogFile != "" {
		f, err := os.OpenFile(s.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, nil, fmt.Errorf("logfile: %w", err)
		}
		out.Writer, out.Closer = f, f
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})), out, nil
}

// The sweep's part of one processor: half a percent of it while it finds little that has expired, which is enough to look
// at ten million keys in some ten seconds, and four percent while there is much to forget.
const (
	sweepEvery  = 100 * time.Millisecond
	sweepLittle = sweepEvery / 200
	sweepMuch   = sweepEvery / 25
)

// sweep forgets expired keys now and then, until it is told to stop, and gives the memory back that a flood of keys has
// left behind. At each tick it also calls sample.
func sweep(store *memory.Store, now func() int64, sample func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		most := store.Held()
		for {
			select {
			case <-tick.C:
				sweepOnce(store, now)
				most = giveBack(store, most)
				sample()
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// A sweep works for so long, and then lets requests go first: its steps are short, but many. Giving up the processor is not
// enough where there is one, as Go's scheduler would come back before it looks at the network again.
const (
	sweepWork   = 200 * time.Microsecond
	sweepBreath = 50 * time.Microsecond
)

// sweepOnce takes the steps of one tick: until its time is over, or all shards have been seen to.
func sweepOnce(store *memory.Store, now func() int64) {
	began, worked := time.Now(), time.Duration(0)
	for until := sweepLittle; worked+time.Since(began) < until; {
		did := store.Sweep(now())
		if did.Round {
			return
		}
		if 4*did.Expired > did.Looked {
			until = sweepMuch
		}
		if took := time.Since(began); took > sweepWork {
			worked += took
			time.Sleep(sweepBreath)
			began = time.Now()
		}
	}
}

// worthGivingBack is how many bytes the store must have let go of for the garbage collector to be told, who would find out
// by himself within some minutes.
const worthGivingBack = 32 << 20

// giveBack returns memory to the system when the store holds less than half of most, the most that it has held since it
// did so last. It returns what most is now.
func giveBack(store *memory.Store, most int64) int64 {
	held := store.Held()
	if held > most/2 || most-held < worthGivingBack {
		return max(most, held)
	}
	debug.FreeOSMemory()
	return held
}
