package ratelimit

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Scope is the reach of one limiter: a whole service type, each model of it, or each
// instance. An instance at its limit is skipped; the others take a request as long as
// one of them can.
type Scope = schema.Choice[scope]

type scope struct{}

func (scope) Names() []string { return []string{"service", "model", "instance"} }

// The scopes. The zero value is the default.
const (
	PerService Scope = iota
	PerModel
	PerInstance
)
