package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// termFlags are the terms of a key, as flags of its creation and its edit.
type termFlags struct {
	tenant, userHeader, expires, priority  string
	services, models, addresses, budgets   []string
	instances                              []string
	perMinute, tokensPerMinute, concurrent int64
}

func (f *termFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.tenant, "tenant", "", "who uses it: for the quota ledger, and the limits and budgets of the "+
		"tenant")
	set.StringVar(&f.userHeader, "user-header", "", "header that is trusted to name the user of a request, such as "+
		"X-OpenWebUI-User-Email; it goes before user of the body")
	set.StringArrayVar(&f.services, "service", nil, "service type that it is good for; may be repeated (default: all)")
	set.StringArrayVar(&f.models, "model", nil,
		"model that it is good for, * for any text; may be repeated (default: all)")
	set.StringArrayVar(&f.instances, "instance", nil, "id of an instance that its requests may go to, such as "+
		"m@http://gpu1:8000, * for any text; may be repeated (default: all)")
	set.StringArrayVar(&f.addresses, "address", nil,
		"address or range such as 10.0.0.0/8 that it may be used from; may be repeated (default: all)")
	set.StringVar(&f.expires, "expires", "",
		"when it ends: a time such as 2030-01-31T00:00:00Z, or how long from now, such as 720h")
	set.StringVar(&f.priority, "priority", "", "how urgent its requests are while they wait, and may ask to be: "+
		"interactive, normal or batch (default: as its tenant or the service type says)")
	set.Int64Var(&f.perMinute, "requests-per-minute", 0,
		"requests in any sixty seconds; 0 is as security.defaults says, -1 no limit")
	set.Int64Var(&f.tokensPerMinute, "tokens-per-minute", 0, "tokens in any sixty seconds")
	set.Int64Var(&f.concurrent, "concurrent-requests", 0, "requests at the same time")
	set.StringArrayVar(&f.budgets, "budget", nil,
		"what may be used up, such as day.tokens=100000, month.cost=500 or total.requests=1000; may be repeated")
}

// patch returns the given terms in the form of the management API.
func (f *termFlags) patch(cmd *cobra.Command, now time.Time) (map[string]any, error) {
	said := map[string]any{}
	note := func(flag, member string, value any) {
		if cmd.Flags().Changed(flag) {
			said[member] = value
		}
	}
	expires, err := expiry(f.expires, now)
	if err != nil {
		return nil, err
	}
	services := make([]schema.ServiceType, 0, len(f.services))
	for _, name := range nonEmpty(f.services) {
		serviceType, err := schema.ParseServiceType(name)
		if err != nil {
			return nil, err
		}
		services = append(services, serviceType)
	}
	note("tenant", "tenant", f.tenant)
	note("user-header", "userHeader", f.userHeader)
	note("service", "services", services)
	note("model", "models", nonEmpty(f.models))
	note("instance", "instances", nonEmpty(f.instances))
	note("address", "addresses", nonEmpty(f.addresses))
	note("expires", "expiresAt", expires)
	var priority schema.Class
	if err := priority.UnmarshalText([]byte(f.priority)); err != nil {
		return nil, fmt.Errorf("--priority: %w", err)
	}
	note("priority", "priority", priority)
	limits := map[string]any{}
	for flag, limit := range map[string]struct {
		member string
		value  int64
	}{
		"requests-per-minute": {"requestsPerMinute", f.perMinute},
		"tokens-per-minute":   {"tokensPerMinute", f.tokensPerMinute},
		"concurrent-requests": {"concurrentRequests", f.concurrent},
	} {
		if cmd.Flags().Changed(flag) {
			limits[limit.member] = limit.value
		}
	}
	if len(limits) > 0 {
		said["limits"] = limits
	}
	if budgets, err := readBudgets(f.budgets); err != nil {
		return nil, err
	} else if len(budgets) > 0 {
		said["budgets"] = budgets
	}
	return said, nil
}

// nonEmpty leaves out empty texts: --model "" means none.
func nonEmpty(list []string) []string {
	kept := []string{}
	for _, text := range list {
		if text != "" {
			kept = append(kept, text)
		}
	}
	return kept
}

// readBudgets reads budgets such as day.tokens=100.
func readBudgets(list []string) (map[string]map[string]any, error) {
	all := map[string]map[string]any{}
	for _, text := range list {
		place, amount, _ := strings.Cut(text, "=")
		window, unit, _ := strings.Cut(place, ".")
		if !slices.Contains([]string{"day", "month", "total"}, window) ||
			!slices.Contains([]string{"requests", "tokens", "cost"}, unit) {
			return nil, fmt.Errorf("--budget: want day, month or total, then .requests, .tokens or .cost, then = and "+
				"an amount, found %q", text)
		}
		var value any
		var err error
		if unit == "cost" {
			value, err = prices.ParseAmount(amount)
		} else {
			value, err = strconv.ParseInt(amount, 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("--budget: %q is no amount of %s", amount, unit)
		}
		if all[window] == nil {
			all[window] = map[string]any{}
		}
		all[window][unit] = value
	}
	return all, nil
}

// keyLine is one key in a list.
type keyLine struct {
	ID         string               `json:"id"`
	Tenant     string               `json:"tenant"`
	UserHeader string               `json:"userHeader,omitzero"`
	Services   []schema.ServiceType `json:"services"`
	Models     []string             `json:"models"`
	Instances  []string             `json:"instances,omitzero"`
	Addresses  []string             `json:"addresses"`
	ExpiresAt  string               `json:"expiresAt"`
	Priority   schema.Class         `json:"priority,omitzero"`
	Limits     allowance.Limits     `json:"limits"`
	Budgets    budget.Budgets       `json:"budgets"`
	Status     string               `json:"status"`
	Source     string               `json:"source"`
}

// terms prints the models and amounts that the key may use, in the words of the flags.
func (l *keyLine) terms() string {
	var parts []string
	if l.UserHeader != "" {
		parts = append(parts, "user-header="+l.UserHeader)
	}
	for _, service := range l.Services {
		parts = append(parts, "service="+service.String())
	}
	for _, model := range l.Models {
		parts = append(parts, "model="+model)
	}
	for _, instance := range l.Instances {
		parts = append(parts, "instance="+instance)
	}
	for _, address := range l.Addresses {
		parts = append(parts, "address="+address)
	}
	if l.Priority != schema.NoClass {
		parts = append(parts, "priority="+l.Priority.String())
	}
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"requests-per-minute", l.Limits.RequestsPerMinute}, {"tokens-per-minute", l.Limits.TokensPerMinute},
		{"concurrent-requests", l.Limits.ConcurrentRequests},
	} {
		if limit.value != 0 {
			parts = append(parts, limit.name+"="+strconv.FormatInt(limit.value, 10))
		}
	}
	parts = append(parts, budgetWords(l.Budgets)...)
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, " ")
}

func budgetWords(b budget.Budgets) (words []string) {
	for _, window := range []struct {
		name string
		budget.Budget
	}{{"day", b.Day}, {"month", b.Month}, {"total", b.Total}} {
		values := map[string]string{}
		if window.Requests != 0 {
			values["requests"] = strconv.FormatInt(window.Requests, 10)
		}
		if window.Tokens != 0 {
			values["tokens"] = strconv.FormatInt(window.Tokens, 10)
		}
		if window.Cost != 0 {
			values["cost"] = window.Cost.String()
		}
		for _, unit := range slices.Sorted(maps.Keys(values)) {
			words = append(words, window.name+"."+unit+"="+values[unit])
		}
	}
	return words
}
