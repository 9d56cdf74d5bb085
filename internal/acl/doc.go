// Package acl decides who may do what: users, their passwords, and the commands and keys that they may use.
//
// It is the ACL of Redis 7, whose syntax, texts and way of writing users it shares, without selectors, and without
// first arguments that stand in for subcommands (+select|0). Channels, and commands and categories that only Redis has,
// are kept and shown and mean nothing, so that one file of users serves both servers.
//
// A User never changes. A change of rules makes another one in its place, which User.Current returns: a session keeps
// its user, asks for the current one before each batch of commands, and decides everything without a lock.
package acl
