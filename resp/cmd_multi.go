package resp

import (
	"slices"

	"cellserver/buckets"
	"cellserver/resp/command"
	"cellserver/resp/frame"
	"cellserver/resp/transport"
)

// transaction is what MULTI queues and WATCH watches until EXEC. Its room is used again for the next one.
type transaction struct {
	open    bool // MULTI has been said
	running bool // EXEC is at it
	broken  bool // a command could not be queued
	queue   []queued
	bytes   []byte                   // the words of the queue
	spans   []place                  // their places
	watches map[string]buckets.Watch // by key
	watched int64                    // bytes of their keys, and what each costs beside

	words [][]byte // the words of one command, while it is looked at
	keys  [][]byte // what EXEC needs

	// While EXEC runs:
	mark      int          // where the reply to EXEC begins
	unchanged bool         // nothing that is watched has been changed
	err       error        // why that is not known
	walked    int64        // keys that KEYS and SCAN have been asked to visit
	overflow  bool         // the replies are more than may be sent
	aside     []asideReply // what is to run when nothing is locked any more
	read      [][]byte     // keys to invalidate, because the client keeps what was said of them
}

// place is where a word is in the bytes of a transaction.
type place struct{ from, to uint32 }

// asideReply says of which command of the queue a reply is missing, and where in EXEC's.
type asideReply struct{ command, at int }

// queued is a command waiting for EXEC: its row, and how many of the words are its own.
type queued struct {
	row   *entry
	words int
}

// watchCost is about what a watched key costs beside its bytes, here and in the store.
const watchCost = 200

// keepQueue is the most room that is kept for the next transaction.
const keepQueue = 16 << 10

// add copies a command into the queue: its words are gone when the next are read.
func (t *transaction) add(c *entry, words [][]byte) {
	for _, w := range words {
		from := uint32(len(t.bytes))
		t.bytes = append(t.bytes, w...)
		t.spans = append(t.spans, place{from, uint32(len(t.bytes))})
	}
	t.queue = append(t.queue, queued{c, len(words)})
}

// size is what the queue holds in memory.
func (t *transaction) size() int64 {
	return int64(len(t.bytes)) + 8*int64(len(t.spans)) + 16*int64(len(t.queue)) + t.watched
}

// each calls visit for every queued command.
func (t *transaction) each(visit func(c *entry, words [][]byte)) {
	spans := t.spans
	for _, q := range t.queue {
		t.words = t.words[:0]
		for _, s := range spans[:q.words] {
			t.words = append(t.words, t.bytes[s.from:s.to:s.to])
		}
		spans = spans[q.words:]
		visit(q.row, t.words)
	}
}

// forget empties the transaction.
func (t *transaction) forget() {
	if t.size() > keepQueue {
		*t = transaction{}
		return
	}
	*t = transaction{queue: t.queue[:0], bytes: t.bytes[:0], spans: t.spans[:0], words: t.words[:0], keys: t.keys[:0]}
}

// queue keeps a command for EXEC instead of running it.
func (s *session) queue(c *entry, words [][]byte) {
	if len(s.tx.queue) >= int(s.bounds.MultiCommands) {
		s.reject(c, words, sprintf(errMultiFull, s.bounds.MultiCommands))
		return
	}
	if !s.tx.broken { // else it will not run
		s.tx.add(c, words)
		s.client.queued.Store(int64(len(s.tx.queue)))
	}
	if s.tx.size() > s.bounds.QueryBuffer {
		s.closeWithError(frame.ErrQueryBuffer)
		return
	}
	s.out.Bytes = append(s.out.Bytes, "+QUEUED\r\n"...)
}

// mayWalk reports whether KEYS or SCAN may visit more keys. Within a transaction, while everybody waits, they may visit
// about as many as it may have commands.
func (s *session) mayWalk() bool { return !s.tx.running || s.tx.walked <= s.bounds.MultiCommands }

