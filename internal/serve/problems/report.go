package problems

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// Question asks what is wrong.
type Question struct {
	Object
	// Words includes the words of backends, Budgets the budgets that are used up.
	Words, Budgets bool
}

// Report is what is wrong, in the order in which people should hear of it.
type Report struct {
	// State is that of the worst problem, and empty where nothing is wrong now. Said says the
	// same in a sentence.
	State  State
	Said   say.Sentence
	Groups []Group
}

// Report weighs the problems of an object, or all of them, and findings: calls that are
// lost now come before services that cannot be served, calls that are refused, calls that are
// rescued, and findings; then comes what is quiet or over. Calls of strangers are last.
func (k *Keeper) Report(now time.Time, slow Finder, q Question) Report {
	k.recorder.Flush() // readers see records that were not flushed yet
	available := assess(k.current.Load(), now)
	found := available.found
	slow(now, func(one Finding) { found = append(found, one) })
	if q.Budgets {
		k.Budgets(now, func(one Finding) {
			isUsedUp := func(f Finding) bool { return f.Account == one.Account && f.Kind == UsedUp }
			if one.Said.Is() && !slices.ContainsFunc(found, isUsedUp) {
				found = append(found, one)
			}
		})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.list(now, &q.Object)
	for i := range list {
		list[i].Summary = k.summary(&list[i], now, q.Words)
	}
	for i := range found {
		if one := found[i].group(now); k.isNews(&found[i], now) && q.hasFinding(&found[i], &one) {
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), b.First.Compare(a.First),
			strings.Compare(a.Object+a.Code+a.Words, b.Object+b.Code+b.Words))
	})
	return Report{Groups: list}.headed(now, &available)
}

// headed returns the report with its headline: the worst problem of now, or how many services
// answer.
func (r Report) headed(now time.Time, available *availability) Report {
	worst := -1
	for i := range r.Groups {
		one := &r.Groups[i]
		if one.Kind == OfStrangers || one.State == Waiting || one.State == Over {
			break
		}
		if worst >= 0 && one.State != r.Groups[worst].State {
			break
		}
		if worst < 0 || one.weight(now) > r.Groups[worst].weight(now) {
			worst = i
		}
	}
	if worst >= 0 {
		r.State, r.Said = r.Groups[worst].State, r.Groups[worst].Summary
		return r
	}
	switch n := len(available.services); n {
	case 0:
		r.Said = say.New("headline.none")
	case 1:
		r.Said = say.New("headline.one", "service", available.services[0])
	default:
		r.Said = say.New("headline.all", "count", n)
	}
	return r
}

// weight returns how many calls a problem lost in the last minute, or how many it refused.
func (g *Group) weight(now time.Time) int64 {
	lately := g.lately.sum(now, Now)
	if g.State == Losing {
		return lately[0]
	}
	return lately[1]
}

// group returns a finding as a problem.
func (f *Finding) group(now time.Time) Group {
	g := Group{Key: Key{Kind: f.Kind, Service: f.Service, Object: cmp.Or(f.Instance, f.Model, f.Account)},
		Summary: f.Said, Until: f.Until, State: Found}
	if g.First, g.Last = f.Since, now; f.Since.IsZero() {
		g.First = now
	}
	if f.Kind == Down {
		g.State = Unserved
	}
	if f.Model != "" {
		g.Models = []string{f.Model}
	}
	if f.Instance != "" {
		g.Instances, g.Host = []string{f.Instance}, calls.HostOf(f.Instance)
	}
	return g
}

// isNews reports whether no problem tells the same: a budget that refuses calls is one.
func (k *Keeper) isNews(f *Finding, now time.Time) bool {
	return f.Account == "" || !slices.ContainsFunc(k.all, func(one *Group) bool {
		return one.Kind == ByLimit && one.Object == f.Account && one.Code == schema.CodeBudgetExceeded &&
			one.state(now) == Refusing
	})
}

// hasFinding reports whether a finding is one of the object that is asked for.
func (o *Object) hasFinding(f *Finding, as *Group) bool {
	if len(o.Accounts) > 0 {
		return slices.Contains(o.Accounts, f.Account)
	}
	return o.has(as)
}

// maxListed is how many models a summary names.
const maxListed = 3

// summary names the object and the cause of a problem in a sentence.
func (k *Keeper) summary(g *Group, now time.Time, words bool) say.Sentence {
	cause := g.Said
	if !words {
		cause = cause.Own()
	}
	if !cause.Is() {
		cause = say.New("problem.code", "code", g.Code)
	}
	switch g.Kind {
	case ByLimit:
		return g.refusal()
	case OfStrangers:
		return say.New("problem.strangers", "refused", g.Refused)
	case OfRequests:
		name := cmp.Or(g.Object, g.Service.String())
		switch {
		case g.Lost > 0:
			return say.New("problem.request_lost", "name", name, "lost", g.Lost, "cause", cause)
		case len(g.Models) == 0 && (g.Code == schema.CodeServiceUnavailable || g.Code == schema.CodeModelNotFound):
			return say.New("problem.unknown", "name", name, "refused", g.Refused)
		}
		return say.New("problem.request_refused", "name", name, "refused", g.Refused, "cause", cause)
	}
	models := strings.Join(g.Models[:min(len(g.Models), maxListed)], ", ")
	if len(g.Models) > maxListed {
		models += fmt.Sprintf(", … (%d)", len(g.Models))
	}
	at := []any{"models", models, "host", g.Host, "cause", cause}
	switch {
	case g.State == Losing && g.Code != schema.CodeUpstreamAuth && k.failsWholly(g, now):
		return say.New("problem.dead", append(at, "lost", g.Lost)...)
	case g.Lost > 0:
		return say.New("problem.lost", append(at, "lost", g.Lost, "rescued", g.Rescued)...)
	case g.Refused > 0:
		return say.New("problem.refused", append(at, "refused", g.Refused)...)
	}
	return say.New("problem.rescued", append(at, "rescued", max(g.Rescued, g.Tried))...)
}

// failsWholly reports whether no model of a problem answers.
func (k *Keeper) failsWholly(g *Group, now time.Time) bool {
	return !slices.ContainsFunc(g.Models, func(model string) bool {
		return !k.models[modelKey{g.Service, model}].fails(now)
	})
}

// refusal says who is refused, by a limit or a budget.
func (g *Group) refusal() say.Sentence {
	who := Who(g.Object)
	if g.State != Refusing {
		return say.New("problem.refused_past", "who", who, "refused", g.Refused)
	}
	code := say.Code("problem.limit")
	switch g.Code {
	case schema.CodeBudgetExceeded:
		code = "problem.budget"
	case schema.CodeBudgetReserved:
		code = "problem.reserved"
	}
	return say.New(code, "who", who, "refused", g.CallsRefused, "calls", max(g.Calls, g.CallsRefused))
}

// Who says whose limit or budget it is.
func Who(account string) say.Sentence {
	kind, name, _ := strings.Cut(account, "/")
	switch kind {
	case "tenant":
		return say.New("who.tenant", "name", name)
	case "key":
		return say.New("who.key", "name", name)
	case "service":
		return say.New("who.service", "name", name)
	case "model":
		return say.New("who.model", "name", name)
	case "instances":
		return say.New("who.instances", "name", name)
	}
	return say.New("who.other", "name", account)
}
