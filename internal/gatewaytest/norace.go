//go:build !race

package gatewaytest

// RaceEnabled says that the race detector slows everything down many times.
const RaceEnabled = false
