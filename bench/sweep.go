package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// sweepProbeRate is the rate of the probe during the sweep, in commands per second.
const sweepProbeRate = 1000

// fillAllowance is how long the fill may take per key if all keys are to expire at the same time.
const fillAllowance = 2500 * time.Nanosecond

func aboutSweep(p plan) string {
	return fmt.Sprintf(`%s keys are made so that all of them expire in the same moment: the quantity of each is the time that is left
until then. Nobody asks for them afterwards but a probe of %d CL.THROTTLE a second with PEEK, which takes nothing. They
are gone when expired_keys of INFO stats says so; it is read ten times a second. The processor time is also that of
answering the probe, so its share is measured before anything has expired, too. Latency counts from when a command was
due.`, grouped(float64(p.keys)), sweepProbeRate)
}

// measureSweep measures how the sweep frees expired keys that no request uses again.
func measureSweep(ctx context.Context, l *lab, p plan) (m measured, err error) {
	s, end, err := l.openCellserver(ctx)
	if err != nil {
		return m, err
	}
	defer end(&err)
	deadline := time.Now().Add(p.expireIn + time.Duration(p.keys)*fillAllowance)
	if _, err := l.runLoad(ctx, s, "filling with keys that expire", expiringLoad(p, deadline)); err != nil {
		return m, err
	}
	if least := time.Now().Add(p.expireAfter); least.After(deadline) {
		m.note("The fill was slower than foreseen: the last keys expired %s after the first.", least.Sub(deadline).Round(time.Millisecond))
		deadline = least
	}
	before, err := s.read()
	if err != nil {
		return m, err
	}

	l.progress.step("probing before anything expires")
	quietFrom, err := s.cpuNow()
	if err != nil {
		return m, err
	}
	quiet, err := probeFor(s.addr, sweepProbeRate, peeks(p.keys), func() error {
		return sleep(ctx, min(p.quiet, time.Until(deadline)-p.expireAfter/10))
	})
	if err != nil {
		return m, err
	}
	quietTo, err := s.cpuNow()
	if err != nil {
		return m, err
	}
	if err := l.pause(ctx, "waiting for the keys to expire", time.Until(deadline)); err != nil {
		return m, err
	}

	l.progress.step("keys expire")
	from, err := s.cpuNow()
	if err != nil {
		return m, err
	}
	var expired int64
	during, err := probeFor(s.addr, sweepProbeRate, peeks(p.keys), func() (err error) {
		expired, err = s.awaitExpired(ctx, p)
		return err
	})
	if err != nil {
		return m, err
	}
	to, err := s.cpuNow()
	if err != nil {
		return m, err
	}
	gone, err := s.read()
	if err != nil {
		return m, err
	}
	if err := l.pause(ctx, "letting the server rest", p.idle); err != nil {
		return m, err
	}
	rested, err := s.read()
	if err != nil {
		return m, err
	}

	m.add("keys", float64(p.keys), asCount)
	m.add("all gone after", to.at.Sub(from.at).Seconds(), inSeconds)
	m.add("server's share of one core until then", cpuShare(from, to), inPercent)
	m.add("its share before, with the same probe", cpuShare(quietFrom, quietTo), inPercent)
	m.add(waitFigure+", until they were gone", waitShare(from, to), inPercent)
	m.add("RSS before", float64(before.rss), inBytes)
	m.add("RSS when all are gone", float64(gone.rss), inBytes)
	m.add(fmt.Sprintf("RSS %s later", spoken(p.idle)), float64(rested.rss), inBytes)
	m.add("RSS of the empty server", float64(s.empty), inBytes)
	m.add("used_memory_dataset before", float64(before.used), inBytes)
	m.add(fmt.Sprintf("used_memory_dataset %s later", spoken(p.idle)), float64(rested.used), inBytes)
	m.probes = []latencies{
		{"CL.THROTTLE with PEEK while keys expire", during},
		{"the same before anything expired", quiet},
	}
	if expired < p.keys {
		m.note("The keys were not all gone after %s: %s were left.", p.patience, grouped(float64(p.keys-expired)))
	}
	return m, nil
}

// expiringLoad returns a load of keys that expire at the deadline, but not earlier than p.expireAfter after their creation.
func expiringLoad(p plan, deadline time.Time) *load {
	// The limit is a thousand per second, so the quantity is the lifetime of the key in milliseconds.
	head := newTemplate("CL.THROTTLE", "KEY", "1000000000", "1000", "1")
	head.raw[1] = '6' // number of arguments: the quantity is the sixth
	return &load{conns: loadConns, depth: loadDepth, total: p.keys,
		command: func(b []byte, i int64, _ *rand.Rand) []byte {
			var digits [20]byte
			left := max(time.Until(deadline), p.expireAfter).Milliseconds()
			quantity := strconv.AppendInt(digits[:0], left, 10)
			b = head.appendTo(b, i)
			b = append(b, '$')
			b = strconv.AppendInt(b, int64(len(quantity)), 10)
			b = append(b, "\r\n"...)
			b = append(b, quantity...)
			return append(b, "\r\n"...)
		}}
}

// awaitExpired waits until all keys have expired or p.patience is over, and returns the number of expired keys.
func (s *session) awaitExpired(ctx context.Context, p plan) (expired int64, err error) {
	over := time.Now().Add(p.patience)
	for {
		if expired, err = s.control.number("stats", "expired_keys"); err != nil {
			return expired, err
		}
		if expired >= p.keys || time.Now().After(over) {
			return expired, nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return expired, err
		}
	}
}
