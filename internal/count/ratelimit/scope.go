package ratelimit

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Scope is the reach of one limiter: a whole service type, each model of it, or each
// instance. An instance at its limit is skipped; the others take a request as long as
// one of them can.
type Scope uint8

// The scopes. The zero value is the default.
const (
	PerService Scope = iota
	PerModel
	PerInstance

	scopeCount = int(PerInstance) + 1
)

var scopeNames = [scopeCount]string{"service", "model", "instance"}

// Names returns the name of every scope.
func (Scope) Names() []string { return append([]string(nil), scopeNames[:]...) }

// String returns the name of the scope.
func (s Scope) String() string { return schema.NameOf(s, scopeNames[:]) }

// MarshalText writes the name of the scope.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name of a scope in any case.
func (s *Scope) UnmarshalText(text []byte) error {
	return schema.ReadName(s, "scope", string(text), scopeNames[:])
}
