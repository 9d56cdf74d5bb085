package main

import (
	"errors"

	"cellserver/buckets"
	"cellserver/cmd/cellserver/options"
	"cellserver/resp"
)

// keys is where the keys are: their store, and what belongs to it. Its methods are called in this order, apply also later.
type keys interface {
	store() buckets.Store
	now() int64      // the decision clock, in nanoseconds of Unix time
	disk() resp.Disk // nil if this program writes none
	// apply puts settings in force. After an error nothing has changed.
	apply(s options.Settings) error
	// load makes the store ready. After abandon it returns errAbandoned soon, unless it has completed.
	load() error
	abandon()
	// start starts what runs in the background. It calls sample every sampleEvery.
	start(sample func())
	// describe returns what the log says of the store, as arguments of slog.
	describe() []any
	// close ends everything. If save, what is kept on disk is written.
	close(save bool) error
}

// errAbandoned is returned by load after abandon.
var errAbandoned = errors.New("starting was abandoned")
