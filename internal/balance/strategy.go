// Package balance picks one instance out of a pool.
package balance

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Strategy is the rule by which an instance is picked.
type Strategy uint8

// The strategies. The zero value is the default.
const (
	RoundRobin Strategy = iota
	Random
	LeastConnections
	IPHash

	strategyCount = iota // new strategies come before it
)

// strategies has a row for each strategy: its name with underscores, and what
// makes a balancer for a pool of the given size.
var strategies = [strategyCount]struct {
	name string
	make func(size int) Balancer
}{
	RoundRobin:       {"round_robin", func(size int) Balancer { return &roundRobin{credit: make([]int64, size)} }},
	Random:           {"random", func(int) Balancer { return weightedRandom{} }},
	LeastConnections: {"least_connections", func(int) Balancer { return &leastConnections{} }},
	IPHash:           {"ip_hash", func(size int) Balancer { return newRendezvous(size) }},
}

// New returns a balancer for a pool of the given size.
func New(strategy Strategy, size int) Balancer { return strategies[strategy].make(size) }

// Strategies returns every strategy.
func Strategies() []Strategy {
	all := make([]Strategy, strategyCount)
	for n := range all {
		all[n] = Strategy(n)
	}
	return all
}

// Names returns the name of every strategy.
func (Strategy) Names() []string {
	names := make([]string, 0, strategyCount)
	for _, row := range strategies {
		names = append(names, row.name)
	}
	return names
}

// Valid tells whether s is one of the strategies.
func (s Strategy) Valid() bool { return int(s) < strategyCount }

// String returns the name with underscores.
func (s Strategy) String() string {
	if !s.Valid() {
		return fmt.Sprintf("Strategy(%d)", uint8(s))
	}
	return strategies[s].name
}

// MarshalText writes the name with underscores.
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name in any case, with hyphens or underscores.
func (s *Strategy) UnmarshalText(text []byte) error {
	return schema.ReadName(s, "strategy", string(text), s.Names())
}
