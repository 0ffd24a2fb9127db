package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// keyTerms are the terms of a key: the flags of its creation and its edit, and the words of a list.
func keyTerms() []flag {
	return []flag{
		{"tenant", "tenant", "", "who uses it: for the quota ledger, and the limits and budgets of the tenant", nil},
		expiry(),
		{"user-header", "userHeader", "", "header that is trusted to name the user of a request, such as " +
			"X-OpenWebUI-User-Email; it goes before user of the body", nil},
		{"service", "services", []string(nil), "service type that it is good for; may be repeated (default: all)",
			readServices},
		{"model", "models", []string(nil),
			"model that it is good for, * for any text; may be repeated (default: all)", nil},
		{"instance", "instances", []string(nil), "id of an instance that its requests may go to, such as " +
			"m@http://gpu1:8000, * for any text; may be repeated (default: all)", nil},
		{"address", "addresses", []string(nil),
			"address or range such as 10.0.0.0/8 that it may be used from; may be repeated (default: all)", nil},
		{"priority", "priority", "", "how urgent its requests are while they wait, and may ask to be: " +
			"interactive, normal or batch (default: as its tenant or the service type says)", readPriority},
		{"requests-per-minute", "limits.requestsPerMinute", int64(0),
			"requests in any sixty seconds; 0 is as security.defaults says, -1 no limit", nil},
		{"tokens-per-minute", "limits.tokensPerMinute", int64(0), "tokens in any sixty seconds", nil},
		{"concurrent-requests", "limits.concurrentRequests", int64(0), "requests at the same time", nil},
		{"budget", "budgets", []string(nil),
			"what may be used up, such as day.tokens=100000, month.cost=500 or total.requests=1000; may be repeated",
			readBudgets},
	}
}

func readServices(names []string) (any, error) {
	services := make([]schema.ServiceType, len(names))
	for i, name := range names {
		var err error
		if services[i], err = schema.ParseServiceType(name); err != nil {
			return nil, err
		}
	}
	return services, nil
}

func readPriority(values []string) (any, error) {
	var priority schema.Class
	if err := priority.UnmarshalText([]byte(values[0])); err != nil {
		return nil, fmt.Errorf("--priority: %w", err)
	}
	return priority, nil
}

// readBudgets reads budgets such as day.tokens=100.
func readBudgets(list []string) (any, error) {
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
	ID         string           `json:"id"`
	Tenant     string           `json:"tenant"`
	UserHeader string           `json:"userHeader,omitzero"`
	Services   []string         `json:"services"`
	Models     []string         `json:"models"`
	Instances  []string         `json:"instances,omitzero"`
	Addresses  []string         `json:"addresses"`
	ExpiresAt  string           `json:"expiresAt"`
	Priority   string           `json:"priority,omitzero"`
	Limits     allowance.Limits `json:"limits"`
	Budgets    jsontext.Value   `json:"budgets"`
	Status     string           `json:"status"`
	Source     string           `json:"source"`
}

// terms prints the models and amounts that the key may use, in the words of the flags.
func (l *keyLine) terms() string {
	content, err := json.Marshal(l)
	members := map[string]any{}
	if err != nil || json.Unmarshal(content, &members) != nil {
		return "-"
	}
	var words []string
	for _, f := range keyTerms()[2:] { // tenant and end are in columns of their own
		outer, inner, isInner := strings.Cut(f.member, ".")
		value := members[outer]
		if group, _ := value.(map[string]any); isInner {
			value = group[inner]
		}
		words = appendTerm(words, f.name, value)
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, " ")
}

// appendTerm appends a term with a value, as a flag gives it: once for each element of a list, and
// by their own names for the members of an object.
func appendTerm(words []string, name string, value any) []string {
	switch value := value.(type) {
	case string:
		if value != "" {
			words = append(words, name+"="+value)
		}
	case float64:
		if value != 0 {
			words = append(words, name+"="+strconv.FormatFloat(value, 'f', -1, 64))
		}
	case []any:
		for _, element := range value {
			words = appendTerm(words, name, element)
		}
	case map[string]any:
		for _, member := range slices.Sorted(maps.Keys(value)) {
			words = appendTerm(words, strings.TrimPrefix(name+".", "budget.")+member, value[member])
		}
	}
	return words
}
