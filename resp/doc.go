// Package resp implements the protocol: sessions and the handlers of the commands.
//
// A session parses the bytes of a connection into commands (package frame), looks up the row of each in the command table
// (package command), and passes it through the gates. The row's handler (cmd_*.go) checks its arguments, calls the store, and
// appends the reply. The replies to all commands of one read are sent by one write.
//
// A session turns bytes into bytes and does not see sockets. Package transport moves the bytes, in a goroutine for each
// connection or, on Linux, in an event loop, and does not see commands.
package resp
