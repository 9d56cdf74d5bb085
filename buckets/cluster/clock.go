package cluster

// nodeClock is the clock of a server, as it is seen from here.
type nodeClock struct{}
