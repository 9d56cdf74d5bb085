// Package frame turns bytes into the words of commands, and replies into bytes.
//
// A Reader cuts what arrives on a connection into commands, whether they are multibulk frames or lines. The Parse
// functions and Is give words a meaning. A Reply appends values in RESP2 or RESP3.
//
// The package knows neither commands nor connections: it imports no other package of the server but buckets, whose
// decisions are what most replies are.
package frame
