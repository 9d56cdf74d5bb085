package acl

import (
	"crypto/rand"
	"encoding/hex"
)

// Bounds of GenPass, in bits.
const (
	GenPassDefault = 256 // what ACL GENPASS makes when it is not told
	GenPassMax     = 4096
)

// GenPass returns a random password of so many bits, in hexadecimal, rounded up to whole digits. Other
// numbers than 1 to GenPassMax are ErrGenPass.
func GenPass(bits int) (string, error) {
	if bits <= 0 || bits > GenPassMax {
		return "", ErrGenPass
	}
	digits := (bits + 3) / 4
	random := make([]byte, (digits+1)/2)
	rand.Read(random) // never fails
	return hex.EncodeToString(random)[:digits], nil
}
