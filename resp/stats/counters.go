// Package stats counts what INFO and LATENCY HISTOGRAM tell: the calls of each command, errors, keys that were found, and
// rates. Everything here may be used by several goroutines at once, but for a Tally.
package stats

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Counters are the counts of a server that belong to no single command.
type Counters struct {
	Hits    atomic.Uint64 // keys that reading commands found
	Misses  atomic.Uint64 // keys that they did not find
	Expired atomic.Uint64 // what the store counted as expired at the last reset
	Evicted atomic.Uint64 // what it counted as evicted at the last reset

	peak atomic.Uint64 // bytes

	mu     sync.Mutex
	errors map[string]uint64 // by prefix
}

// maxErrorPrefixes is the most prefixes that are counted. All of them are the server's own, so there are few.
const maxErrorPrefixes = 64

// Error counts an error reply by the first word of its text.
func (c *Counters) Error(text string) {
	prefix, _, _ := strings.Cut(text, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.errors[prefix]; known || len(c.errors) < maxErrorPrefixes {
		if c.errors == nil {
			c.errors = make(map[string]uint64)
		}
		c.errors[strings.Clone(prefix)]++
	}
}

// Errors returns how many error replies there were of each prefix.
func (c *Counters) Errors() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.errors)
}

// Peak returns the most memory that was ever in use, given that used bytes are in use now. Reset leaves it.
func (c *Counters) Peak(used uint64) uint64 {
	for peak := c.peak.Load(); ; peak = c.peak.Load() {
		if used <= peak {
			return peak
		}
		if c.peak.CompareAndSwap(peak, used) {
			return used
		}
	}
}

// Reset starts the counts again. expired and evicted are what the store counts at the moment.
func (c *Counters) Reset(expired, evicted uint64) {
	c.Expired.Store(expired)
	c.Evicted.Store(evicted)
	c.Hits.Store(0)
	c.Misses.Store(0)
	c.mu.Lock()
	c.errors = nil
	c.mu.Unlock()
}
