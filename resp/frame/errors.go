package frame

import "errors"

// ProtocolError is the wire text of an error in the framing. The connection is closed after it, because what follows cannot
// be told apart.
type ProtocolError string

func (e ProtocolError) Error() string { return string(e) }

// ErrQueryBuffer is returned when one command outgrows client-query-buffer-limit. The client gets no reply, as in Redis.
var ErrQueryBuffer = errors.New("one command outgrew client-query-buffer-limit")

// The texts of protocol errors, in Redis's words.
const (
	errInlineTooBig    = "ERR Protocol error: too big inline request"
	errUnbalanced      = "ERR Protocol error: unbalanced quotes in request"
	errMultibulkHeader = "ERR Protocol error: too big mbulk count string"
	errMultibulkLength = "ERR Protocol error: invalid multibulk length"
	errBulkHeader      = "ERR Protocol error: too big bulk count string"
	errBulkLength      = "ERR Protocol error: invalid bulk length"
	errStrangerArgs    = "ERR Protocol error: unauthenticated multibulk length"
	errStrangerBulk    = "ERR Protocol error: unauthenticated bulk length"
	errExpectedBulk    = "ERR Protocol error: expected '$', got '%s'"
)

// Faults of arguments that several packages find.
const (
	// ErrSyntax is the reply to arguments that are not understood.
	ErrSyntax = "ERR syntax error"
	// ErrNotInteger is the reply to an argument that must be an integer within int64 and is none.
	ErrNotInteger = "ERR value is not an integer or out of range"
	// ErrInvalidExpire is the reply to a time that is out of range; its argument is the name of the command.
	ErrInvalidExpire = "ERR invalid expire time in '%s' command"
)
