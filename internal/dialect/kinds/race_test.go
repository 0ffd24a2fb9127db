//go:build race

package kinds

const raceDetector = true
