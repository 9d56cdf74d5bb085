package resp

import (
	"cellserver/buckets"
	"cellserver/internal/acl"
	"cellserver/internal/glob"
	"cellserver/resp/command"
	"cellserver/resp/frame"
	"cellserver/resp/script"
)

// eval is EVAL, EVAL_RO, EVALSHA and EVALSHA_RO: <script or its SHA-1> numkeys [key ...] [arg ...].
func eval(s *session, words [][]byte) {
	c := s.last
	if c.Flags&command.ByText == 0 && len(words[1]) != 2*len(script.Digest{}) {
		s.out.Error(errNoScript)
		return
	}
	n, ok := frame.ParseInt(words[2])
	switch {
	case !ok:
		s.out.Error(errNotInteger)
		return
	case n > int64(len(words)-3):
		s.out.Error(errManyKeys)
		return
	case n < 0:
		s.out.Error(errNegativeKeys)
		return
	}
	keys, args := words[3:3+n], words[3+n:]
	readOnly := c.Flags&command.ReadOnly != 0
	p, d := s.programAt(c, words)
	switch {
	case p.Known != nil && p.Known.Everything:
		s.runReset(p.Known, keys, readOnly)
	case p.Known != nil:
		s.runKnown(p.Known, keys, args, readOnly)
	case p.Wrapper != nil:
		s.runWrapper(p.Wrapper, keys, args, readOnly)
	case c.Flags&command.ByText != 0:
		s.unknownScript(d)
	default:
		s.out.Error(errNoScript)
	}
}

// unknownScript answers that a script is not known, and logs it: limits of the client may not work.
func (s *session) unknownScript(d script.Digest) {
	s.client.mu.Lock()
	name := s.client.name
	s.client.mu.Unlock()
	s.srv.scripts.unknown.Add(1)
	s.srv.scripts.warnings.Add("sha1", d.String(), "client", s.client.addr, "name", name)
	s.out.Errorf(errUnknownScript, d)
}

// runKnown runs a known script.
func (s *session) runKnown(k *script.Script, keys, args [][]byte, readOnly bool) {
	r := &s.scriptRun
	r.ReadOnly, r.Refusal = readOnly, s.refusal
	r.Begin(k, keys, args)
	defer r.End()
	for _, key := range r.Keys() {
		if fault := s.bounds.keyFault(key); fault != "" {
			s.out.Error(fault)
			return
		}
	}
	if len(r.Keys()) == 0 {
		_, _ = r.Update(s.now, nil) // it has no error but its reply
	} else if !s.update(r.Keys(), r) {
		return
	}
	s.uncommitted = s.uncommitted || r.Changed
	r.AppendReply(&s.out)
}

// runReset runs the script that deletes all keys that match the pattern KEYS[1]: while it looks for them and deletes them, nobody
// else uses the store.
func (s *session) runReset(k *script.Script, keys [][]byte, readOnly bool) {
	if len(keys) == 0 {
		s.out.Error(script.ErrArguments + script.Place(k.Digest, 1))
		return
	}
	run := func(held buckets.Store) {
		before := s.store
		defer func() { s.store = before }()
		s.store = held
		s.deleteMatching(k, keys[0], readOnly)
	}
	atomic, ok := s.store.(buckets.Atomic)
	if !ok || s.tx.running || s.srv.remote != nil { // a transaction holds everything, and nobody can hold all keys of another program
		run(s.store)
		return
	}
	mark := len(s.out.Bytes)
	err := atomic.Atomically(s.srv.ctx, s.now, nil, true, func(held buckets.Store) {
		s.out.Bytes = s.out.Bytes[:mark] // it may be called again
		run(held)
	})
	if err != nil {
		s.out.Bytes = s.out.Bytes[:mark]
		s.out.Error(s.storeError(err))
	}
}

