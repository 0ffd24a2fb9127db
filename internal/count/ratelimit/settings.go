// Package ratelimit decides whether one more request is allowed right now, for a
// service as a whole or for each client address on its own.
package ratelimit

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Algorithm is the way a limiter counts.
type Algorithm = schema.Choice[algorithm]

type algorithm struct{}

func (algorithm) Names() []string {
	return []string{"token_bucket", "leaky_bucket", "sliding_window", "warm_up"}
}

// The algorithms. The zero value is the default.
const (
	TokenBucket Algorithm = iota
	LeakyBucket
	SlidingWindow
	WarmUp
)

// maxRate bounds capacity and refill rate: arithmetic on them in nanoseconds cannot
// overflow.
const maxRate = 1_000_000_000

// Settings describe one limiter.
type Settings struct {
	Enabled   bool      `json:"enabled"`
	Algorithm Algorithm `json:"algorithm"`
	// Capacity is the largest burst.
	Capacity int `json:"capacity" minimum:"1" maximum:"1000000000"`
	// RefillRate is the number of requests a second that are allowed in the long run.
	RefillRate int `json:"refillRate" minimum:"1" maximum:"1000000000"`
	// ClientIPEnable gives every client address a limiter of its own, in place of
	// the one for all clients together.
	ClientIPEnable bool `json:"clientIpEnable"`
	// WarmUpPeriod is how long WarmUp takes to reach the full rate.
	WarmUpPeriod schema.Duration `json:"warmUpPeriod" minimum:"1"`
	// Scope is the reach of one limiter.
	Scope Scope `json:"scope"`
	// Shared makes the limit one of all gateways that use the same Redis together.
	Shared bool `json:"shared,omitzero"`
}

// DefaultSettings returns the settings of an empty configuration: no limit.
func DefaultSettings() Settings {
	return Settings{
		Algorithm:    TokenBucket,
		Capacity:     100,
		RefillRate:   10,
		WarmUpPeriod: schema.Duration(time.Minute),
	}
}

// Given turns the limiter on. The decoder calls it before it reads the fields of a
// limit that is part of the configuration: a limit is on by default there.
func (s *Settings) Given() { s.Enabled = true }

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if !s.Algorithm.Valid() {
		report("algorithm", say.New("field.unknown_algorithm"))
	}
	if s.Capacity < 1 || s.Capacity > maxRate {
		report("capacity", say.New("field.between", "least", "1", "most", maxRate, "found", s.Capacity))
	}
	if s.RefillRate < 1 || s.RefillRate > maxRate {
		report("refillRate", say.New("field.between", "least", "1", "most", maxRate, "found", s.RefillRate))
	}
	if s.WarmUpPeriod <= 0 {
		report("warmUpPeriod", say.New("field.longer"))
	}
}
