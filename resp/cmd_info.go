package resp

import (
	"runtime/debug"

	"cellserver/buckets"
	"cellserver/resp/command"
	"cellserver/resp/info"
	"cellserver/resp/keyspace"
	"cellserver/resp/stats"
)

// infoCommand is INFO [section ...].
func infoCommand(s *session, words [][]byte) { s.out.Text(info.Text(words[1:], infoSource{s})) }

// infoSource gathers what INFO tells.
type infoSource struct{ *session }

func (s infoSource) Server() info.Server {
	return info.Server{
		RedisVersion: redisVersion, Name: serverName, Version: s.srv.version, RunID: s.srv.runID, Port: s.srv.transport.Port(),
		Now: s.now, Started: s.srv.started, Module: command.ModuleName, ModuleVersion: moduleVersion,
	}
}

func (s infoSource) Clients() info.Clients { return s.srv.bufferUse() }

// bufferUse returns what the connections hold in their buffers.
func (s *Server) bufferUse() info.Clients {
	all := info.Clients{Max: s.bounds.Load().MaxClients}
	for _, c := range s.clients() {
		in, out := c.query.Load(), c.unread()
		all.Connected++
		all.Bytes += in + out
		all.LongestIn, all.LongestOut = max(all.LongestIn, in), max(all.LongestOut, out)
		c.mu.Lock()
		all.Tracking += int(boolInt(c.tracking))
		c.mu.Unlock()
	}
	return all
}

func (s infoSource) Memory() info.Memory {
	heap := info.ReadHeap()
	return info.Memory{
		Heap: heap, Peak: s.srv.stats.Peak(heap.Allocated), Startup: s.srv.startup,
		Keys: keyspace.Stats(s.store), Clients: s.srv.bufferUse().Bytes, System: uint64(max(0, s.srv.memory)),
		Scripts: s.srv.scripts.Count(),
	}
}

func (s infoSource) Persistence() info.Persistence {
	return info.Persistence{
		Disk: s.srv.disk.Status(), Loading: s.srv.disk.Loading(), Changes: s.store.Stats().Changes, Now: s.now,
	}
}

func (s infoSource) Stats() info.Stats {
	net := &s.srv.transport.Counts
	return info.Stats{
		Counters: &s.srv.stats, Rate: s.srv.rates.Mean(), Keys: s.store.Stats(), Calls: s.srv.commands.calls(),
		Accepted: net.Accepted.Load(), Rejected: net.Rejected.Load(), Dropped: net.Dropped.Load(),
		Read: net.Read.Load(), Written: net.Written.Load(), UnknownScripts: s.srv.scripts.unknown.Load(),
	}
}

func (s infoSource) EachCommand(visit func(name string, c *stats.Command)) {
	s.srv.commands.each(func(c *entry) { visit(c.FullName(), c.Command) })
}

func (s infoSource) Store() *buckets.RemoteStats {
	if s.srv.remote == nil {
		return nil
	}
	seen := s.srv.remote.Remote()
	return &seen
}

// Keyspace counts no keys of another program, which would take long.
func (s infoSource) Keyspace() (all []info.Keyspace) {
	if s.srv.remote != nil {
		return nil
	}
	keyspace.EachUsed(s.store, func(n int, store buckets.Store) {
		keys, err := store.Len(s.srv.ctx, s.now)
		if err != nil || keys == 0 {
			return
		}
		of := store.Stats()
		k := info.Keyspace{Database: n, Keys: keys, Lasting: of.Lasting, Index: of.Index}
		if sampler, ok := store.(buckets.TTLSampler); ok {
			k.MeanTTL = sampler.MeanTTL(s.now)
		}
		all = append(all, k)
	})
	return all
}

func memoryStats(s *session, _ [][]byte) {
	source := infoSource{s}
	m := source.Memory()
	m.AppendStats(&s.out, source.Keyspace())
}

func memoryDoctor(s *session, _ [][]byte) { s.out.Text(info.ReadHeap().Doctor()) }

// memoryPurge gives unused memory back to the system.
func memoryPurge(s *session, _ [][]byte) {
	debug.FreeOSMemory()
	s.out.OK()
}
