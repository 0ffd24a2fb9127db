package problems

import (
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/live"
)

// Finding is something that is wrong with an object now, whether or not a call failed because of it,
// such as an instance that is far slower than its peers.
type Finding struct {
	Kind    Kind
	Service schema.ServiceType
	// Model and Instance are the object; Account is the owner of a budget, as in Group. Those that
	// do not apply are empty.
	Model, Instance, Account string
	// Said names the object, and why; it is zero if Report shows the same as a problem.
	Said  say.Sentence
	Since time.Time // zero if it is not known
	Until time.Time // when it ends by itself, zero if it does not

	// Subject names the object in alerts, uniquely within the kind. Values are those of their
	// sentences. IsWarning means that the worst is yet to come.
	Subject   string
	Values    []any
	IsWarning bool
}

// Finder reports what is wrong now.
type Finder func(now time.Time, found func(Finding))

// The parts of a budget, in percent, that are findings.
const mostlyUsed, usedUp = 80, 100

// Budgets finds the budgets that are mostly used or used up, whether or not they refused a call.
func (k *Keeper) Budgets(now time.Time, found func(Finding)) {
	for _, use := range k.budgets() {
		one := Finding{Kind: UsedUp, Account: use.Account, Since: now, Until: use.Reset}
		percent := int64(usedUp)
		if use.Used >= use.Limit {
			one.Said = say.New("found.budget", "who", Who(use.Account))
		} else if percent = int64(float64(use.Used) / float64(use.Limit) * 100); percent < mostlyUsed {
			continue
		}
		unit, window := use.UnitName(), strings.ToLower(use.WindowName())
		one.Subject, one.IsWarning = use.Account+"/"+unit+"/"+window, !one.Said.Is()
		one.Values = []any{"account", strings.Replace(use.Account, "/", " ", 1), "unit", unit, "window", window,
			"percent", percent}
		found(one)
	}
}

// Breakers finds the instances whose circuit breakers opened by themselves. Report shows them as
// troubled instances.
func (k *Keeper) Breakers(_ time.Time, found func(Finding)) {
	for _, i := range k.current.Load().Instances() {
		state := i.Breaker.Snapshot()
		if state.State == breaker.Closed || state.Forced != breaker.Auto {
			continue
		}
		service, label := i.Service.String(), i.Label()
		found(Finding{Subject: service + "/" + label, Since: state.Since,
			Values: []any{"instance", label, "service", service}})
	}
}

// lostFor is how long every call to a model must have been lost before it is a finding.
const lostFor = time.Minute

// Models finds the models of which every call was lost for a minute. Report shows the causes.
func (k *Keeper) Models(now time.Time, found func(Finding)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, one := range k.models {
		span := one.lostAt.Sub(one.lostSince)
		if one.lost == 0 || span < lostFor || now.Sub(one.lostAt) >= Quiet {
			continue
		}
		service := key.service.String()
		found(Finding{Subject: service + "/" + key.model, Since: one.lostSince, Values: []any{"model", key.model,
			"service", service, "minutes", int(span.Minutes()), "lost", one.lost}})
	}
}

// Slow returns a finder of the instances that are far slower than their peers.
func Slow(slow func(now time.Time) []live.Slow) Finder {
	return func(now time.Time, found func(Finding)) {
		for _, one := range slow(now) {
			found(Finding{Kind: FarSlower, Service: one.Service, Model: one.Model, Instance: one.InstanceID,
				Since: one.Since, Said: one.Said[0]})
		}
	}
}
