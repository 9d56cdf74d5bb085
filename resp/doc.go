// Package resp is the protocol: sessions, the command table and its handlers.
//
// The way of a request: bytes read from a connection, a frame (package frame), its row of the command table (package command), the
// row's handler (cmd_*.go), which checks its arguments and asks the Store, and a reply appended to the connection's
// output (frame.Reply). All commands of one read are answered by one write (conn.go).
//
// A session turns bytes into bytes and knows nothing of sockets; a conn moves bytes and knows nothing of commands; a
// Server accepts, counts, and ends them. Each conn has a goroutine. On Linux a loop (loop_linux.go) does its work for it,
// and that of many others, as long as what they ask takes no time; lane_linux.go is how they pass a conn to and fro.
package resp
