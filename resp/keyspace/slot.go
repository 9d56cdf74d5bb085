package keyspace

import "bytes"

// slots is the number of slots of a cluster.
const slots = 1 << 14

// Slot returns the slot of a key. If the key has a hash tag, the slot is that of the tag: the bytes between the first { and
// the first } after it, unless there are none.
func Slot(key []byte) uint16 {
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
