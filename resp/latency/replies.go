package latency

import (
	"fmt"
	"strings"
	"time"
)

const second = int64(time.Second)

// Reply is that part of a frame.Reply that the replies here consist of.
type Reply interface {
	Array(n int)
	Map(n int)
	Int(n int64)
	BulkString(s string)
	Strings(list []string)
}

// Abridge returns the words of a command as an entry of the slow log has them.
func Abridge(words [][]byte) (list []string) {
	for i, w := range words {
		switch {
		case i == MaxWords-1 && len(words) > MaxWords:
			return append(list, fmt.Sprintf("... (%d more arguments)", len(words)-i))
		case len(w) > MaxBytes:
			list = append(list, fmt.Sprintf("%s... (%d more bytes)", w[:MaxBytes], len(w)-MaxBytes))
		default:
			list = append(list, string(w))
		}
	}
	return list
}

// Append appends the reply to SLOWLOG GET: the newest entries, n at most, or all if n is negative.
func (l *Slowlog) Append(out Reply, n int64) {
	list := l.Latest(n)
	out.Array(len(list))
	for _, e := range list {
		out.Array(6)
		out.Int(e.ID)
		out.Int(e.At / second)
		out.Int(e.Took.Microseconds())
		out.Strings(e.Words)
		out.BulkString(e.Client)
		out.BulkString(e.Name)
	}
}

// AppendLatest appends the reply to LATENCY LATEST: of each event the time and the duration of the last spike, and the longest
// duration.
func (l *Events) AppendLatest(out Reply) {
	names := l.Names()
	out.Array(len(names))
	for _, name := range names {
		list := l.Of(name)
		last := Spike{}
		if len(list) > 0 {
			last = list[len(list)-1]
		}
		out.Array(4)
		out.BulkString(name)
		out.Int(last.At)
		out.Int(last.Took)
		out.Int(Worst(list))
	}
}

// AppendHistory appends the reply to LATENCY HISTORY: the spikes of an event.
func (l *Events) AppendHistory(out Reply, event string) {
	list := l.Of(event)
	out.Array(len(list))
	for _, spike := range list {
		out.Array(2)
		out.Int(spike.At)
		out.Int(spike.Took)
	}
}

// Doctor returns the text of LATENCY DOCTOR: one line for each event.
func (l *Events) Doctor() string {
	var b strings.Builder
	for _, name := range l.Names() {
		list := l.Of(name)
		fmt.Fprintf(&b, "%s: %d latency spikes, the worst of %d ms.\n", name, len(list), Worst(list))
	}
	if b.Len() == 0 {
		b.WriteString("Dave, no latency spike was observed during the lifetime of this instance, not in the slightest bit. " +
			"I honestly think you ought to sit down calmly, take a stress pill, and think things over.\n")
	}
	return b.String()
}

// DoctorDisabled is the text of LATENCY DOCTOR while spikes are not recorded.
const DoctorDisabled = "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this instance. " +
	"You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it.\n"

// AppendCumulative appends what LATENCY HISTOGRAM tells of a command: its name, its calls, and their cumulative distribution. h
// may be nil.
func (h *Histogram) AppendCumulative(out Reply, name string) {
	var steps []Step
	if h != nil {
		steps = h.Steps()
	}
	calls := uint64(0)
	if len(steps) > 0 {
		calls = steps[len(steps)-1].Calls
	}
	out.BulkString(name)
	out.Map(2)
	out.BulkString("calls")
	out.Int(int64(calls))
	out.BulkString("histogram_usec")
	out.Map(len(steps))
	for _, step := range steps {
		out.Int(step.Micros)
		out.Int(int64(step.Calls))
	}
}
