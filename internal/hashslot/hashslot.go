// Package hashslot computes the hash slots of Redis Cluster: the parts into which it divides its keys. The Redis Cluster
// specification defines them.
package hashslot

import "bytes"

// Count is the number of slots of a cluster.
const Count = 1 << 14

// Of returns the slot of a key, below Count. If the key has a hash tag, the slot is that of the tag: the bytes between the
// first { and the first } after it, unless there are none.
func Of(key []byte) uint16 {
	if from := bytes.IndexByte(key, '{'); from >= 0 {
		if size := bytes.IndexByte(key[from+1:], '}'); size > 0 {
			key = key[from+1:][:size]
		}
	}
	crc := uint16(0)
	for _, c := range key {
		crc = crc<<8 ^ table[byte(crc>>8)^c]
	}
	return crc % Count
}

// table holds the CRC-16/XMODEM (polynomial 0x1021, initial value 0, not reflected) of each byte.
var table = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc>>15 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		t[i] = crc
	}
	return t
}()
