package problems

import (
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/live"
)

// Finding is something about an object that people should know although no call failed because of
// it, such as an instance that is far slower than its peers.
type Finding struct {
	Kind    string // a word for the kind, such as slow
	Service schema.ServiceType
	// Model and Instance are the object; Account is the owner of a budget, as in Group. Those that
	// do not apply are empty.
	Model, Instance, Account string
	// Said names the object, and why.
	Said  say.Sentence
	Since time.Time // zero where it is not known
	Until time.Time // when it ends by itself, zero where it does not
}

// Finder looks for findings. Findings are shown below the problems of now.
type Finder interface {
	Findings(now time.Time) []Finding
}

// UsedUp finds the budgets that are used up, whether or not they refused a call.
type UsedUp func() []budget.Use

// Findings returns one finding for each account.
func (u UsedUp) Findings(now time.Time) []Finding {
	if u == nil {
		return nil
	}
	var found []Finding
	for _, use := range u() {
		isKnown := slices.ContainsFunc(found, func(one Finding) bool { return one.Account == use.Account })
		if use.Used >= use.Limit && !isKnown {
			found = append(found, Finding{Kind: "budget", Account: use.Account, Since: now, Until: use.Reset,
				Said: say.New("found.budget", "who", Who(use.Account))})
		}
	}
	return found
}

// Slow finds the instances that are far slower than their peers.
type Slow func(now time.Time) []live.Slow

// Findings returns one finding for each instance.
func (s Slow) Findings(now time.Time) []Finding {
	var found []Finding
	for _, one := range s(now) {
		found = append(found, Finding{Kind: "slow", Service: one.Service, Model: one.Model, Instance: one.InstanceID,
			Since: one.Since, Said: one.Said[0]})
	}
	return found
}
