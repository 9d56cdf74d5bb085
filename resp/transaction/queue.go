// Package transaction holds the commands that a client queues between MULTI and EXEC, and the keys that it watches.
package transaction

// keepBytes is the most memory that an empty queue keeps for the next transaction.
const keepBytes = 16 << 10

// Queue is the commands of a transaction, each with its row of the command table. The zero Queue is empty.
type Queue[R any] struct {
	commands []command[R]
	bytes    []byte // all words, one after the other
	spans    []span // where each word is in bytes
	words    [][]byte
}

// command is a row, and how many of the words are its command's.
type command[R any] struct {
	row   R
	words int
}

// span is where a word begins and ends.
type span struct{ from, to uint32 }

// Add copies a command to the end of the queue, because words are valid only until the next command is read.
func (q *Queue[R]) Add(row R, words [][]byte) {
	for _, w := range words {
		from := uint32(len(q.bytes))
		q.bytes = append(q.bytes, w...)
		q.spans = append(q.spans, span{from, uint32(len(q.bytes))})
	}
	q.commands = append(q.commands, command[R]{row, len(words)})
}

// Len returns how many commands are queued.
func (q *Queue[R]) Len() int { return len(q.commands) }

// Size returns about how many bytes the commands hold in memory.
func (q *Queue[R]) Size() int64 {
	return int64(len(q.bytes)) + 8*int64(len(q.spans)) + 16*int64(len(q.commands))
}

// Each calls visit for each command in order. words are valid until visit returns; they are copies, but must not be
// changed.
func (q *Queue[R]) Each(visit func(row R, words [][]byte)) {
	spans := q.spans
	for _, c := range q.commands {
		q.words = q.words[:0]
		for _, s := range spans[:c.words] {
			q.words = append(q.words, q.bytes[s.from:s.to:s.to])
		}
		spans = spans[c.words:]
		visit(c.row, q.words)
	}
}

// Clear empties the queue. It keeps the memory of a small queue for the next transaction.
func (q *Queue[R]) Clear() {
	if q.Size() > keepBytes {
		*q = Queue[R]{}
		return
	}
	q.commands, q.bytes, q.spans, q.words = q.commands[:0], q.bytes[:0], q.spans[:0], q.words[:0]
}