// deleteMatching deletes the keys that match a pattern, and answers how many there were.
func (s *session) deleteMatching(k *script.Script, pattern []byte, readOnly bool) {
	var found [][]byte
	forbidden := false
	for cursor := uint64(0); ; {
		if !s.mayWalk() {
			s.out.Errorf(errMultiWalk, s.bounds.MultiCommands)
			return
		}
		var err error
		visited := int64(0)
		cursor, err = s.store.Scan(s.srv.ctx, s.now, cursor, keysPerScan, func(key []byte, _ buckets.Kind) {
			visited++
			if glob.MatchBounded(pattern, key) {
				found = append(found, append([]byte(nil), key...))
				forbidden = forbidden || !s.unrestricted && !s.user.AllowsKey(key, false, true)
			}
		})
		if err != nil {
			s.out.Error(s.storeError(err))
			return
		}
		if s.tx.walked += max(keysPerScan, visited); cursor == 0 {
			break
		}
	}
	fault := ""
	switch {
	case len(found) == 0:
		s.out.Int(0)
		return
	case forbidden:
		fault = errScriptKey
		s.logDenial(acl.ReasonKey, string(pattern[:min(len(pattern), 64)]), s.user.Name())
	case readOnly:
		fault = script.ErrReadOnly
	case s.refusal != "":
		fault = s.refusal
	}
	if fault != "" {
		s.out.Error(fault + script.Place(k.Digest, 5))
		return
	}
	if op, ok := s.do(buckets.Op{Code: buckets.OpDelete, Keys: found}); ok {
		s.uncommitted = s.uncommitted || op.N > 0
		s.out.Int(op.N)
	}
}

// runWrapper runs the command of a wrapper, as the same user, and answers what becomes of its reply in a script.
func (s *session) runWrapper(w *script.Bound[*entry], keys, args [][]byte, readOnly bool) {
	mark := len(s.out.Bytes)
	words, ok := w.Words(s.scriptWords[:0], keys, args)
	s.scriptWords = words
	defer func() { clear(s.scriptWords) }()
	if !ok {
		s.out.Error(script.ErrArguments)
	} else if row, fault := s.callable(words, readOnly); fault != "" {
		s.out.Error(fault)
	} else {
		s.call(row, words)
	}
	s.scriptReply = append(s.scriptReply[:0], s.out.Bytes[mark:]...)
	s.out.Bytes = s.out.Bytes[:mark]
	w.AppendReply(&s.out, w.Digest, s.scriptReply)
	if cap(s.scriptReply) > outSize {
		s.scriptReply = nil
	}
}

// callable returns the row of a command that a script calls, or the error if it may not be called, in the order in which Redis checks.
func (s *session) callable(words [][]byte, readOnly bool) (row *entry, fault string) {
	row, found := s.srv.commands.find(words)
	switch {
	case row == nil || !found:
		return nil, errScriptCommand
	case !row.Takes(len(words)):
		return nil, errScriptArity
	case row.Flags&(command.NoScript|command.Aside) != 0: // what runs aside waits for locks, which a script may hold
		return nil, errScriptForbidden
	}
	if !s.unrestricted {
		if reason, object, why := s.checkRights(s.user, row, words); why != "" {
			s.logDenialIn(acl.ContextScript, reason, object, s.user.Name())
			if reason == acl.ReasonKey {
				return nil, errScriptKey
			}
			return nil, errScriptRights
		}
	}
	switch {
	case row.Flags&command.Write == 0:
		return row, ""
	case readOnly:
		return nil, script.ErrReadOnly
	}
	return row, s.refusal
}

// call runs a command for a script: its reply is in RESP2, and is not sent in parts. SELECT holds until the script ends.
func (s *session) call(row *entry, words [][]byte) {
	outer, resp3, db, mark := s.last, s.out.RESP3, s.database(), len(s.out.Bytes)
	s.last, s.out.RESP3, s.inScript = row, false, true
	defer func() {
		s.last, s.out.RESP3, s.inScript = outer, resp3, false
		if s.database() != db {
			s.useDatabase(db)
		}
	}()
	s.uncommitted = s.uncommitted || row.Flags&(command.Write|command.Decides) == command.Write
	s.count(row)
	if s.caching && row.isCacheable() {
		s.scriptRead = row.AppendKeys(s.scriptRead, words) // which need not be among those that EVAL names
	}
	row.run(s, words)
	if len(s.out.Bytes) > mark && s.out.Bytes[mark] == '-' {
		row.Failed.Add(1)
	}
}

func scriptLoad(s *session, words [][]byte) {
	p, d := s.programOf(words[2])
	if !p.Exists() {
		s.unknownScript(d)
		return
	}
	s.out.BulkString(d.String())
}

func scriptExists(s *session, words [][]byte) {
	s.out.Array(len(words) - 2)
	for _, w := range words[2:] {
		d, ok := script.ParseDigest(w)
		s.out.Flag(ok && s.srv.scripts.Find(d).Exists())
	}
}

// scriptFlush is SCRIPT FLUSH [ASYNC | SYNC]. The scripts that are always known stay.
func scriptFlush(s *session, words [][]byte) {
	if len(words) > 3 || len(words) == 3 && !frame.Is(words[2], "SYNC") && !frame.Is(words[2], "ASYNC") {
		s.out.Error(errScriptFlush)
		return
	}
	s.srv.scripts.Flush()
	s.out.OK()
}
