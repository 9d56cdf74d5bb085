package acl

import (
	"crypto/rand"
	"encoding/hex"
)

// Bounds of GenPass, in bits.
const (
	GenPassDefault = 256 // the default of ACL GENPASS
	GenPassMax     = 4096
)

// GenPass returns a random password of the given number of bits, in hexadecimal, rounded up to whole digits. It returns
// ErrGenPass unless bits is between 1 and GenPassMax.
func GenPass(bits int) (string, error) {
	if bits <= 0 || bits > GenPassMax {
		return "", ErrGenPass
	}
	digits := (bits + 3) / 4
	random := make([]byte, (digits+1)/2)
	rand.Read(random) // never fails
	return hex.EncodeToString(random)[:digits], nil
}
