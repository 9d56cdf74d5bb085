package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// unit says how a figure is formatted.
type unit int

const (
	asCount   unit = iota // a count
	inBytes               // bytes, formatted with a binary prefix
	bytesEach             // bytes per key or the like
	perSecond             // a rate
	inPercent             // percent
	inSeconds             // seconds
	inMicros              // microseconds
	asLatency             // nanoseconds, formatted in a suitable unit
	asYesOrNo             // 1 is yes
	asRatio               // a small number
)

// figure is one measured number. Every round has figures with the same names.
type figure struct {
	name  string
	value float64
	unit  unit
}

// latencies is the result of one probe. Every round has probes with the same names.
type latencies struct {
	name string
	seen *histogram
}

// measured is the result of one round of a section.
type measured struct {
	figures []figure
	probes  []latencies
	notes   []string // warnings about this round
}

func (m *measured) add(name string, value float64, u unit) {
	m.figures = append(m.figures, figure{name, value, u})
}

func (m *measured) note(format string, args ...any) {
	m.notes = append(m.notes, fmt.Sprintf(format, args...))
}

// section is a subject of a report: how it was measured, and the results of each round.
type section struct {
	title  string
	about  string
	rounds []measured
}

// report is a result in the form that is printed and saved.
type report struct {
	title    string
	command  string // the command line that produced it
	machine  []fact
	sections []section
}

// table is rows of cells under a head. The first column holds words, the others values.
type table struct {
	head []string
	rows [][]string
}

// tables returns the tables of figures and of latencies of a section, without empty ones.
func (s section) tables() (all []table) {
	figures := table{head: []string{""}}
	probes := table{head: []string{"latency", "p50", "p99", "p99.9", "p99.99", "max", "probes"}}
	for i, m := range s.rounds {
		suffix := ""
		figures.head = append(figures.head, "measured")
		if len(s.rounds) > 1 {
			suffix = fmt.Sprintf(", round %d", i+1)
			figures.head[i+1] = fmt.Sprintf("round %d", i+1)
		}
		for j, f := range m.figures {
			if i == 0 {
				figures.rows = append(figures.rows, []string{f.name})
			}
			figures.rows[j] = append(figures.rows[j], formatValue(f.value, f.unit))
		}
		for _, p := range m.probes {
			row := []string{p.name + suffix}
			for _, q := range []float64{0.5, 0.99, 0.999, 0.9999, 1} {
				row = append(row, formatValue(float64(p.seen.quantile(q)), asLatency))
			}
			probes.rows = append(probes.rows, append(row, formatValue(float64(p.seen.n), asCount)))
		}
	}
	for _, t := range []table{figures, probes} {
		if len(t.rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// notes returns the notes of all rounds.
func (s section) notes() (all []string) {
	for i, m := range s.rounds {
		for _, n := range m.notes {
			if len(s.rounds) > 1 {
				n = fmt.Sprintf("Round %d: %s", i+1, n)
			}
			all = append(all, n)
		}
	}
	return all
}

// text returns the report for a terminal, without the descriptions of how things were measured.
func (r report) text() string {
	w := new(strings.Builder)
	var machine table
	for _, f := range r.machine {
		machine.rows = append(machine.rows, []string{f.name, f.value})
	}
	fmt.Fprintf(w, "%s\n\n%s", strings.ToUpper(r.title), machine.text(false))
	for _, s := range r.sections {
		fmt.Fprintf(w, "\n%s\n", strings.ToUpper(s.title))
		for _, t := range s.tables() {
			fmt.Fprintf(w, "\n%s", t.text(true))
		}
		for _, n := range s.notes() {
			fmt.Fprintf(w, "\n* %s\n", n)
		}
	}
	return w.String()
}

// markdown returns the report for a file.
func (r report) markdown() string {
	w := new(strings.Builder)
	fmt.Fprintf(w, "# %s\n\nMade by `%s`, in the folder `bench`.\n\n| | |\n|---|---|\n", r.title, r.command)
	for _, f := range r.machine {
		fmt.Fprintf(w, "| %s | %s |\n", f.name, f.value)
	}
	for _, s := range r.sections {
		fmt.Fprintf(w, "\n## %s\n\n%s\n", s.title, s.about)
		for _, t := range s.tables() {
			fmt.Fprintf(w, "\n%s", t.markdown())
		}
		for i, n := range s.notes() {
			if i == 0 {
				w.WriteString("\n")
			}
			fmt.Fprintf(w, "- %s\n", n)
		}
	}
	return w.String()
}

// save writes the Markdown to a file. It creates the directory.
func (r report) save(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(r.markdown()), 0o644)
}

func (t table) markdown() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.head)
	b.WriteString("|---|" + strings.Repeat("---:|", len(t.head)-1) + "\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// text aligns the columns: the first to the left and, with values, the others to the right.
func (t table) text(values bool) string {
	all := t.rows
	if len(t.head) > 0 {
		all = append([][]string{t.head}, t.rows...)
	}
	var widths []int
	for _, row := range all {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range all {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 && values {
				cell = pad + cell
			} else {
				cell += pad
			}
			line += "  " + cell
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// formatValue formats a figure.
func formatValue(v float64, u unit) string {
	switch u {
	case inBytes:
		switch {
		case math.Abs(v) < 1<<20:
			return fmt.Sprintf("%.1f KiB", v/(1<<10))
		case math.Abs(v) < 1<<30:
			return fmt.Sprintf("%.1f MiB", v/(1<<20))
		}
		return fmt.Sprintf("%.2f GiB", v/(1<<30))
	case bytesEach:
		return fmt.Sprintf("%.1f B", v)
	case perSecond:
		return grouped(v) + "/s"
	case inPercent:
		return fmt.Sprintf("%.2f %%", v)
	case inSeconds:
		return fmt.Sprintf("%.1f s", v)
	case inMicros:
		return fmt.Sprintf("%.2f µs", v)
	case asLatency:
		switch d := time.Duration(v); {
		case d < time.Millisecond:
			return fmt.Sprintf("%.0f µs", v/1e3)
		case d < time.Second:
			return fmt.Sprintf("%.2f ms", v/1e6)
		}
		return fmt.Sprintf("%.2f s", v/1e9)
	case asYesOrNo:
		if v == 1 {
			return "yes"
		}
		return "no"
	case asRatio:
		return fmt.Sprintf("%.2f", v)
	}
	return grouped(v)
}

// grouped formats a whole number with commas between thousands.
func grouped(v float64) string {
	digits := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if v < 0 && digits != "0" {
		return "-" + digits
	}
	return digits
}

// spoken formats a duration in words.
func spoken(d time.Duration) string {
	return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
}