// discardTransaction forgets the queue, and ends what is watched.
func (s *session) discardTransaction() {
	for _, w := range s.tx.watches {
		s.srv.watcher.Unwatch(w)
	}
	s.tx.forget()
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
		if _, twice := s.tx.watches[string(key)]; twice {
			continue
		}
		if s.tx.watches == nil {
			s.tx.watches = make(map[string]buckets.Watch)
		}
		w, err := s.srv.watcher.Watch(s.srv.ctx, s.now, key)
		if err != nil {
			s.out.Error(s.storeError(err))
			return
		}
		s.tx.watches[string(key)] = w
		s.tx.watched += int64(len(key)) + watchCost
	}
	if s.tx.size() > s.bounds.QueryBuffer {
		s.closeWithError(frame.ErrQueryBuffer)
		return
	}
	s.out.OK()
}

func unwatch(s *session, _ [][]byte) {
	if !s.tx.running { // EXEC ends what is watched anyhow, and is not through with the queue
		s.discardTransaction()
	}
	s.out.OK()
}

// exec runs what MULTI has queued, with everything locked that it needs: to everybody else it is one command. What is
// flagged aside comes last, when nothing is locked any more.
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
	s.tx.open, s.tx.running, s.tx.walked = false, true, 0 // what runs now is not queued
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
	s.invalidate(s.tx.read)
}

// execHeld runs the queue while nobody else changes what it is about, but for what is to run aside, of which it notes where
// its reply belongs. It reports whether what is watched is unchanged.
func (s *session) execHeld() (unchanged bool, err error) {
	keys := s.tx.keys[:0]
	for key := range s.tx.watches {
		keys = append(keys, []byte(key))
	}
	everything := false
	s.tx.each(func(c *entry, words [][]byte) {
		everything = everything || c.Flags&command.Keyspace != 0
		keys = c.AppendKeys(keys, words)
	})
	s.tx.keys = keys
	s.tx.mark = len(s.out.Bytes)
	defer func() { s.store, s.direct = s.srv.store, s.srv.direct }()
	if s.runHeld == nil {
		s.runHeld = s.runWith // bound once: a bound method allocates
	}
	if s.srv.atomic == nil {
		s.runWith(s.srv.store)
	} else if err := s.srv.atomic.Atomically(s.srv.ctx, s.now, keys, everything, s.runHeld); err != nil {
		s.out.Bytes = s.out.Bytes[:s.tx.mark]
		return false, err
	}
	return s.tx.unchanged, s.tx.err
}

// runWith runs the queue on a store that is held. It may be called again, and begins from the beginning then.
func (s *session) runWith(held buckets.Store) {
	s.store = held
	s.direct, _ = held.(buckets.Decider)
	s.out.Bytes, s.tx.aside, s.tx.walked = s.out.Bytes[:s.tx.mark], s.tx.aside[:0], 0
	if s.tx.unchanged, s.tx.err = s.unwatched(held); s.tx.unchanged {
		s.runQueue()
	}
}

// unwatched reports whether nothing that is watched has been changed.
func (s *session) unwatched(held buckets.Store) (bool, error) {
	if len(s.tx.watches) == 0 {
		return true, nil
	}
	watcher, ok := held.(buckets.Watcher)
	if !ok {
		watcher = s.srv.watcher
	}
	for _, w := range s.tx.watches {
		if changed, err := watcher.Changed(s.srv.ctx, s.now, w); changed || err != nil {
			return false, err
		}
	}
	return true, nil
}

// runQueue runs the queued commands, and appends their replies as one array.
func (s *session) runQueue() {
	mark, most := len(s.out.Bytes), s.bounds.Output.Hard
	s.out.Array(len(s.tx.queue))
	n := -1
	s.tx.each(func(c *entry, words [][]byte) {
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
			s.out.Bytes = s.out.Bytes[:mark] // nobody will be sent so much
		}
	})
}

// execAside runs what was left aside, and puts its replies, behind mark, where they belong.
func (s *session) execAside(mark int) {
	rest, done, n := slices.Clone(s.out.Bytes[mark:]), 0, -1
	s.out.Bytes = s.out.Bytes[:mark]
	left := s.tx.aside
	s.tx.each(func(c *entry, words [][]byte) {
		n++
		if len(left) == 0 || left[0].command != n {
			return
		}
		if at := min(left[0].at, len(rest)); at > done { // after an overflow there is no reply to put it into
			s.out.Bytes = append(s.out.Bytes, rest[done:at]...)
			done = at
		}
		left = left[1:]
		s.execute(c, words)
	})
	s.out.Bytes = append(s.out.Bytes, rest[done:]...)
}
