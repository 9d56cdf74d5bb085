//go:build race

package resp_test

// raceDetector reports whether the tests run with the race detector, which allocates where the program does not.
const raceDetector = true
