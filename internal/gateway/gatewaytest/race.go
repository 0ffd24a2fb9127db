//go:build race

package gatewaytest

// RaceEnabled reports whether the race detector is on, which makes everything many
// times slower.
const RaceEnabled = true
