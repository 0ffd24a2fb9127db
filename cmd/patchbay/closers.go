package main

import "slices"

// closers are the ends of what a start has opened so far, for a start that does
// not come to its own end.
type closers []func()

func (c *closers) add(end func()) { *c = append(*c, end) }

// run closes everything, the last first.
func (c closers) run() {
	for _, end := range slices.Backward(c) {
		end()
	}
}
