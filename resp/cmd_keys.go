package resp

import (
	"context"
	"strconv"

	"cellserver/buckets"
	"cellserver/internal/glob"
	"cellserver/resp/frame"
	"cellserver/resp/keyspace"
)

func del(s *session, words [][]byte) {
	if op, ok := s.do(buckets.Op{Code: buckets.OpDelete, Keys: words[1:]}); ok {
		s.out.Int(op.N)
	}
}

func exists(s *session, words [][]byte) {
	op, ok := s.do(buckets.Op{Code: buckets.OpExists, Keys: words[1:]})
	if !ok {
		return
	}
	s.tally.Hits += uint64(op.N)
	s.tally.Misses += uint64(len(words)-1) - uint64(op.N)
	s.out.Int(op.N)
}

// stat describes the key of a command that reads it, and counts a hit or a miss. If the store fails, it appends the error, and
// ok is false.
func (s *session) stat(key []byte) (info buckets.Info, exists, ok bool) {
	op, ok := s.do(buckets.Op{Code: buckets.OpStat, Key: key})
	if !ok {
		return buckets.Info{}, false, false
	}
	s.tally.LookUp(op.N > 0)
	return op.Contents.Info, op.N > 0, true
}

// statOrNull is stat for a command that answers null if the key does not exist. If exists is false, the reply has been
// appended.
func (s *session) statOrNull(key []byte) (info buckets.Info, exists bool) {
	info, exists, ok := s.stat(key)
	if ok && !exists {
		s.out.Null()
	}
	return info, exists
}

func typeOf(s *session, words [][]byte) {
	if info, _, ok := s.stat(words[1]); ok {
		s.out.Status(info.Kind.Type())
	}
}

func ttl(s *session, words [][]byte)         { s.replyExpiry(words[1], keyspace.TTL) }
func pttl(s *session, words [][]byte)        { s.replyExpiry(words[1], keyspace.PTTL) }
func expireTime(s *session, words [][]byte)  { s.replyExpiry(words[1], keyspace.ExpireTime) }
func pexpireTime(s *session, words [][]byte) { s.replyExpiry(words[1], keyspace.PExpireTime) }

// replyExpiry answers with what value returns for the key, -1 if the key never expires, or -2 if it does not exist.
func (s *session) replyExpiry(key []byte, value func(buckets.Info) int64) {
	info, exists, ok := s.stat(key)
	switch {
	case !ok:
	case !exists:
		s.out.Int(-2)
	case info.Expiry == buckets.NoExpiry:
		s.out.Int(-1)
	default:
		s.out.Int(value(info))
	}
}

// EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func expire(s *session, words [][]byte)    { s.expireAt(words, 1000, true) }
func pexpire(s *session, words [][]byte)   { s.expireAt(words, 1, true) }
func expireAt(s *session, words [][]byte)  { s.expireAt(words, 1000, false) }
func pexpireAt(s *session, words [][]byte) { s.expireAt(words, 1, false) }

// expireAt sets a deadline, which is given in units of unit milliseconds, and relative to now if relative.
func (s *session) expireAt(words [][]byte, unit int64, relative bool) {
	condition, fault := keyspace.ParseCondition(words[3:])
	if fault != "" {
		s.out.Error(fault)
		return
	}
	base := int64(0)
	if relative {
		base = s.now
	}
	at, fault := keyspace.ParseDeadline(words[2], unit, base, s.last.Name)
	if fault != "" {
		s.out.Error(fault)
		return
	}
	op := &s.op[0] // of which the store reads the fields that are set here
	op.Code, op.Key, op.At, op.Condition = buckets.OpExpire, words[1], at, condition
	s.store.Apply(s.srv.ctx, s.now, s.op[:])
	if op.Err != nil {
		s.out.Error(s.storeError(op.Err))
		return
	}
	s.out.Int(op.N)
}

func persist(s *session, words [][]byte) {
	if op, ok := s.do(buckets.Op{Code: buckets.OpPersist, Key: words[1]}); ok {
		s.out.Int(op.N)
	}
}

func rename(s *session, words [][]byte) {
	if _, ok := s.rename(words, false); ok {
		s.out.OK()
	}
}

func renameNX(s *session, words [][]byte) {
	if renamed, ok := s.rename(words, true); ok {
		s.out.Flag(renamed)
	}
}

// rename renames a key; if ifFree, only if the new name is not in use. If it fails, it appends the error, and ok is false.
func (s *session) rename(words [][]byte, ifFree bool) (renamed, ok bool) {
	if fault := s.bounds.keyFault(words[2]); fault != "" {
		s.out.Error(fault)
		return false, false
	}
	op, ok := s.do(buckets.Op{Code: buckets.OpRename, Key: words[1], To: words[2], IfFree: ifFree})
	return op.N > 0, ok
}

