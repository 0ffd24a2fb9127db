package selfservice

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
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
	wanted = settings.Clone(wanted)
	for _, f := range access.Fields() {
		switch value := f.In(&wanted).Addr().Interface().(type) {
		case *[]schema.ServiceType:
			narrowList(&f, value, bounds, func(a, b schema.ServiceType) bool { return a == b }, report)
		case *[]string:
			within := isNarrower
			if f.AreRanges {
				within = access.IsWithinRange
			}
			narrowList(&f, value, bounds, within, report)
		case *schema.Class:
			for i := range bounds {
				if most := bounds[i].Terms.Priority; bounds[i].Completes && most != schema.NoClass {
					*value = min(value.Or(most), most)
				}
			}
		case *string:
			*value = narrowTime(*value, bounds, report)
		default:
			narrowNumber(&f, &wanted, bounds, report)
		}
	}
	return wanted
}

// Change is Narrow for a key that has terms already. A field that stays as it was is not completed,
// and one that is emptied is: the key of a team does not get rid of its bounds by a change.
func Change(before, wanted access.Terms, bounds []Bound, report say.Report) access.Terms {
	changed := Narrow(wanted, bounds, report)
	for _, f := range access.Fields() {
		if was := f.In(&before); !f.IsAsked || settings.Equal(f.In(&wanted).Interface(), was.Interface()) {
			f.In(&changed).Set(was)
		}
	}
	return changed
}

// isNarrower reports whether everything that a pattern matches is matched by the wider one. A *
// of the narrower pattern has to be met by a * of the wider one.
func isNarrower(pattern, wider string) bool { return naming.NewPattern(wider).Matches(pattern) }

// narrowList checks a list, in which nothing means everything, against the lists of bounds. An
// empty list becomes what the bounds that complete it have in common.
func narrowList[T any](f *access.Field, list *[]T, bounds []Bound, within func(a, b T) bool, report say.Report) {
	wanted := *list
	defer func() { *list = wanted }()
	isGiven := len(wanted) > 0
	for i := range bounds {
		allowed := f.In(&bounds[i].Terms).Interface().([]T)
		isAllowed := func(one T) bool {
			return slices.ContainsFunc(allowed, func(other T) bool { return within(one, other) })
		}
		switch {
		case len(allowed) == 0, !isGiven && !bounds[i].Completes:
		case isGiven:
			for n, one := range wanted {
				if !isAllowed(one) {
					report(f.Path+"["+strconv.Itoa(n)+"]", say.New("field.beyond", "of", bounds[i].Of))
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
				report(f.Path, say.New("field.nothing_left", "of", bounds[i].Of))
				return
			}
		}
	}
}

// narrowNumber checks a limit or a budget against the bounds. A value that is not positive sets no
// bound. If it is not given, the least of the bounds that complete it takes its place.
func narrowNumber(f *access.Field, wanted *access.Terms, bounds []Bound, report say.Report) {
	value := f.In(wanted)
	if value.Int() < 0 {
		report(f.Path, say.New("field.unlimited"))
		return
	}
	isGiven := value.Int() > 0
	for i := range bounds {
		most := f.In(&bounds[i].Terms)
		switch {
		case most.Int() <= 0:
		case isGiven && value.Int() > most.Int():
			report(f.Path, say.New("field.beyond_number", "most", fmt.Sprint(most), "of", bounds[i].Of))
		case !isGiven && bounds[i].Completes && (value.Int() == 0 || most.Int() < value.Int()):
			value.Set(most)
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
	for _, f := range access.Fields() {
		isBound := func(b Bound) bool { v := f.In(&b.Terms); return v.CanInt() && v.Int() > 0 }
		if slices.ContainsFunc(bounds, isBound) {
			f.In(&rest).SetZero()
		}
	}
	return rest
}
