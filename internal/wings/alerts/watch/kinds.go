package watch

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/problems"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts"
)

// condition is something that is wrong now.
type condition struct {
	// Subject names the account, instance or model, uniquely within its kind.
	Subject string
	Level   level
	Since   time.Time
	// Said says that it is so, and Over that it is not so any more.
	Said, Over say.Sentence
}

// level is how bad a condition is.
type level uint8

const (
	fine level = iota
	warning
	critical
	levels
)

func (l level) String() string { return [levels]string{"", "warning", "critical"}[l] }

// kind is a row of the table of kinds. To add one, add its name to package alerts, and its row
// and sentences here.
type kind struct {
	// find reports what is wrong now. said and over are the sentences about a finding that is there,
	// and that is gone.
	find       problems.Finder
	said, over say.Code
	// isShared says that gateways which share a store find the same.
	isShared bool
}

// condition returns a finding as a condition.
func (k *kind) condition(f problems.Finding) condition {
	c := condition{Subject: f.Subject, Level: critical, Since: f.Since, Said: say.New(k.said, f.Values...),
		Over: say.New(k.over, f.Values...)}
	if f.IsWarning {
		c.Level = warning
	}
	return c
}

// kindsOf returns the table of kinds of a gateway.
func kindsOf(core *wing.Core, runs *runs) map[alerts.Kind]kind {
	refused := &signIns{refused: core.SignIns}
	return map[alerts.Kind]kind{
		alerts.Budget:  {core.Problems.Budgets, "alert.budget", "alert.budget_over", true},
		alerts.Breaker: {core.Problems.Breakers, "alert.breaker", "alert.breaker_over", false},
		alerts.Model:   {core.Problems.Models, "alert.model", "alert.model_over", false},
		alerts.Run:     {runs.dear, "alert.run", "alert.run_over", false},
		alerts.Loop:    {runs.looping, "alert.loop", "alert.loop_over", false},
		alerts.SignIn:  {refused.find, "alert.sign_in", "alert.sign_in_over", false},
	}
}
