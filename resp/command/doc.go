// Package command is the table of all commands as data, and what clients are told of it.
//
// A Row says what is known of a command: its name, arity, flags, keys, arguments and documentation. The table is literal, one
// file for each group (rows_*.go). A Table finds the row of a command by its words, and answers COMMAND, COMMAND INFO, DOCS,
// LIST and GETKEYS, and HELP of every container, from its rows.
//
// The package runs nothing: handlers are bound to rows by name where they are.
package command
