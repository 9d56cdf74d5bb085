//go:build !race

package resp_test

const raceDetector = false
