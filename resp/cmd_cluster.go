package resp

import (
	"bytes"

	"cellserver/resp/frame"
)

// noCluster answers subcommands of CLUSTER with the error of a Redis without cluster support.
func noCluster(s *session, _ [][]byte) { s.out.Error(errNoCluster) }

// clusterKeySlot is CLUSTER KEYSLOT key. It works without a cluster: proxies and clients group keys by it.
func clusterKeySlot(s *session, words [][]byte) { s.out.Int(int64(keySlot(words[2]))) }

// slots is the number of slots of a cluster.
const slots = 1 << 14

// keySlot returns the slot of a key. If the key has a hash tag, the slot is that of the tag: the bytes between the first { and
// the first } after it, unless there are none.
func keySlot(key []byte) uint16 {
	if from := bytes.IndexByte(key, '{'); from >= 0 {
		if size := bytes.IndexByte(key[from+1:], '}'); size > 0 {
			key = key[from+1:][:size]
		}
	}
	return crc16(key) % slots
}

// crc16 is CRC-16/XMODEM: polynomial 0x1021, initial value 0, not reflected.
func crc16(b []byte) (crc uint16) {
	for _, c := range b {
		crc ^= uint16(c) << 8
		for range 8 {
			carry := crc>>15 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

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
