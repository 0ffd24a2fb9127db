package selfservice_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/selfservice"
)

// A key never exceeds the terms of its rule, of self-service, or of its tenant, whatever a
// person asks for: a request is refused, or its terms allow nothing that a bound does not.
func TestNoKeyExceedsItsBounds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now().UTC().Truncate(time.Second)
	settings := selfservice.DefaultSettings()
	accepted := 0
	for range 4_000 {
		member := access.Membership{Tenant: "t", Role: access.Member, Terms: someTerms(random, now)}
		settings.Terms = someTerms(random, now)
		tenant := someTerms(random, now)
		terms := access.TermSet{Tenants: []access.Tenant{{Name: "t", Terms: tenant}}}
		var faults []string
		got := selfservice.Narrow(someTerms(random, now), settings.Bounds(member, terms, now),
			func(path string, fault say.Sentence) { faults = append(faults, path+" "+fault.String()) })
		if len(faults) > 0 {
			continue
		}
		accepted++
		expires, err := time.Parse(time.RFC3339, got.ExpiresAt)
		if err != nil || expires.After(now.Add(90*24*time.Hour)) {
			t.Fatalf("it expires at %q", got.ExpiresAt)
		}
		// The terms of the tenant hold for the key in any case; a key that says nothing relies on that.
		for _, bound := range []access.Terms{member.Terms, settings.Terms} {
			if limit := bound.Limits.RequestsPerMinute; limit > 0 && (got.Limits.RequestsPerMinute <= 0 || got.Limits.RequestsPerMinute > limit) {
				t.Fatalf("%d requests a minute, %d are allowed", got.Limits.RequestsPerMinute, limit)
			}
			if most := bound.Budgets.Day.Cost; most > 0 && (got.Budgets.Day.Cost <= 0 || got.Budgets.Day.Cost > most) {
				t.Fatalf("%v a day, %v is allowed", got.Budgets.Day.Cost, most)
			}
			for _, model := range []string{"a", "b", "ab", "abc", "xyz", "a-1", "b-1"} {
				for _, service := range []schema.ServiceType{schema.Chat, schema.Embedding} {
					if got.Includes(service, model) && !bound.Includes(service, model) {
						t.Fatalf("%v of %v is allowed by %+v and not by %+v", model, service, got, bound)
					}
				}
			}
		}
		if limit := tenant.Limits.RequestsPerMinute; limit > 0 && got.Limits.RequestsPerMinute > max(limit, member.Terms.Limits.RequestsPerMinute, settings.Terms.Limits.RequestsPerMinute) {
			t.Fatalf("%d requests a minute, the tenant has %d", got.Limits.RequestsPerMinute, limit)
		}
	}
	if accepted < 200 {
		t.Errorf("only %d of the requests were good", accepted)
	}
}

func someTerms(random *rand.Rand, now time.Time) (terms access.Terms) {
	pick := func(from ...string) (list []string) {
		for _, one := range from {
			if random.IntN(4) == 0 {
				list = append(list, one)
			}
		}
		return list
	}
	terms.Models = pick("a", "b", "a*", "*c", "*", "ab*", "a*c", "xyz")
	if random.IntN(3) == 0 {
		terms.Services = []schema.ServiceType{schema.Chat}
	}
	terms.Limits.RequestsPerMinute = []int64{0, 0, 10, 60, -1}[random.IntN(5)]
	terms.Budgets.Day.Cost = 1_000_000_000_000 * [...]prices.Amount{0, 0, 1, 5}[random.IntN(4)]
	if random.IntN(4) == 0 {
		terms.ExpiresAt = now.Add(time.Duration(random.IntN(100*24)) * time.Hour).Format(time.RFC3339)
	}
	return terms
}

