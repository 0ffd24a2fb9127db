package gateway

import "slices"

// cleanups close what New has opened so far, in case that a later step fails.
type cleanups []func()

func (c *cleanups) add(cleanup func()) { *c = append(*c, cleanup) }

// run closes everything, what was opened last first.
func (c cleanups) run() {
	for _, cleanup := range slices.Backward(c) {
		cleanup()
	}
}
