package cluster

// hotPath is what takes the compare-and-sets of one server to it.
type hotPath struct{}
