// Package runs decides how much one run of an agent may use up: the calls of one task, with
// all of its sub-agents.
package runs

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/known"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/loops"
)

// Settings describe the governor of runs.
type Settings struct {
	Enabled bool `json:"enabled"`
	// By are further signs of requests that name runs.
	By []known.By `json:"by"`
	// Idle is how long nothing is asked for in a run until it is over.
	Idle schema.Duration `json:"idle"`
	// Limits are those of each run. Keys and tenants may have stricter ones.
	Limits budget.RunLimits `json:"limits"`
	// Reserve is how much a request reserves of the limits of its run.
	Reserve quota.Reserve `json:"reserve"`
	// Unpriced decides about models without a price in runs with a limit of money.
	Unpriced Unpriced `json:"unpriced"`
	// Loops say when a run goes round in circles.
	Loops loops.Settings `json:"loops"`
}

// Unpriced is what happens to a request for a model without a price in a run with a limit of
// money.
type Unpriced = schema.Choice[unpriced]

type unpriced struct{}

func (unpriced) Names() []string { return []string{"warn", "refuse", "allow"} }

// The possibilities.
const (
	Warn Unpriced = iota // the log tells of it
	Refuse
	Allow
)

const (
	defaultIdle = 30 * time.Minute
	shortest    = time.Second
	longest     = 7 * 24 * time.Hour
)

// DefaultSettings returns the settings of an empty configuration: nothing is governed.
func DefaultSettings() Settings {
	return Settings{Idle: schema.Duration(defaultIdle), Reserve: quota.Likely, Loops: loops.DefaultSettings()}
}

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	if idle := s.Idle.Std(); idle < shortest || idle > longest {
		report("idle", say.New("field.between", "least", schema.Duration(shortest), "most", schema.Duration(longest),
			"found", s.Idle))
	}
	for i, sign := range s.By {
		if slices.Contains(s.By[:i], sign) {
			report("by["+strconv.Itoa(i)+"]", say.New("field.twice", "name", sign))
		}
	}
	s.Loops.Check(say.Under("loops.", report))
	s.Limits.Check(say.Under("limits.", report))
}

// agentAnswer is how many tokens of answer Claude Code asks for with each call.
const agentAnswer = 32_000

// Lint reports limits that do not let an agent make its first call, because that reserves the most
// that it may use. The limits are those of keys and tenants, by their places; output is the dearest
// price of a million tokens of answer.
func (s Settings) Lint(limits map[string]budget.RunLimits, output prices.Amount, report func(path, message string)) {
	if !s.Enabled || s.Reserve != quota.Most {
		return
	}
	limits["runs.limits"] = s.Limits
	cost := output / 1000 * (agentAnswer / 1000)
	for _, path := range slices.Sorted(maps.Keys(limits)) {
		const remedy = "; set runs.reserve: likely, or let agents ask for less (CLAUDE_CODE_MAX_OUTPUT_TOKENS)"
		if limit := limits[path].Cost; limit > 0 && limit < cost {
			report(path+".cost", "is less than the "+cost.Money()+
				" that one call with 32,000 tokens of answer reserves"+remedy)
		}
		if limit := limits[path].Tokens; limit > 0 && limit < agentAnswer {
			report(path+".tokens", "is less than the 32,000 tokens of answer that one call of an agent reserves"+remedy)
		}
	}
}
