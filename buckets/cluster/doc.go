// Package cluster keeps the states of keys in a Valkey or Redis server, or in a cluster of them, so that any number of cellservers share
// them. It runs no scripts: a decision is one compare-and-set of the key's value, which the same functions compute that decide in memory.
package cluster