func dbSize(s *session, _ [][]byte) {
	n, err := s.store.Len(s.srv.ctx, s.now)
	if err != nil {
		s.out.Error(s.storeError(err))
		return
	}
	s.out.Int(n)
}

func randomKey(s *session, _ [][]byte) {
	key, found, err := s.store.RandomKey(s.srv.ctx, s.now, nil)
	switch {
	case err != nil:
		s.out.Error(s.storeError(err))
	case !found:
		s.out.Null()
	default:
		s.out.Bulk(key)
	}
}

// flush answers FLUSHDB and FLUSHALL, whose keys do deletes.
func (s *session) flush(words [][]byte, do func(context.Context) error) {
	if len(words) > 2 || len(words) == 2 && !frame.Is(words[1], "SYNC") && !frame.Is(words[1], "ASYNC") {
		s.out.Error(errSyntax)
		return
	}
	if err := do(s.srv.ctx); err != nil {
		s.out.Error(s.storeError(err))
		return
	}
	s.out.OK()
}

// replyKeys answers with an array of the keys.
func (s *session) replyKeys(l *keyspace.List) { l.Append(&s.out, s.sendPart) }

// keysPerScan is how many keys KEYS and SCAN ask of the store at a time. The store may be locked while they are matched.
const keysPerScan = 100

func keysMatching(s *session, words [][]byte) {
	var keys keyspace.List
	var err error
	for cursor := uint64(0); ; {
		if !s.mayWalk() {
			s.out.Errorf(errMultiWalk, s.bounds.MultiCommands)
			return
		}
		visited := int64(0)
		cursor, err = s.store.Scan(s.srv.ctx, s.now, cursor, keysPerScan, func(key []byte, _ buckets.Kind) {
			visited++
			if glob.MatchBounded(words[1], key) {
				keys.Add(key)
			}
		})
		if err != nil {
			s.out.Error(s.storeError(err))
			return
		}
		s.tx.walked += max(keysPerScan, visited)
		if cursor == 0 {
			break
		}
		s.yieldIfLong()
	}
	s.replyKeys(&keys)
}

// maxScanCount is the most keys that one SCAN visits, whatever its COUNT.
const maxScanCount = 1 << 20

func scan(s *session, words [][]byte) {
	var asked keyspace.Scan
	if fault := asked.Parse(words[1:]); fault != "" {
		s.out.Error(fault)
		return
	}
	cursor, err := asked.Cursor, error(nil)
	if !s.mayWalk() {
		s.out.Errorf(errMultiWalk, s.bounds.MultiCommands)
		return
	}
	var keys keyspace.List
	for left := min(asked.Count, maxScanCount); left > 0 && s.mayWalk(); left -= keysPerScan {
		most, visited := min(left, keysPerScan), int64(0)
		cursor, err = s.store.Scan(s.srv.ctx, s.now, cursor, int(most), func(key []byte, k buckets.Kind) {
			visited++
			if asked.Matches(key, k) {
				keys.Add(key)
			}
		})
		if err != nil {
			s.out.Error(s.storeError(err))
			return
		}
		s.tx.walked += max(most, visited)
		if cursor == 0 {
			break
		}
		s.yieldIfLong()
	}
	s.out.Array(2)
	s.out.BulkString(strconv.FormatUint(cursor, 10))
	s.replyKeys(&keys)
}

func objectEncoding(s *session, words [][]byte) {
	if info, exists := s.statOrNull(words[2]); exists {
		s.out.BulkString(info.Kind.Encoding())
	}
}

// objectFreq is OBJECT FREQ key: an error as in Redis without an LFU policy.
func objectFreq(s *session, words [][]byte) {
	if _, exists := s.statOrNull(words[2]); exists {
		s.out.Error(errNotLFU)
	}
}

// objectIdleTime is OBJECT IDLETIME key: 0, because the time of the last use is not stored.
func objectIdleTime(s *session, words [][]byte) {
	if _, exists := s.statOrNull(words[2]); exists {
		s.out.Int(0)
	}
}

func objectRefcount(s *session, words [][]byte) {
	if _, exists := s.statOrNull(words[2]); exists {
		s.out.Int(1)
	}
}

func memoryUsage(s *session, words [][]byte) {
	if fault := keyspace.SamplesFault(words[3:]); fault != "" {
		s.out.Error(fault)
		return
	}
	op, ok := s.do(buckets.Op{Code: buckets.OpStat, Key: words[2]})
	switch {
	case !ok:
	case op.N == 0:
		s.out.Null()
	case s.srv.remote != nil: // which does not know what the other program takes for a key
		s.out.Error(errNotOffered)
	default:
		s.out.Int(op.Contents.Bytes)
	}
}
