package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"cellserver/cmd/cellserver/options"
	"cellserver/resp"
)

// program is a running server: its parts, in the order in which start makes them.
type program struct {
	settings   options.Settings // the settings at the start; live has the current ones
	configFile string           // for CONFIG REWRITE; "" is none

	level        *slog.LevelVar
	log          *slog.Logger
	certificates *certificates // nil when TLS is not served
	keys         keys
	live         *options.Live
	server       *resp.Server
	listeners    []listener

	signalled    <-chan struct{}  // closed by the first SIGINT or SIGTERM, and at the end of serve's context
	resetSignals func()           // makes a second signal end the process at once
	asked        chan resp.Ending // SHUTDOWN sends how the server is to end
	failed       chan error       // the error of a listener; nil only after Shutdown

	// How the program stops. wait sets these; until then, stop closes connections at once and takes no snapshot.
	served bool
	grace  time.Duration // time for replies to be sent
	save   bool          // take a snapshot

	stops []func() error // the stop functions of the started parts, in the order of starting
}

// serve runs a server with these settings until a signal, SHUTDOWN or the end of ctx stops it. The log goes to stderr
// unless the settings name a file. A second signal ends the process at once.
func serve(ctx context.Context, settings options.Settings, configFile string, stderr io.Writer) (err error) {
	p := &program{settings: settings, configFile: configFile}
	closeLog, err := p.openLog(stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()

	switch err = p.start(ctx); {
	case err == nil:
		err = p.wait()
	case errors.Is(err, errAbandoned):
		err = nil
	}
	err = errors.Join(err, p.stop())
	if p.served && err == nil {
		p.log.Info("stopped")
	}
	return err
}

// start starts the parts of the program. Each needs those before it. On an error the parts that were started are for stop
// to stop.
func (p *program) start(ctx context.Context) error {
	for _, start := range []func() error{
		p.openTLS,     // reports unreadable files before anything is locked
		p.openKeys,    // makes the store, and locks its directory if it has one; loads nothing
		p.openServer,  // puts users and options in force before anyone connects
		p.openSockets, // the kernel accepts connections from here on
		func() error { return p.catchSignals(ctx) },
		p.acceptClients, // commands get a reply that the server is loading
		p.load,          // loads the files before anything is decided
		p.keep,          // needs the loaded store; journals changes from the first decision on
	} {
		if err := start(); err != nil {
			return err
		}
	}
	for _, l := range p.listeners {
		about := append([]any{"address", l.Addr().String(), "tls", l.secure, "pid", os.Getpid()}, p.keys.describe()...)
		p.log.Info("cellserver "+version+" is ready", append(about, "try", tryIt(l, &p.settings.TLS))...)
	}
	return nil
}

// onStop makes stop call f before the functions that were registered earlier.
func (p *program) onStop(f func() error) { p.stops = append(p.stops, f) }

// stop stops the parts that were started, in the reverse order, and joins their errors.
func (p *program) stop() (err error) {
	for i := len(p.stops) - 1; i >= 0; i-- {
		err = errors.Join(err, p.stops[i]())
	}
	return err
}

// wait waits until the program is to stop, and sets how. It returns the error of a listener that failed.
func (p *program) wait() (err error) {
	ending := resp.EndAsConfigured
	select {
	case <-p.signalled:
	case ending = <-p.asked:
	case err = <-p.failed:
	}
	p.resetSignals()
	p.log.Info("stopping: no new connections, commands that were read are answered")
	settings := p.live.Settings()
	p.served, p.grace = true, settings.ShutdownTimeout
	p.save = ending == resp.EndSaving || ending == resp.EndAsConfigured && len(settings.Disk.SavePoints) > 0
	return err
}

// openLog opens the log, whose level follows p.level.
func (p *program) openLog(stderr io.Writer) (closeLog func() error, err error) {
	p.level = new(slog.LevelVar)
	p.level.Set(p.settings.LogLevel)
	out, closeLog := stderr, func() error { return nil }
	if p.settings.LogFile != "" {
		f, err := os.OpenFile(p.settings.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, fmt.Errorf("logfile: %w", err)
		}
		out, closeLog = f, f.Close
	}
	p.log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: p.level}))
	for _, name := range options.UnknownInEnvironment() {
		p.log.Warn("an environment variable sets nothing", "variable", name)
	}
	return closeLog, nil
}

