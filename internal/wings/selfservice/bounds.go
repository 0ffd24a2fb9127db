package selfservice

import (
	"slices"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Bound is a set of terms that a key must keep.
type Bound struct {
	// Of names the setting with the terms, for people.
	Of    string
	Terms access.Terms
	// Completes says that the key takes the terms over where it says nothing itself. The terms of
	// a tenant hold for its keys anyway.
	Completes bool
}

// Narrow returns the wanted terms, completed with the bounds. It reports each field that goes
// beyond a bound.
func Narrow(wanted access.Terms, bounds []Bound, report say.Report) access.Terms {
	wanted.Services = narrowList("services", wanted.Services, bounds,
		func(t *access.Terms) []schema.ServiceType { return t.Services },
		func(a, b schema.ServiceType) bool { return a == b }, report)
	wanted.Models = narrowList("models", wanted.Models, bounds,
		func(t *access.Terms) []string { return t.Models }, isNarrower, report)
	wanted.Instances = narrowList("instances", wanted.Instances, bounds,
		func(t *access.Terms) []string { return t.Instances }, isNarrower, report)
	wanted.Addresses = narrowList("addresses", wanted.Addresses, bounds,
		func(t *access.Terms) []string { return t.Addresses }, access.IsWithinRange, report)
	for i, field := range numbersOf(&wanted) {
		field.narrow(i, bounds, report)
	}
	for _, b := range bounds {
		if b.Completes && b.Terms.Priority != schema.NoClass {
			wanted.Priority = min(wanted.Priority.Or(b.Terms.Priority), b.Terms.Priority)
		}
		if b.Completes { // nobody asks for limits of runs
			wanted.Runs = wanted.Runs.Lesser(b.Terms.Runs)
		}
	}
	wanted.ExpiresAt = narrowTime(wanted.ExpiresAt, bounds, report)
	return wanted
}

// Change is Narrow for a key that has terms already. A field that stays as it was is not completed,
// and one that is emptied is: the key of a team does not get rid of its bounds by a change.
func Change(before, wanted access.Terms, bounds []Bound,
	report say.Report) access.Terms {
	changed := Narrow(wanted, bounds, report)
	if slices.Equal(wanted.Services, before.Services) {
		changed.Services = before.Services
	}
	if slices.Equal(wanted.Models, before.Models) {
		changed.Models = before.Models
	}
	if wanted.ExpiresAt == before.ExpiresAt {
		changed.ExpiresAt = before.ExpiresAt
	}
	was, asked := numbersOf(&before), numbersOf(&wanted)
	for i, field := range numbersOf(&changed) {
		if *asked[i].value == *was[i].value {
			*field.value = *was[i].value
		}
	}
	changed.Instances, changed.Addresses = before.Instances, before.Addresses
	changed.Priority, changed.Runs = before.Priority, before.Runs
	return changed
}

// isNarrower reports whether everything that a pattern matches is matched by the wider one. A *
// of the narrower pattern has to be met by a * of the wider one.
func isNarrower(pattern, wider string) bool { return naming.NewPattern(wider).Matches(pattern) }

// narrowList checks a list, in which nothing means everything, against the lists of bounds. An
// empty list becomes what the bounds that complete it have in common.
func narrowList[T any](path string, wanted []T, bounds []Bound, of func(*access.Terms) []T,
	within func(a, b T) bool, report say.Report) []T {
	isGiven := len(wanted) > 0
	for i := range bounds {
		allowed := of(&bounds[i].Terms)
		isAllowed := func(one T) bool {
			return slices.ContainsFunc(allowed, func(other T) bool { return within(one, other) })
		}
		switch {
		case len(allowed) == 0, !isGiven && !bounds[i].Completes:
		case isGiven:
			for n, one := range wanted {
				if !isAllowed(one) {
					report(path+"["+strconv.Itoa(n)+"]", say.New("field.beyond", "of", bounds[i].Of))
				}
			}
		case len(wanted) == 0:
			wanted = slices.Clone(allowed)
		default:
			common := slices.DeleteFunc(slices.Clone(wanted), func(one T) bool { return !isAllowed(one) })
			for _, other := range allowed {
				if isIn := func(one T) bool { return within(other, one) }; slices.ContainsFunc(wanted, isIn) &&
					!slices.ContainsFunc(common, isIn) {
					common = append(common, other)
				}
			}
			if wanted = common; len(common) == 0 {
				report(path, say.New("field.nothing_left", "of", bounds[i].Of))
				return nil
			}
		}
	}
	return wanted
}

// number is a limit or a budget of terms. A value that is not positive sets no bound.
type number struct {
	path  string
	value *int64
	text  func(int64) string
}

// numbersOf returns the limits and budgets of terms, always in the same order.
func numbersOf(t *access.Terms) []number {
	plain := func(n int64) string { return strconv.FormatInt(n, 10) }
	money := func(n int64) string { return prices.Amount(n).String() }
	all := []number{
		{"limits.requestsPerMinute", &t.Limits.RequestsPerMinute, plain},
		{"limits.tokensPerMinute", &t.Limits.TokensPerMinute, plain},
		{"limits.concurrentRequests", &t.Limits.ConcurrentRequests, plain},
	}
	b := &t.Budgets
	for i, name := range []string{"day", "month", "total"} {
		window := [...]*int64{&b.Day.Requests, &b.Month.Requests, &b.Total.Requests}[i]
		tokens := [...]*int64{&b.Day.Tokens, &b.Month.Tokens, &b.Total.Tokens}[i]
		cost := [...]*prices.Amount{&b.Day.Cost, &b.Month.Cost, &b.Total.Cost}[i]
		all = append(all, number{"budgets." + name + ".requests", window, plain},
			number{"budgets." + name + ".tokens", tokens, plain},
			number{"budgets." + name + ".cost", (*int64)(cost), money})
	}
	return all
}

// narrow checks the number at a place of numbersOf against the bounds. Where it is not given,
// the least of the bounds that complete it takes its place.
func (n number) narrow(place int, bounds []Bound, report say.Report) {
	if *n.value < 0 {
		report(n.path, say.New("field.unlimited"))
		return
	}
	isGiven := *n.value > 0
	for i := range bounds {
		most := *numbersOf(&bounds[i].Terms)[place].value
		switch {
		case most <= 0:
		case isGiven && *n.value > most:
			report(n.path, say.New("field.beyond_number", "most", n.text(most), "of", bounds[i].Of))
		case !isGiven && bounds[i].Completes && (*n.value == 0 || most < *n.value):
			*n.value = most
		}
	}
}

// narrowTime checks the expiry of a key against those of the bounds. Where it is not given, the
// earliest of the bounds that complete it takes its place.
func narrowTime(wanted string, bounds []Bound, report say.Report) string {
	given, err := time.Parse(time.RFC3339, wanted)
	isGiven := err == nil
	for i := range bounds {
		b := &bounds[i]
		latest, err := time.Parse(time.RFC3339, b.Terms.ExpiresAt)
		switch {
		case err != nil: // the bound has none
		case isGiven && given.After(latest):
			report("expiresAt", say.New("field.beyond_time", "most", b.Terms.ExpiresAt, "of", b.Of))
		case !isGiven && b.Completes && (given.IsZero() || latest.Before(given)):
			given, wanted = latest, b.Terms.ExpiresAt
		}
	}
	return wanted
}

// Bounds returns the bounds of a key that is made now, for a member of a tenant. The defaults of
// all keys bound the limits and budgets that nothing else bounds.
func (s *Settings) Bounds(member access.Membership, terms access.TermSet, now time.Time) []Bound {
	life := access.Terms{ExpiresAt: now.Add(s.LongestLife.Length()).UTC().Truncate(time.Second).Format(time.RFC3339)}
	bounds := []Bound{
		{"security.oidc rules.terms", member.Terms, true},
		{"security.self-service.terms", s.Terms, true},
		{"security.self-service.longest-life", life, true},
	}
	bounds = append(bounds, TenantBounds(member.Tenant, terms)...)
	return append(bounds, Bound{"security.defaults", unbounded(terms.Defaults, bounds), false})
}

// TenantBounds returns the terms of a tenant as a bound, none where it has no terms.
func TenantBounds(tenant string, terms access.TermSet) []Bound {
	n := terms.Tenant(tenant)
	if n < 0 {
		return nil
	}
	return []Bound{{"security.tenants " + tenant, terms.Tenants[n].Terms, false}}
}

// unbounded returns the limits and budgets of the defaults that no bound has.
func unbounded(defaults access.Terms, bounds []Bound) access.Terms {
	rest := access.Terms{Limits: defaults.Limits, Budgets: defaults.Budgets}
	for i, field := range numbersOf(&rest) {
		for n := range bounds {
			if *numbersOf(&bounds[n].Terms)[i].value > 0 {
				*field.value = 0
			}
		}
	}
	return rest
}