// TestBoundsAreNamed: a refusal names the field, and the terms that it goes beyond.
func TestBoundsAreNamed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	settings := selfservice.DefaultSettings()
	settings.Terms.Limits.RequestsPerMinute = 60
	settings.Terms.Addresses = []string{"10.0.0.0/8"}
	member := access.Membership{Tenant: "t", Terms: access.Terms{Models: []string{"gpt-*", "small"}, Addresses: []string{"10.1.0.0/16", "192.0.2.1"}}}
	terms := access.TermSet{Tenants: []access.Tenant{{Name: "t"}}}
	terms.Tenants[0].Budgets.Day.Requests = 100
	terms.Defaults.Limits.TokensPerMinute = 1000
	for want, ask := range map[string]func(*access.Terms){
		"": func(*access.Terms) {},
		"models[1] is beyond security.oidc rules.terms":                                                                func(t *access.Terms) { t.Models = []string{"gpt-4*", "*"} },
		"limits.requestsPerMinute must be at most 60, which security.self-service.terms allows":                        func(t *access.Terms) { t.Limits.RequestsPerMinute = 61 },
		"budgets.day.requests must be at most 100, which security.tenants t allows":                                    func(t *access.Terms) { t.Budgets.Day.Requests = 101 },
		"limits.tokensPerMinute must be at most 1000, which security.defaults allows":                                  func(t *access.Terms) { t.Limits.TokensPerMinute = 1001 },
		"limits.concurrentRequests must not be negative: a key of your own cannot be without a limit that others have": func(t *access.Terms) { t.Limits.ConcurrentRequests = -1 },
		"expiresAt must be no later than ":                                                                             func(t *access.Terms) { t.ExpiresAt = now.AddDate(1, 0, 0).Format(time.RFC3339) },
	} {
		var wanted access.Terms
		ask(&wanted)
		var faults []string
		got := selfservice.Narrow(wanted, settings.Bounds(member, terms, now), func(path string, fault say.Sentence) { faults = append(faults, path+" "+fault.String()) })
		if told := strings.Join(faults, "; "); !strings.HasPrefix(told, want) || want == "" && told != "" {
			t.Errorf("%q, want %q", told, want)
		}
		if want == "" && (!slices.Equal(got.Models, member.Terms.Models) || got.Limits.RequestsPerMinute != 60 || !slices.Equal(got.Addresses, []string{"10.1.0.0/16"})) {
			t.Errorf("a key for which nothing is asked: %+v", got)
		}
	}
}

// A change of a key never lifts a bound: whoever empties a field gets what the terms allow, and a field that stays is left
// as it is.
func TestAChangeLiftsNoBound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	now := time.Now().UTC().Truncate(time.Second)
	settings := selfservice.DefaultSettings()
	accepted := 0
	for range 4_000 {
		member := access.Membership{Tenant: "t", Role: access.TeamAdmin, Terms: someTerms(random, now)}
		settings.Terms = someTerms(random, now)
		bounds := settings.Bounds(member, access.TermSet{Tenants: []access.Tenant{{Name: "t"}}}, now)
		faults := 0
		count := func(string, say.Sentence) { faults++ }
		before := selfservice.Narrow(access.Terms{}, bounds, count)
		got := selfservice.Change(before, someTerms(random, now), bounds, count)
		if faults > 0 {
			continue
		}
		accepted++
		again := selfservice.Narrow(got, bounds, func(path string, fault say.Sentence) { t.Fatalf("%s %s: %+v", path, fault, got) })
		if again.ExpiresAt != got.ExpiresAt || again.Limits != got.Limits || again.Budgets != got.Budgets || again.Runs != got.Runs ||
			!slices.Equal(again.Models, got.Models) || !slices.Equal(again.Services, got.Services) {
			t.Fatalf("%+v was changed to %+v, and %+v is allowed", before, got, again)
		}
	}
	if accepted < 200 {
		t.Errorf("only %d of the changes were good", accepted)
	}
	free := access.Terms{Instances: []string{"m@x"}, Addresses: []string{"192.0.2.1"}, Priority: schema.Interactive}
	free.Runs.Cost = 7
	wanted := free
	wanted.Models = []string{"a"}
	wanted.Runs.Cost, wanted.Instances = 0, nil
	settings.Terms = access.Terms{Models: []string{"a*"}}
	settings.Terms.Limits.RequestsPerMinute, settings.Terms.Runs.Cost = 60, 1
	got := selfservice.Change(free, wanted, settings.Bounds(access.Membership{Tenant: "t"}, access.TermSet{}, now),
		func(path string, fault say.Sentence) { t.Errorf("%s %s", path, fault) })
	if got.ExpiresAt != "" || got.Limits.RequestsPerMinute != 0 || got.Runs.Cost != 7 || len(got.Instances) != 1 || got.Priority != schema.Interactive {
		t.Errorf("a change of the models left %+v", got)
	}
}

// What is not asked for becomes the least that the terms allow, the limits of runs and the expiry too.
func TestTermsCompleteAKey(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	settings := selfservice.DefaultSettings()
	settings.Terms.Runs.Cost, settings.Terms.Runs.Requests = 5, 10
	member := access.Membership{Tenant: "t", Terms: access.Terms{ExpiresAt: now.AddDate(2, 0, 0).Format(time.RFC3339)}}
	member.Terms.Runs.Cost = 3
	terms := access.TermSet{Tenants: []access.Tenant{{Name: "t", Terms: access.Terms{ExpiresAt: now.AddDate(0, 0, 7).Format(time.RFC3339)}}}}
	got := selfservice.Narrow(access.Terms{}, settings.Bounds(member, terms, now), func(path string, fault say.Sentence) { t.Errorf("%s %s", path, fault) })
	if got.Runs.Cost != 3 || got.Runs.Requests != 10 {
		t.Errorf("the limits of runs are %+v", got.Runs)
	}
	if want := now.Add(settings.LongestLife.Length()).Format(time.RFC3339); got.ExpiresAt != want {
		t.Errorf("it expires at %s, want %s", got.ExpiresAt, want)
	}
}