// openTLS reads the certificates, if TLS is to be served.
func (p *program) openTLS() (err error) {
	p.certificates, err = openTLS(p.settings.TLS, p.log)
	return err
}

// openKeys makes the store.
func (p *program) openKeys() (err error) {
	if err := p.settings.Check(); err != nil {
		return err
	}
	if p.settings.Store.Enabled() {
		p.keys, err = openEngine(p.settings, p.log)
	} else {
		p.keys, err = openMemory(p.settings, p.log)
	}
	if err != nil {
		return err
	}
	p.onStop(func() error { return p.keys.close(p.save) })
	return nil
}

// openServer makes the server, still without listeners, and puts the users and the options in force.
func (p *program) openServer() error {
	p.live = options.NewLive(p.settings, p.apply)
	p.live.File = p.configFile
	p.asked = make(chan resp.Ending, 1)
	p.server = resp.NewServer(resp.Config{
		Store: p.keys.store(), Now: p.keys.now, Log: p.log, Version: version, Options: p.live, Bounds: p.settings.Wire,
		Memory: options.MachineMemory(), ACLFile: aclFile(p.settings.ACLFile), Disk: p.keys.disk(), Stop: p.askToStop,
	})
	if p.settings.ACLFile != "" {
		if err := p.server.LoadUsers(); err != nil {
			return fmt.Errorf("aclfile: %w", err)
		}
	}
	return p.apply(p.settings)
}

// apply puts settings in force, at the start and for CONFIG SET. After an error nothing has changed.
func (p *program) apply(s options.Settings) error {
	if err := p.keys.apply(s); err != nil {
		return err
	}
	p.level.Set(s.LogLevel)
	p.server.SetBounds(s.Wire)
	p.server.SetPassword(s.Password)
	return nil
}

// askToStop makes wait return. Only the first ending counts.
func (p *program) askToStop(e resp.Ending) {
	select {
	case p.asked <- e:
	default:
	}
}

// openSockets opens all listeners, or none.
func (p *program) openSockets() (err error) {
	if p.listeners, err = listen(p.settings); err != nil {
		return err
	}
	p.onStop(func() error {
		for _, l := range p.listeners {
			l.Close() // again, unless Shutdown came before the server accepted from it
		}
		return nil
	})
	return nil
}

// catchSignals makes the first SIGINT or SIGTERM stop the program, and SIGHUP reload the certificates. It ignores
// SIGPIPE, so that the server outlives the reader of its log.
func (p *program) catchSignals(ctx context.Context) error {
	signal.Ignore(syscall.SIGPIPE)
	endHangUps := p.certificates.readAgainOnHangUp()
	ctx, reset := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	p.signalled, p.resetSignals = ctx.Done(), reset
	p.onStop(func() error {
		reset()
		endHangUps()
		return nil
	})
	return nil
}

// acceptClients accepts connections. Until load has succeeded, commands that need the store are refused.
func (p *program) acceptClients() error {
	p.failed = make(chan error, len(p.listeners))
	for _, l := range p.listeners {
		go func() {
			if l.secure {
				p.failed <- p.server.ServeTLS(l, p.certificates.config.Load)
			} else {
				p.failed <- p.server.Serve(l)
			}
		}()
	}
	p.onStop(func() error {
		grace, cancel := context.WithTimeout(context.Background(), p.grace)
		defer cancel()
		if cut := p.server.Shutdown(grace); cut != nil && p.served {
			p.log.Warn("some replies could not be sent within shutdown-timeout")
		}
		return nil
	})
	return nil
}

// load makes the keys ready: it loads the snapshot or the journal, or waits for the engine. A signal or SHUTDOWN meanwhile makes
// it return errAbandoned, unless it completes first.
func (p *program) load() error {
	loaded := make(chan error, 1)
	go func() { loaded <- p.keys.load() }()
	select {
	case err := <-loaded:
		return err
	case e := <-p.asked:
		p.asked <- e // wait reads it if loading has completed
	case <-p.signalled:
		p.resetSignals()
	}
	p.keys.abandon()
	return <-loaded
}

// keep starts what the keys need in the background, such as writing the journal. The stop function of openKeys ends it.
func (p *program) keep() error {
	p.keys.start(p.server.Sample)
	return nil
}
