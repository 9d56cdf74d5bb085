package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc/PID/stat: hundredths of a second on every platform on which Go supports
// Linux.
const clockTick = 10 * time.Millisecond

// cpuTime returns the processor time, user and system, of a process with its threads, in steps of clockTick.
func cpuTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(data))
}

// parseStat returns the sum of utime and stime, the fields 14 and 15. Field 2 is the name of the program, which may contain
// any character.
func parseStat(stat string) (time.Duration, error) {
	_, after, _ := strings.Cut(stat[max(strings.LastIndexByte(stat, ')'), 0):], " ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat: cannot read %q", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, err
}

// coreTime returns the time that a core has been busy since the machine started, in steps of clockTick.
func coreTime(cpu int) (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseCore(string(data), cpu)
}

// parseCore reads the line of a core in /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, and the guest
// times, which user and nice include.
func parseCore(stat string, cpu int) (busy time.Duration, err error) {
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		if len(f) < 9 || f[0] != fmt.Sprintf("cpu%d", cpu) {
			continue
		}
		for i, text := range f[1:9] {
			ticks, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0, err
			}
			if i != 3 && i != 4 {
				busy += time.Duration(ticks) * clockTick
			}
		}
		return busy, nil
	}
	return 0, fmt.Errorf("/proc/stat says nothing of core %d", cpu)
}

// waitTime returns how long the threads of a process were runnable but did not run, because another process or another of
// these threads had the core. It leaves out threads that have ended.
func waitTime(pid int) (waited time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, path := range threads {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		if f := strings.Fields(string(data)); len(f) == 3 {
			ns, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, err
			}
			waited += time.Duration(ns)
		}
	}
	return waited, err
}

// residentNow returns the resident bytes of a process and their highest value so far. It is cheap, but the count may be some
// pages old.
func residentNow(pid int) (now, most int64, err error) {
	kb, err := kilobytes(fmt.Sprintf("/proc/%d/status", pid))
	return kb["VmRSS"] << 10, kb["VmHWM"] << 10, err
}

// resident returns the resident bytes of a process, and how many of them are in huge pages. The kernel walks the page tables
// of the process, which cannot map memory for some milliseconds meanwhile: do not call it while latency is measured.
func resident(pid int) (rss, huge int64, err error) {
	kb, err := kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	return kb["Rss"] << 10, kb["AnonHugePages"] << 10, err
}

// kilobytes parses the lines "Name:  number kB" of a file such as /proc/meminfo.
func kilobytes(path string) (map[string]int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	values := map[string]int64{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "kB" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				values[strings.TrimSuffix(f[0], ":")] = n
			}
		}
	}
	return values, nil
}

// allowedCPUs returns the processors that this process may run on.
func allowedCPUs() ([]int, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return parseCPUs(strings.TrimSpace(list))
		}
	}
	return nil, fmt.Errorf("/proc/self/status says nothing of processors")
}

// parseCPUs parses a list such as "0-3,8".
func parseCPUs(list string) (cpus []int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		if err != nil {
			return nil, err
		}
		last, err := strconv.Atoi(to)
		if err != nil {
			return nil, err
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
