package gateway

import "slices"

// cleanups close the parts that New has opened so far, in case a later step fails.
type cleanups []func()

func (c *cleanups) add(cleanup func()) { *c = append(*c, cleanup) }

// run closes everything, the last opened part first.
func (c cleanups) run() {
	for _, cleanup := range slices.Backward(c) {
		cleanup()
	}
}
