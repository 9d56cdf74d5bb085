package latency

import (
	"fmt"
	"strconv"
	"strings"
)

// The size of a graph, as Redis draws it.
const (
	graphColumns = 80
	graphRows    = 4
)

// graphMarks are the fillings of the upper end of a column, from empty to full.
const graphMarks = "_o#"

// Draw draws the spikes of an event as Redis does: a column for each, between the lowest and the highest, and
// below it how long ago that was.
func Draw(event string, list []Spike, now int64) string {
	low, high := list[0].Took, list[0].Took
	for _, l := range list {
		low, high = min(low, l.Took), max(high, l.Took)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s - high %d ms, low %d ms (all time high %d ms)\n", event, high, low, high)
	b.WriteString(strings.Repeat("-", graphColumns) + "\n")
	for from := 0; from < len(list); from += graphColumns {
		if from > 0 {
			b.WriteByte('\n')
		}
		drawRow(&b, list[from:min(from+graphColumns, len(list))], low, high, now)
	}
	return b.String()
}

// drawRow draws a row of columns and their labels.
func drawRow(b *strings.Builder, list []Spike, low, high, now int64) {
	const steps = len(graphMarks) * graphRows
	span := max(1, high-low)
	line := make([]byte, len(list))
	for row := range graphRows {
		for i, l := range list {
			step := min(int((l.Took-low)*int64(steps)/span), steps-1) - (graphRows-1-row)*len(graphMarks)
			switch {
			case step < 0:
				line[i] = ' '
			case step < len(graphMarks):
				line[i] = graphMarks[step]
			default:
				line[i] = '|'
			}
		}
		b.Write(append(line, '\n'))
	}
	b.WriteString(strings.Repeat(" ", len(list)) + "\n")
	for n, more := 0, true; more; n++ {
		more = false
		for i, l := range list {
			line[i] = ' '
			if label := elapsed(now - l.At); n < len(label) {
				line[i], more = label[n], true
			}
		}
		if more {
			b.Write(append(line, '\n'))
		}
	}
}

// elapsed is a time in its largest whole unit.
func elapsed(seconds int64) string {
	switch {
	case seconds < 60:
		return strconv.FormatInt(seconds, 10) + "s"
	case seconds < 3600:
		return strconv.FormatInt(seconds/60, 10) + "m"
	case seconds < 24*3600:
		return strconv.FormatInt(seconds/3600, 10) + "h"
	}
	return strconv.FormatInt(seconds/(24*3600), 10) + "d"
}
