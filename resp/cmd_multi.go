package resp

// transaction is what MULTI queues and WATCH watches until EXEC. Its room is used again for the next one.
type transaction struct {
	open    bool // MULTI has been said
	broken  bool // a command could not be queued
	queue   []queued
	bytes   []byte // the words of the queue
	spans   []span // their places
	watches []Watch
	watched [][]byte // their keys

	words [][]byte // the words of one command, while it is looked at
	keys  [][]byte // what EXEC needs
}

// queued is a command waiting for EXEC: its row, and how many of the words are its own.
type queued struct {
	row   *command
	words int
}

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
	return int64(len(t.bytes)) + 8*int64(len(t.spans)) + 16*int64(len(t.queue))
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
		s.tx.watches = append(s.tx.watches, s.srv.store.Watch(s.now, key))
		s.tx.watched = append(s.tx.watched, append([]byte(nil), key...))
	}
	s.out.ok()
}

func unwatch(s *session, _ [][]byte) {
	if !s.tx.open { // inside MULTI it is queued, and EXEC ends what is watched anyhow
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
	keys := append(s.tx.keys[:0], s.tx.watched...)
	everything := false
	s.tx.each(func(c *command, words [][]byte) {
		everything = everything || c.flags&keyspace != 0
		keys = c.appendKeys(keys, words)
	})
	s.tx.keys = keys
	s.tx.open = false // what runs now is not queued
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
	s.out.array(len(s.tx.queue))
	s.tx.each(func(c *command, words [][]byte) { s.execute(c, words) })
}
