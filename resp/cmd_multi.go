package resp

// transaction is what MULTI queues and WATCH watches until EXEC. Its room is used again for the next one.
type transaction struct {
	open    bool // MULTI has been said
	running bool // EXEC is at it
	broken  bool // a command could not be queued
	queue   []queued
	bytes   []byte           // the words of the queue
	spans   []span           // their places
	watches map[string]Watch // by key
	watched int64            // bytes of their keys, and what each costs beside

	words [][]byte // the words of one command, while it is looked at
	keys  [][]byte // what EXEC needs
}

// queued is a command waiting for EXEC: its row, and how many of the words are its own.
type queued struct {
	row   *command
	words int
}

// watchCost is about what a watched key costs beside its bytes, here and in the store.
const watchCost = 200

// keepQueue is the most room that is kept for the next transaction.
const keepQueue = 16 << 10

// add copies a command into the queue: its words are gone when the next are read.
func (t *transaction) add(c *command, words [][]byte) {
	for _, w := range words {
		from := uint32(len(t.bytes))
		t.bytes = append(t.bytes, w...)
		t.spans = append(t.spans, span{from, uint32(len(t.bytes))})
	}
	t.queue = append(t.queue, queued{c, len(words)})
}

// size is what the queue holds in memory.
func (t *transaction) size() int64 {
	return int64(len(t.bytes)) + 8*int64(len(t.spans)) + 16*int64(len(t.queue)) + t.watched
}

// each calls visit for every queued command.
func (t *transaction) each(visit func(c *command, words [][]byte)) {
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
func (s *session) queue(c *command, words [][]byte) {
	s.tx.add(c, words)
	if s.tx.size() > s.limits.QueryBuffer {
		s.refuse(errQueryBuffer)
		return
	}
	s.out.b = append(s.out.b, "+QUEUED\r\n"...)
}

// discardTransaction forgets the queue, and ends what is watched.
func (s *session) discardTransaction() {
	for _, w := range s.tx.watches {
		s.srv.store.Unwatch(w)
	}
	s.tx.forget()
}

func multi(s *session, _ [][]byte) {
	if s.tx.open {
		s.out.error(errNestedMulti)
		return
	}
	s.tx.open = true
	s.out.ok()
}

func discard(s *session, _ [][]byte) {
	if !s.tx.open {
		s.out.errorf(errNoMulti, "DISCARD")
		return
	}
	s.discardTransaction()
	s.out.ok()
}

func watch(s *session, words [][]byte) {
	if s.tx.open {
		s.out.error(errWatchInMulti)
		return
	}
	for _, key := range words[1:] {
		if fault := s.limits.keyFault(key); fault != "" {
			s.out.error(fault)
			return
		}
	}
	for _, key := range words[1:] {
		if _, twice := s.tx.watches[string(key)]; twice {
			continue
		}
		if s.tx.watches == nil {
			s.tx.watches = make(map[string]Watch)
		}
		s.tx.watches[string(key)] = s.srv.store.Watch(s.now, key)
		s.tx.watched += int64(len(key)) + watchCost
	}
	if s.tx.size() > s.limits.QueryBuffer {
		s.refuse(errQueryBuffer)
		return
	}
	s.out.ok()
}

func unwatch(s *session, _ [][]byte) {
	if !s.tx.running { // EXEC ends what is watched anyhow, and is not through with the queue
		s.discardTransaction()
	}
	s.out.ok()
}

// exec runs what MULTI has queued, with everything locked that it needs: to everybody else it is one command.
func exec(s *session, _ [][]byte) {
	switch {
	case !s.tx.open:
		s.out.errorf(errNoMulti, "EXEC")
		return
	case s.tx.broken:
		s.discardTransaction()
		s.out.error(errExecAborted)
		return
	}
	keys := s.tx.keys[:0]
	for key := range s.tx.watches {
		keys = append(keys, []byte(key))
	}
	everything := false
	s.tx.each(func(c *command, words [][]byte) {
		everything = everything || c.flags&keyspace != 0
		keys = c.appendKeys(keys, words)
	})
	s.tx.keys = keys
	s.tx.open, s.tx.running = false, true // what runs now is not queued
	held, release := s.srv.store.Hold(s.now, keys, everything)
	defer func() {
		s.store = s.srv.store
		release()
		s.discardTransaction()
	}()
	for _, w := range s.tx.watches {
		if held.Changed(s.now, w) {
			s.out.nullArray()
			return
		}
	}
	s.store = held
	mark, most := len(s.out.b), s.limits.Output.Hard
	s.out.array(len(s.tx.queue))
	overflow := false
	s.tx.each(func(c *command, words [][]byte) {
		// The rules may have changed since it was queued.
		if why := ""; !s.free && s.user != nil {
			if why = s.forbidden(c, words); why != "" {
				s.reject(c, why)
				return
			}
		}
		s.execute(c, words)
		if overflow = overflow || most > 0 && int64(len(s.out.b)-mark) > most; overflow {
			s.out.b = s.out.b[:mark] // nobody will be sent so much
		}
	})
	if overflow {
		s.refuse(errOutputLimit)
	}
}
