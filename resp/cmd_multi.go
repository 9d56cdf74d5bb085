package resp

// transaction is what MULTI queues and WATCH watches until EXEC.
type transaction struct {
	open    bool // MULTI has been said
	broken  bool // a command could not be queued
	queue   []queued
	bytes   []byte // the words of the queue
	spans   []span // their places
	watches []Watch
	watched [][]byte // their keys
}

// queued is a command waiting for EXEC: its row, and how many of the words are its own.
type queued struct {
	row   *command
	words int
}

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
	var words [][]byte
	spans := t.spans
	for _, q := range t.queue {
		words = words[:0]
		for _, s := range spans[:q.words] {
			words = append(words, t.bytes[s.from:s.to:s.to])
		}
		spans = spans[q.words:]
		visit(q.row, words)
	}
}

// queue keeps a command for EXEC instead of running it.
func (s *session) queue(c *command, words [][]byte) {
	s.tx.add(c, words)
	s.client.queued.Store(int64(len(s.tx.queue)))
	if s.tx.size() > s.limits.QueryBuffer {
		s.refuse(errQueryBuffer)
		return
	}
	s.out.status("QUEUED")
}

// discardTransaction forgets the queue, and ends what is watched.
func (s *session) discardTransaction() {
	for _, w := range s.tx.watches {
		s.srv.store.Unwatch(w)
	}
	s.tx = transaction{}
	s.client.queued.Store(-1)
}

func multi(s *session, _ [][]byte) {
	if s.tx.open {
		s.out.error(errNestedMulti)
		return
	}
	s.tx.open = true
	s.client.queued.Store(0)
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
	keys := s.tx.watched
	everything := false
	s.tx.each(func(c *command, words [][]byte) {
		everything = everything || c.flags&keyspace != 0
		keys = append(keys, c.keysOf(words)...)
	})
	tx := s.tx
	s.tx = transaction{watches: tx.watches}
	held, release := s.srv.store.Hold(s.now, keys, everything)
	defer func() {
		s.store = s.srv.store
		release()
		s.discardTransaction()
	}()
	for _, w := range tx.watches {
		if held.Changed(s.now, w) {
			s.out.nullArray()
			return
		}
	}
	s.store = held
	s.out.array(len(tx.queue))
	tx.each(func(c *command, words [][]byte) { s.execute(c, words) })
}
