//go:build race

package resp_test

// raceDetector reports that the tests run under it: it allocates where the program does not.
const raceDetector = true
