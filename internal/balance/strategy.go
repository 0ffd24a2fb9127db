// Package balance picks one instance out of a pool.
package balance

import (
	"fmt"
	"strings"

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

	strategyCount = int(IPHash) + 1
)

var strategyNames = [strategyCount]string{"round_robin", "random", "least_connections", "ip_hash"}

// Names returns the name of every strategy.
func (Strategy) Names() []string { return append([]string(nil), strategyNames[:]...) }

// Valid tells whether s is one of the strategies.
func (s Strategy) Valid() bool { return int(s) < strategyCount }

// String returns the name with underscores.
func (s Strategy) String() string {
	if !s.Valid() {
		return fmt.Sprintf("Strategy(%d)", uint8(s))
	}
	return strategyNames[s]
}

// MarshalText writes the name with underscores.
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name in any of its spellings.
func (s *Strategy) UnmarshalText(text []byte) error {
	parsed, err := ParseStrategy(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

// ParseStrategy reads a name in any case, with hyphens or underscores.
func ParseStrategy(name string) (Strategy, error) {
	folded := schema.Fold(name)
	for i, known := range strategyNames {
		if folded == schema.Fold(known) {
			return Strategy(i), nil
		}
	}
	return 0, fmt.Errorf("unknown strategy %q (known: %s)", name, strings.Join(strategyNames[:], ", "))
}
