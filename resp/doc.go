// Package resp is the protocol: connections, frames, the command table and replies.
//
// The way of a request: bytes read from a connection, a frame (frame.go), its row of the command table (table.go), the
// row's handler (cmd_*.go), which checks its arguments and asks the Store, and a reply appended to the connection's
// output (reply.go). All commands of one read are answered by one write (conn.go).
//
// A session turns bytes into bytes and knows nothing of sockets; a conn moves bytes and knows nothing of commands; a
// Server accepts, counts, and ends them.
package resp
