//go:build !race

package adapter

const raceDetector = false
