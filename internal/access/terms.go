package access

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Terms limit the services and models that a key or a tenant may use, and how much. Every surface that
// has terms derives its members, flags and rules from the fields of this type: a field is declared here,
// with its text in Docs, and nowhere else. The tag flag names the flag of the program's verbs; asked marks
// what people ask for in self-service.
type Terms struct {
	Services []schema.ServiceType `json:"services" flag:"service" asked:"true" uniqueItems:"true"`
	// In the names of models and the ids of instances, * matches any text.
	Models    []string `json:"models" flag:"model" asked:"true" minLength:"1"`
	Instances []string `json:"instances,omitzero" flag:"instance" minLength:"1"`
	// Addresses are ranges such as 10.0.0.0/8.
	Addresses []string `json:"addresses" flag:"address" entries:"ranges"`
	// ExpiresAt is an RFC 3339 time.
	ExpiresAt string `json:"expiresAt" flag:"expires" asked:"true" format:"date-time" empty:"true"`
	// Priority is the class of the requests, and the most urgent one that they may ask for;
	// NoClass leaves that to the wider settings.
	Priority schema.Class     `json:"priority,omitzero" flag:"priority" empty:"true"`
	Limits   allowance.Limits `json:"limits" asked:"true"`
	Budgets  budget.Budgets   `json:"budgets" flag:"budget" asked:"true"`
	Runs     budget.RunLimits `json:"runs,omitzero" flag:"run"`
}

// Docs describe the fields for the API and the program's verbs.
func (Terms) Docs() map[string]string {
	return map[string]string{
		"services": "Service types for which it is good; all if none.",
		"models":   "Models for which it is good, * for any text; all if none.",
		"instances": "Ids of the instances to which its requests may go, such as m@http://gpu1:8000, * for any text; " +
			"all if none.",
		"addresses": "Addresses and ranges such as 10.0.0.0/8 from which it may be used; all if none.",
		"expiresAt": "When it ends; never if empty.",
		"priority": "The class of its requests while they wait, and the most urgent one for which they may ask: " +
			"interactive, normal or batch; empty leaves that to the tenant, the defaults or the service type.",
		"budgets": "What may be used up, such as day.tokens=100000, month.cost=500 or total.requests=1000.",
		"runs":    "Limits of each run of an agent, such as cost=5 or tokens=1000000.",
	}
}

// Patterns describe an address or a range, and a time in the future.
func (Terms) Patterns() map[string]string {
	return map[string]string{"addresses": RangePattern, "expiresAt": "^(202[6-9]|20[3-9]|2[1-9]|[3-9])"}
}

// Tenant is a group of keys. Its terms hold for all of them together, in addition to the
// terms of each key.
type Tenant struct {
	Name string `json:"name"`
	Terms
}

// maxEntries bounds the lists of terms, which requests are compared with one by one.
const maxEntries = 1000

// Or returns the terms, completed with the terms of the wider settings.
func (t Terms) Or(wider Terms) Terms {
	for _, f := range Fields() {
		if own := f.In(&t); isNone(own) {
			own.Set(f.In(&wider))
		}
	}
	return t
}

// CheckAt reports the faults of terms at a path.
func (t Terms) CheckAt(at string, report say.Report) {
	for i, service := range t.Services {
		if slices.Contains(t.Services[:i], service) {
			report(fmt.Sprintf("%sservices[%d]", at, i), say.New("field.twice", "name", service))
		}
	}
	for name, list := range map[string][]string{"models": t.Models, "instances": t.Instances} {
		if i := slices.Index(list, ""); i >= 0 {
			report(fmt.Sprintf("%s%s[%d]", at, name, i), say.New("field.empty"))
		}
	}
	for i, text := range t.Addresses {
		if _, err := parseRange(text); err != nil {
			report(fmt.Sprintf("%saddresses[%d]", at, i), say.New("field.address_range"))
		}
	}
	for name, length := range map[string]int{"models": len(t.Models), "instances": len(t.Instances),
		"addresses": len(t.Addresses)} {
		if length > maxEntries {
			report(at+name, say.New("field.entries", "most", maxEntries))
		}
	}
	checkExpiry(at, t.ExpiresAt, report)
	t.Limits.Check(say.Under(at+"limits.", report))
	t.Budgets.Check(say.Under(at+"budgets.", report))
	t.Runs.Check(say.Under(at+"runs.", report))
}

func checkExpiry(at, expires string, report say.Report) {
	if expires == "" {
		return
	}
	if _, err := time.Parse(time.RFC3339, expires); err != nil {
		report(at+"expiresAt", say.New("field.time"))
	}
}

// RangePattern describes a range of addresses, as a regular expression of JSON schema. It leaves
// out addresses of IPv4 that are written as addresses of IPv6.
const RangePattern = `^(` + ipv4 + `(/(3[0-2]|[12]?[0-9]))?|` + ipv6 + `(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?)$`

const (
	octet = `(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	ipv4  = octet + `(\.` + octet + `){3}`
	word  = `[0-9a-fA-F]{1,4}`
	ipv6  = `((` + word + `:){7}` + word + `|(` + word + `:){1,7}:|(` + word + `:){1,6}:` + word + `|(` + word +
		`:){1,5}(:` + word + `){1,2}|(` +
		word + `:){1,4}(:` + word + `){1,3}|(` + word + `:){1,3}(:` + word + `){1,4}|(` + word + `:){1,2}(:` + word +
		`){1,5}|` +
		word + `:(:` + word + `){1,6}|:((:` + word + `){1,7}|:))`
)

// parseRange reads a range of addresses; one address is a range too.
func parseRange(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("no address: %q", text)
		}
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, err
	}
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), nil
}

// IsWithinRange reports whether a range of addresses lies within a wider one.
func IsWithinRange(text, wider string) bool {
	inner, err := parseRange(text)
	outer, failed := parseRange(wider)
	return err == nil && failed == nil && inner.Bits() >= outer.Bits() && outer.Contains(inner.Addr())
}

// Includes reports whether terms allow a model of a service type.
func (t *Terms) Includes(service schema.ServiceType, model string) bool {
	r := newRule(t)
	return r.includes(service, model)
}
