package importer

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// reason says why a key is skipped.
type reason int

// The reasons, in the order of the summary.
const (
	fits reason = iota // the key is not skipped
	otherType
	noTime
	noTTL
	otherTTL
	full
	gone
	exists
	expired
	long
	reasons
)

var reasonTexts = [reasons]string{
	otherType: "are not strings",
	noTime:    "hold no time in nanoseconds",
	noTTL:     "never expire",
	otherTTL:  "expire at another time than they hold",
	full:      "were full again already",
	gone:      "expired or were deleted while they were read",
	exists:    "exist in the target",
	expired:   "have expired",
	long:      "are longer than the target's max-key-bytes",
}

// counts counts the keys so far. A key that SCAN returns twice counts twice.
type counts struct {
	Scanned, Taken int
	skipped        [reasons]int
	ahead          time.Duration // of the source's clock to ours, at least; negative if it is behind
}

func (c *counts) skip(why reason, n int) { c.skipped[why] += n }

// Skipped returns the number of keys that were skipped for any reason.
func (c *counts) Skipped() (n int) {
	for _, of := range c.skipped {
		n += of
	}
	return n
}

// clock notes the time that the source told between two readings of our clock.
func (c *counts) clock(theirs, before, after time.Time) {
	switch {
	case theirs.After(after):
		c.ahead = max(c.ahead, theirs.Sub(after))
	case theirs.Before(before):
		c.ahead = min(c.ahead, theirs.Sub(before))
	}
}

// How often progress is shown: on a terminal in one line that changes, elsewhere in lines of their own.
const (
	onTerminal = 200 * time.Millisecond
	elsewhere  = 5 * time.Second
)

// clockMatters is the difference of the clocks from which on the summary mentions it. Shorter waits are over when the
// import is.
const clockMatters = time.Second

// progress shows counts during the import.
type progress struct {
	counts
	begun, whole bool // begun: source and target have answered; whole: the import is complete

	out         io.Writer
	terminal    bool
	now         func() time.Time
	start, last time.Time
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	p := &progress{out: out, now: now, start: now(), last: now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// step shows the counts if enough time has passed. It ignores errors of writing, which do not concern the import.
func (p *progress) step() {
	now := p.now()
	every, form := elsewhere, "%s\n"
	if p.terminal {
		every, form = onTerminal, "\r%s\x1b[K"
	}
	if now.Sub(p.last) < every {
		return
	}
	p.last = now
	_, _ = fmt.Fprintf(p.out, form, fmt.Sprintf("scanned %d, taken %d, skipped %d, %.0f keys/s",
		p.Scanned, p.Taken, p.Skipped(), float64(p.Scanned)/now.Sub(p.start).Seconds()))
}

// end clears the line of a terminal.
func (p *progress) end() {
	if p.terminal && p.last != p.start {
		_, _ = io.WriteString(p.out, "\r\x1b[K")
	}
}

// summary writes how many keys were taken and skipped, and why.
func (p *progress) summary(out io.Writer, of *plan) error {
	var b strings.Builder
	took := p.now().Sub(p.start)
	fmt.Fprintf(&b, "%d keys scanned in %s", p.Scanned, took.Round(time.Millisecond))
	if !p.whole {
		b.WriteString(", which is not all of them")
	}
	b.WriteByte('\n')
	switch {
	case of.dryRun:
		fmt.Fprintf(&b, "%d would be taken\n", p.Taken)
	case !p.whole && !of.goesOn():
		fmt.Fprintf(&b, "%d would have been taken; %s was not written\n", p.Taken, of.target)
	default:
		fmt.Fprintf(&b, "%d taken into %s\n", p.Taken, of.target)
	}
	fmt.Fprintf(&b, "%d skipped\n", p.Skipped())
	for why, n := range p.skipped {
		if n > 0 {
			fmt.Fprintf(&b, "  %d %s\n", n, reasonTexts[why])
		}
	}
	if p.ahead.Abs() >= clockMatters {
		word := "ahead of"
		if p.ahead < 0 {
			word = "behind"
		}
		fmt.Fprintf(&b, "the clock of the source is %s %s the one here, and all of its times are\n",
			p.ahead.Abs().Round(time.Millisecond), word)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
