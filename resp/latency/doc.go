// Package latency keeps how long commands took: the slow log, the spikes of events with their graph, and histograms. It reads
// no clock.
package latency
