package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// fact is one property of the machine or the build that a result depends on.
type fact struct{ name, value string }

// describe returns the facts of a measurement that begins now, without those that cannot be determined.
func describe(l *lab) []fact {
	facts := []fact{
		{"date", time.Now().UTC().Format("2006-01-02 15:04 UTC")},
		{"processor", cpuModel()},
		{"cores", fmt.Sprint(runtime.NumCPU())},
	}
	if kb, err := kilobytes("/proc/meminfo"); err == nil {
		facts = append(facts, fact{"memory", formatValue(float64(kb["MemTotal"]<<10), inBytes)})
	}
	facts = append(facts,
		fact{"kernel", "Linux " + firstLine("/proc/sys/kernel/osrelease")},
		fact{"huge pages", firstLine("/sys/kernel/mm/transparent_hugepage/enabled")},
		fact{"load when it began", firstLine("/proc/loadavg")},
		fact{"Go", goVersion(l.server)},
		fact{"server", l.serverIs},
		fact{"pinning", l.pinning},
	)
	known := facts[:0]
	for _, f := range facts {
		if f.value != "" {
			known = append(known, f)
		}
	}
	return known
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// goVersion returns the version of Go that built the program at path.
func goVersion(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(info.GoVersion, "go")
}

// revision returns the commit that the program at path was built from, if its build information has one.
func revision(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	commit, changed := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " and changes"
		}
	}
	return commit + changed
}

// treeCommit returns the commit of the working tree at dir, and whether it has uncommitted changes.
func treeCommit(dir string) string {
	commit, err := exec.Command("git", "-C", dir, "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(commit))
	if changes, err := exec.Command("git", "-C", dir, "status", "--porcelain").Output(); err == nil && len(changes) > 0 {
		name += " and changes"
	}
	return name
}
