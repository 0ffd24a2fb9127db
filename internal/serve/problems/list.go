package problems

import (
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// State says what a problem does to calls now. The worst state comes first.
type State string

// The states.
const (
	// Losing problems lost a call a moment ago.
	Losing State = "losing"
	// Unserved is a model or a service that no instance can serve, as a Finding says.
	Unserved State = "unserved"
	// Refusing problems refused a call a moment ago.
	Refusing State = "refusing"
	// Rescuing problems made a call fail a moment ago that was answered all the same.
	Rescuing State = "rescuing"
	// Found is a Finding: no call failed because of it.
	Found State = "found"
	// Waiting problems did nothing for a moment, and are not over yet.
	Waiting State = "waiting"
	// Over problems have ended.
	Over State = "over"
)

// States returns every state, the worst first.
func States() []State { return []State{Losing, Unserved, Refusing, Rescuing, Found, Waiting, Over} }

// Names returns the names of all states.
func (State) Names() []string {
	names := make([]string, 0, len(States()))
	for _, one := range States() {
		names = append(names, string(one))
	}
	return names
}

func (s *span) state(now time.Time) State {
	switch {
	case now.Sub(s.Last) > Quiet:
		return Over
	case now.Sub(s.lostAt) < Now:
		return Losing
	case now.Sub(s.refusedAt) < Now:
		return Refusing
	case now.Sub(s.Last) < Now:
		return Rescuing
	}
	return Waiting
}

// Object narrows problems to those of one object. Empty members narrow nothing.
type Object struct {
	Service               *schema.ServiceType
	Model, Instance, Host string
	// Accounts are names by AccountsOf.
	Accounts []string
}

// isOne reports whether the problems are those of a single object.
func (o *Object) isOne() bool { return o.Model != "" || o.Instance != "" || len(o.Accounts) > 0 }

// has reports whether a problem is one of the object.
func (o *Object) has(g *Group) bool {
	return (o.Service == nil || *o.Service == g.Service) && (o.Host == "" || o.Host == g.Host) &&
		(o.Instance == "" || slices.Contains(g.Instances, o.Instance)) && (o.Model == "" || g.isOf(o.Model))
}

// isOf reports whether the problem is one of a model.
func (g *Group) isOf(model string) bool {
	if g.Kind == ByLimit {
		return g.Object == "model/"+model || g.Object == "instances/"+model
	}
	return slices.Contains(g.Models, model) || g.Kind == OfRequests && g.Object == model
}

// list returns the problems of an object, or of all of them. The models of one host that fail alike
// are folded into one, unless one object is asked for. The lock is held.
func (k *Keeper) list(now time.Time, of *Object) []Group {
	k.forget(now)
	var list []Group
	for _, one := range k.all {
		if !of.has(one) {
			continue
		}
		if view, ok := k.view(one, now, of.Accounts); ok {
			list = append(list, view)
		}
	}
	if !of.isOne() {
		list = fold(list)
	}
	return list
}

// Latest returns problems of an object that are not folded, the one that happened last first.
func (k *Keeper) Latest(now time.Time, of Object, most int) []Group {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []Group
	for _, one := range k.all {
		if view, ok := k.view(one, now, of.Accounts); ok && of.has(one) {
			list = append(list, view)
		}
	}
	slices.SortFunc(list, func(a, b Group) int { return b.Last.Compare(a.Last) })
	return list[:min(len(list), most)]
}

// rank orders problems: by what they do to calls now, and those of strangers last.
func (g *Group) rank() int {
	rank := slices.Index(States(), g.State)
	if g.Kind == OfStrangers {
		rank += len(States())
	}
	return rank
}

// forget drops what is long over.
func (k *Keeper) forget(now time.Time) {
	k.all = slices.DeleteFunc(k.all, func(one *Group) bool {
		isOld := now.Sub(one.Last) > forgotten
		if isOld && k.open[one.Key] == one {
			delete(k.open, one.Key)
		}
		return isOld
	})
	for account, one := range k.tracked {
		if one.sum(now, Lately)[1] == 0 {
			delete(k.tracked, account)
		}
	}
}

// view returns a copy of a problem as some accounts have it, or as it is without accounts. It
// reports whether they have it.
func (k *Keeper) view(one *Group, now time.Time, accounts []string) (Group, bool) {
	view := *one
	view.accounts = nil
	view.Models, view.Instances, view.Fallbacks = slices.Clone(one.Models), slices.Clone(one.Instances),
		slices.Clone(one.Fallbacks)
	if len(accounts) > 0 {
		view.span = span{}
		for _, account := range accounts {
			if own := one.accounts[account]; own != nil {
				view.span.merge(own)
			}
		}
	}
	if view.Last.IsZero() {
		return view, false
	}
	if counts := k.tracked[one.Object]; one.Kind == ByLimit && counts != nil {
		lately := counts.sum(now, Lately)
		view.Calls, view.CallsRefused = lately[0], lately[1]
	}
	view.State = view.state(now)
	return view, true
}

// merge adds the calls of another span.
func (s *span) merge(other *span) {
	s.Counts.add(other.Counts)
	if s.First.IsZero() || other.First.Before(s.First) {
		s.First = other.First
	}
	if other.Last.After(s.Last) {
		s.Last, s.RequestID = other.Last, other.RequestID
	}
	if other.lostAt.After(s.lostAt) {
		s.lostAt = other.lostAt
	}
	if other.refusedAt.After(s.refusedAt) {
		s.refusedAt = other.refusedAt
	}
}

// fold makes one problem of those of a host that share their cause.
func fold(list []Group) []Group {
	type cause struct {
		Key
		isOver bool
	}
	first := map[cause]int{}
	var folded []Group
	slices.SortFunc(list, func(a, b Group) int { return a.First.Compare(b.First) })
	for _, one := range list {
		key := cause{one.Key, one.State == Over}
		key.Object = one.Host
		at, known := first[key]
		if one.Kind != AtBackend || !known || one.First.Sub(folded[at].Last) > Quiet {
			first[key] = len(folded)
			folded = append(folded, one)
			continue
		}
		to := &folded[at]
		if one.Last.After(to.Last) {
			to.Said, to.Sent = one.Said, one.Sent
		}
		to.span.merge(&one.span)
		to.lately.merge(&one.lately)
		to.Models, to.Instances = named(to.Models, one.Models), named(to.Instances, one.Instances)
		for _, other := range one.Fallbacks {
			to.takeOver(other.Model, other.By)
		}
		to.State = States()[min(slices.Index(States(), to.State), slices.Index(States(), one.State))]
	}
	return folded
}

// named adds names to a list that is not too long.
func named(list, more []string) []string {
	for _, name := range more {
		if len(list) < maxNamed && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}
