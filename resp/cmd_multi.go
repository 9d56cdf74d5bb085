package resp

import (
	"slices"

	"cellserver/buckets"
	"cellserver/resp/command"
	"cellserver/resp/frame"
	"cellserver/resp/transaction"
	"cellserver/resp/transport"
)

// txState is the state of a session from MULTI or WATCH to the end of EXEC.
type txState struct {
	open    bool // between MULTI and EXEC or DISCARD
	broken  bool // a command could not be queued, so EXEC fails
	running bool // in EXEC
	queue   transaction.Queue[*entry]
	watches transaction.Watches
	keys    [][]byte // what EXEC needs of the store

	// While EXEC runs:
	mark      int          // where its reply begins in the output
	db        int          // the database that was selected when it began
	unchanged bool         // no watched key has changed
	err       error        // why that is not known
	walked    int64        // keys that KEYS and SCAN have visited
	overflow  bool         // the reply is longer than the output limit
	aside     []asideReply // the commands that run when no key is locked any more
	read      [][]byte     // the keys to invalidate, because the client caches their replies
}

// asideReply is the place in the reply to EXEC at which the reply of a command of the queue is missing.
type asideReply struct{ command, at int }

// keepKeys is the most keys whose memory is kept for the next transaction.
const keepKeys = 512

// size returns about how many bytes the transaction holds in memory.
func (t *txState) size() int64 { return t.queue.Size() + t.watches.Size() }

// queue adds a command to the queue for EXEC.
func (s *session) queue(c *entry, words [][]byte) {
	if s.tx.queue.Len() >= int(s.bounds.MultiCommands) {
		s.reject(c, words, sprintf(errMultiFull, s.bounds.MultiCommands))
		return
	}
	if !s.tx.broken { // otherwise EXEC runs none
		s.tx.queue.Add(c, words)
		s.client.queued.Store(int64(s.tx.queue.Len()))
	}
	if s.tx.size() > s.bounds.QueryBuffer {
		s.closeWithError(frame.ErrQueryBuffer)
		return
	}
	s.out.Bytes = append(s.out.Bytes, "+QUEUED\r\n"...)
}

// mayWalk reports whether KEYS or SCAN may visit more keys. In a transaction, for which all other clients wait, they may
// visit about as many keys as it may have commands.
func (s *session) mayWalk() bool { return !s.tx.running || s.tx.walked <= s.bounds.MultiCommands }

// discardTransaction empties the queue and ends the watches.
func (s *session) discardTransaction() {
	s.tx.watches.Clear(s.srv.watcher)
	s.tx.queue.Clear()
	keys := s.tx.keys[:0]
	if cap(keys) > keepKeys {
		keys = nil
	}
	s.tx = txState{queue: s.tx.queue, keys: keys}
	s.client.queued.Store(-1)
}

func multi(s *session, _ [][]byte) {
	if s.tx.open {
		s.out.Error(errNestedMulti)
		return
	}
	s.tx.open = true
	s.client.queued.Store(0)
	s.out.OK()
}

func discard(s *session, _ [][]byte) {
	if !s.tx.open {
		s.out.Errorf(errNoMulti, "DISCARD")
		return
	}
	s.discardTransaction()
	s.out.OK()
}

func watch(s *session, words [][]byte) {
	if s.tx.open {
		s.out.Error(errWatchInMulti)
		return
	}
	if s.srv.watcher == nil {
		s.out.Error(errNoWatch)
		return
	}
	for _, key := range words[1:] {
		if fault := s.bounds.keyFault(key); fault != "" {
			s.out.Error(fault)
			return
		}
	}
	for _, key := range words[1:] {
		if err := s.tx.watches.Add(s.srv.ctx, s.store.(buckets.Watcher), s.now, s.database(), key); err != nil {
			s.out.Error(s.storeError(err))
			return
		}
	}
	if s.tx.size() > s.bounds.QueryBuffer {
		s.closeWithError(frame.ErrQueryBuffer)
		return
	}
	s.out.OK()
}

func unwatch(s *session, _ [][]byte) {
	if !s.tx.running { // EXEC ends the watches itself, and still reads the queue
		s.discardTransaction()
	}
	s.out.OK()
}

