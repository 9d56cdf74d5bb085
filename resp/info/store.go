package info

import "cellserver/buckets"

// microsecond is in nanoseconds.
const microsecond = int64(1e3)

// writeStore writes what is known of the program that keeps the keys.
func writeStore(t *text, r *buckets.RemoteStats) {
	t.field("store_engine", r.Engine)
	t.field("store_topology", r.Topology)
	t.field("store_mechanism", r.Mechanism)
	t.field("store_nodes", r.Nodes)
	t.field("store_nodes_away", r.Away)
	t.field("store_round_trips", r.RoundTrips)
	t.field("store_commands", r.Commands)
	t.field("store_decisions", r.Decisions)
	t.field("store_conflicts", r.Conflicts)
	t.field("store_local_refusals", r.Local)
	t.field("store_known_keys", r.Known)
	t.field("store_failures", r.Failures)
	t.field("store_timeouts", r.Timeouts)
	t.field("store_failure_admitted", r.Admitted)
	t.field("store_failure_refused", r.Refused)
	t.field("store_clock_offset_usec", r.ClockOffset/microsecond)
	t.field("store_clock_bound_usec", r.ClockBound/microsecond)
}
