// Package acl has users, their passwords, and the commands and keys that they may use.
//
// It implements the ACL of Redis 7, with its syntax, its error texts and its form of users, but without selectors and
// without first arguments in place of subcommands (+select|0). Channels, and commands and categories that only Redis
// has, are stored and shown without an effect, so that one file of users serves both servers.
//
// A User is immutable. A change of its rules makes a new User, which User.Current of the old one returns. A session
// calls Current before each batch of commands, and then checks commands and keys without a lock.
package acl
