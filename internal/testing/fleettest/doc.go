// Package fleettest simulates a fleet of inference engines in virtual time, for tests of
// how requests are given to them. Its engines have a queue, prefills that take their time
// by the tokens that are not cached, a cache of blocks, answers that are written at a
// steady pace, and models that must be loaded. Seconds mean nothing by themselves; two
// policies on the same workload can be compared.
package fleettest
