package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// floodPeriod is the period of the flood's limit, of 100 requests, in seconds.
const floodPeriod = 3600

func aboutFlood(p plan) string {
	return fmt.Sprintf(`The server has maxmemory %s and the default policy, evict-soonest. First a victim's bucket of 100 requests per
hour is emptied, so that it is full again after an hour. Then %s other keys ask for one request each under the same limit:
each is full again after 36 seconds. RSS is read twice a second, and the server is pinged ten times a second, where latency
counts from when the PING was due. In the end the victim asks for all 100 again, without taking them: a server that had
forgotten it would admit that.`, p.floodMemory, grouped(float64(p.flood)))
}

// measureFlood measures how much memory a server with maxmemory uses, and which keys it evicts, in a flood of distinct
// keys.
func measureFlood(ctx context.Context, l *lab, p plan) (m measured, err error) {
	s, end, err := l.openCellserver(ctx, "--maxmemory", p.floodMemory)
	if err != nil {
		return m, err
	}
	defer end(&err)
	victim := func(more ...string) (reply []int64, err error) {
		args := []string{"CL.THROTTLE", "victim", "99", "100", strconv.Itoa(floodPeriod), "100"}
		texts, err := s.control.do(append(args, more...)...)
		for _, t := range texts {
			n, bad := strconv.ParseInt(t, 10, 64)
			if bad != nil {
				return nil, bad
			}
			reply = append(reply, n)
		}
		if err == nil && len(reply) != 5 {
			err = fmt.Errorf("CL.THROTTLE answered %q", texts)
		}
		return reply, err
	}
	emptied := time.Now()
	for _, want := range []int64{0, 1} {
		reply, err := victim()
		if err != nil {
			return m, err
		}
		if reply[0] != want {
			return m, fmt.Errorf("the victim's requests before the flood were not admitted once and then refused")
		}
	}

	from, err := s.cpuNow()
	if err != nil {
		return m, err
	}
	var flooded loadResult
	highest := watchResident(s.pid)
	defer highest()
	pinged, err := probeFor(s.addr, 10, pings, func() (err error) {
		flooded, err = l.runLoad(ctx, s, "flooding", keyLoad(p.flood, "CL.THROTTLE", "KEY", "99", "100", strconv.Itoa(floodPeriod), "1"))
		return err
	})
	if err != nil {
		return m, err
	}
	to, err := s.cpuNow()
	if err != nil {
		return m, err
	}
	_, most, err := residentNow(s.pid)
	if err != nil {
		return m, err
	}
	now, err := victim("PEEK")
	if err != nil {
		return m, err
	}
	regained := int64(time.Since(emptied) / (floodPeriod * time.Second / 100))
	stats := map[string]int64{}
	for _, field := range []string{"evicted_keys", "expired_keys", "used_memory_dataset", "used_memory_dataset_peak"} {
		section := "stats"
		if field[0] == 'u' {
			section = "memory"
		}
		if stats[field], err = s.control.number(section, field); err != nil {
			return m, err
		}
	}
	keys, err := s.control.size()
	if err != nil {
		return m, err
	}

	m.add("keys of the flood", float64(flooded.commands), asCount)
	m.add("flood", flooded.rate(), perSecond)
	m.add("server's processor time per key", (to.cpu-from.cpu).Seconds()*1e6/float64(flooded.commands), inMicros)
	m.add(waitFigure, waitShare(from, to), inPercent)
	m.add("highest RSS, of readings", float64(highest()), inBytes)
	m.add("highest RSS, as the kernel remembers", float64(most), inBytes)
	m.add("highest used_memory_dataset", float64(stats["used_memory_dataset_peak"]), inBytes)
	m.add("evicted_keys", float64(stats["evicted_keys"]), asCount)
	m.add("expired_keys", float64(stats["expired_keys"]), asCount)
	m.add("keys left", float64(keys), asCount)
	m.add("used_memory_dataset per key that is left", float64(stats["used_memory_dataset"])/float64(max(keys, 1)), bytesEach)
	m.add("the victim is still refused", float64(now[0]), asYesOrNo)
	m.add("requests that it has left", float64(now[2]), asCount)
	m.add("requests that time has given back to it", float64(regained), asCount)
	m.probes = []latencies{{"PING during the flood", pinged}}
	if flooded.limited > 0 {
		m.note("%d requests of the flood were refused.", flooded.limited)
	}
	return m, nil
}

// watchResident reads the resident bytes of a process twice a second until stop is called. stop returns the highest value,
// and may be called again.
func watchResident(pid int) (stop func() int64) {
	quit, ended := make(chan struct{}), make(chan int64, 1)
	go func() {
		var most int64
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			if now, _, err := residentNow(pid); err == nil {
				most = max(most, now)
			}
			select {
			case <-quit:
				ended <- most
				return
			case <-tick.C:
			}
		}
	}()
	return sync.OnceValue(func() int64 { close(quit); return <-ended })
}
