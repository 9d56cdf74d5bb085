package resp

import (
	"cellserver/internal/hashslot"
	"cellserver/resp/frame"
)

// noCluster answers subcommands of CLUSTER with the error of a Redis without cluster support.
func noCluster(s *session, _ [][]byte) { s.out.Error(errNoCluster) }

// clusterKeySlot is CLUSTER KEYSLOT key. It works without a cluster: proxies and clients group keys by it.
func clusterKeySlot(s *session, words [][]byte) { s.out.Int(int64(hashslot.Of(words[2]))) }

// role is ROLE: a master with replication offset 0 and no replicas.
func role(s *session, _ [][]byte) {
	s.out.Array(3)
	s.out.BulkString("master")
	s.out.Int(0)
	s.out.Array(0)
}

// wait is WAIT numreplicas timeout. It answers 0 at once, because there are no replicas.
func wait(s *session, words [][]byte) {
	_, ok := frame.ParseInt(words[1])
	timeout, valid := frame.ParseInt(words[2])
	switch {
	case !ok:
		s.out.Error(errNotInteger)
	case !valid:
		s.out.Error(errTimeoutInteger)
	case timeout < 0:
		s.out.Error(errTimeoutNegative)
	default:
		s.out.Int(0)
	}
}