// exec runs the queue while its keys are locked, so that to other clients it is one command. Commands that are flagged Aside
// run last, when no key is locked any more.
func exec(s *session, _ [][]byte) {
	switch {
	case !s.tx.open:
		s.out.Errorf(errNoMulti, "EXEC")
		return
	case s.tx.broken:
		s.discardTransaction()
		s.out.Error(errExecAborted)
		return
	}
	defer s.discardTransaction()
	s.tx.open, s.tx.running, s.tx.walked = false, true, 0 // the commands that run now are not queued again
	mark := len(s.out.Bytes)
	if unchanged, err := s.execHeld(); err != nil {
		s.out.Error(s.storeError(err))
		return
	} else if !unchanged {
		s.out.NullArray()
		return
	}
	if len(s.tx.aside) > 0 {
		s.execAside(mark)
	}
	if most := s.bounds.Output.Hard; s.tx.overflow || most > 0 && int64(len(s.out.Bytes)-mark) > most {
		s.out.Bytes = s.out.Bytes[:mark]
		s.closeWithError(transport.ErrOutputLimit)
		return
	}
	s.invalidate(append(s.tx.read, s.scriptRead...))
}

// execHeld runs the queue while its keys are locked, and notes the commands that are flagged Aside. It reports whether no
// watched key has changed; if one has, it runs nothing.
func (s *session) execHeld() (unchanged bool, err error) {
	keys := s.tx.watches.AppendKeys(s.tx.keys[:0])
	everything := false
	s.tx.queue.Each(func(c *entry, words [][]byte) {
		everything = everything || s.needsEverything(c, words)
		keys = c.AppendKeys(keys, words)
	})
	s.tx.keys = keys
	s.tx.mark = len(s.out.Bytes)
	s.tx.db = s.database()
	defer func() { s.useDatabaseOf(s.srv.store, s.database()) }() // one whose keys are not held
	if s.runHeld == nil {
		s.runHeld = s.runWith // bound once, because binding a method allocates
	}
	if atomic, ok := s.store.(buckets.Atomic); !ok {
		s.runWith(s.store)
	} else if err := atomic.Atomically(s.srv.ctx, s.now, keys, everything, s.runHeld); err != nil {
		s.out.Bytes = s.out.Bytes[:s.tx.mark]
		s.useDatabaseOf(s.srv.store, s.tx.db) // the queue may have run, and be undone
		return false, err
	}
	return s.tx.unchanged, s.tx.err
}

// runWith runs the queue on a store whose keys are held. A store may call it several times, and each call starts again.
func (s *session) runWith(held buckets.Store) {
	s.useStore(held, s.tx.db)
	s.out.Bytes, s.tx.aside, s.tx.walked = s.out.Bytes[:s.tx.mark], s.tx.aside[:0], 0
	if s.tx.unchanged, s.tx.err = s.unwatched(held); s.tx.unchanged {
		s.runQueue()
	}
}

// unwatched reports whether no watched key has changed.
func (s *session) unwatched(held buckets.Store) (bool, error) {
	watcher, ok := held.(buckets.Watcher)
	if !ok {
		watcher = s.srv.watcher
	}
	changed, err := s.tx.watches.Changed(s.srv.ctx, watcher, s.now)
	return !changed && err == nil, err
}

// runQueue runs the queue and appends the replies as one array.
func (s *session) runQueue() {
	mark, most := len(s.out.Bytes), s.bounds.Output.Hard
	s.out.Array(s.tx.queue.Len())
	n := -1
	s.tx.queue.Each(func(c *entry, words [][]byte) {
		n++
		// The rules may have changed since it was queued.
		if !s.unrestricted && s.user != nil {
			if why := s.revoked(c, words); why != "" {
				s.reject(c, words, why)
				return
			}
		}
		if c.Flags&command.Aside != 0 {
			s.tx.aside = append(s.tx.aside, asideReply{n, len(s.out.Bytes) - mark})
			return
		}
		s.execute(c, words)
		if s.caching && c.isCacheable() {
			s.tx.read = c.AppendKeys(s.tx.read, words)
		}
		if s.tx.overflow = s.tx.overflow || most > 0 && int64(len(s.out.Bytes)-mark) > most; s.tx.overflow {
			s.out.Bytes = s.out.Bytes[:mark] // the connection is closed instead
		}
	})
}

// execAside runs the commands that are flagged Aside, and inserts their replies into that of EXEC, which begins at mark.
func (s *session) execAside(mark int) {
	rest, done, n := slices.Clone(s.out.Bytes[mark:]), 0, -1
	s.out.Bytes = s.out.Bytes[:mark]
	left := s.tx.aside
	s.tx.queue.Each(func(c *entry, words [][]byte) {
		n++
		if len(left) == 0 || left[0].command != n {
			return
		}
		if at := min(left[0].at, len(rest)); at > done { // after an overflow the reply is empty
			s.out.Bytes = append(s.out.Bytes, rest[done:at]...)
			done = at
		}
		left = left[1:]
		s.execute(c, words)
	})
	s.out.Bytes = append(s.out.Bytes, rest[done:]...)
}
