// Package differences lists how two configurations differ, in words and as codes.
package differences

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Difference is one thing that two configurations do not have in common. It
// holds no secrets: keys and headers are masked.
type Difference struct {
	// Service is the service type that differs, "defaults" or "tenant NAME" for the terms of
	// keys, or the name of a section that management can change.
	Service string `json:"service" doc:"The service type, defaults or tenant NAME for terms of keys, or a section."`
	// Instance is the identifier of the instance that differs, empty where the
	// difference is one of the service type.
	Instance string `json:"instance,omitzero"`
	// Field is the field that differs, empty where the whole was added or removed.
	Field string `json:"field,omitzero"`
	Kind  string `json:"kind" enum:"added,removed,changed"`
	From  any    `json:"from,omitzero"`
	To    any    `json:"to,omitzero"`
}

// Kinds of differences.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Compare lists the changes that turn one configuration into the other.
func Compare(from, to versions.Services) []Difference {
	var found []Difference
	for _, serviceType := range schema.ServiceTypes() {
		before, had := from[serviceType]
		after, has := to[serviceType]
		switch {
		case had && has:
			found = append(found, compareService(serviceType, before, after)...)
		case had:
			found = append(found, Difference{Service: serviceType.String(), Kind: Removed})
		case has:
			found = append(found, Difference{Service: serviceType.String(), Kind: Added})
			found = append(found, compareInstances(serviceType, nil, after.Instances)...)
		}
	}
	return found
}

func compareService(serviceType schema.ServiceType, before, after config.Service) []Difference {
	var found []Difference
	b, a := before, after
	b.Instances, a.Instances = nil, nil
	if !settings.Equal(b, a) {
		found = compareFields(Difference{Service: serviceType.String()}, fieldsOf(b), fieldsOf(a))
	}
	return append(found, compareInstances(serviceType, before.Instances, after.Instances)...)
}

func compareInstances(serviceType schema.ServiceType, before, after []backend.Settings) []Difference {
	var found []Difference
	old := make(map[string]backend.Settings, len(before))
	for _, instance := range before {
		old[instance.ID()] = instance
	}
	var kept []string
	isKept := make(map[string]bool, len(after))
	for _, instance := range after {
		id := instance.ID()
		at := Difference{Service: serviceType.String(), Instance: id}
		previous, had := old[id]
		switch {
		case !had:
			at.Kind = Added
			found = append(found, at)
			continue
		case !settings.Equal(previous, instance):
			found = append(found, compareFields(at, fieldsOf(withoutSecrets(previous)),
				fieldsOf(withoutSecrets(instance)))...)
			found = append(found, compareSecrets(at, previous, instance)...)
		}
		kept = append(kept, id)
		isKept[id] = true
	}
	var stayed []string
	for _, instance := range before {
		if isKept[instance.ID()] {
			stayed = append(stayed, instance.ID())
			continue
		}
		found = append(found, Difference{Service: serviceType.String(), Instance: instance.ID(), Kind: Removed})
	}
	if !slices.Equal(stayed, kept) {
		found = append(found, Difference{Service: serviceType.String(), Field: "instances", Kind: Changed, From: stayed,
			To: kept})
	}
	return found
}

// withoutSecrets returns an instance without its secrets, which compareSecrets
// compares.
func withoutSecrets(s backend.Settings) backend.Settings {
	s.APIKey, s.Headers, s.Proxy = backend.Secret{}, nil, transport.MaskedProxy(s.Proxy)
	return s
}

func compareSecrets(at Difference, before, after backend.Settings) []Difference {
	var found []Difference
	if before.Doubt != after.Doubt {
		found = append(found, Difference{Service: at.Service, Instance: at.Instance, Field: "doubt", Kind: Changed,
			From: string(before.Doubt), To: string(after.Doubt)})
	}
	note := func(field string, from, to backend.Secret) {
		if from == to {
			return
		}
		at.Field, at.Kind, at.From, at.To = field, Changed, from.Masked(), to.Masked()
		found = append(found, at)
	}
	note("apiKey", before.APIKey, after.APIKey)
	if shown := transport.MaskedProxy(after.Proxy); before.Proxy != after.Proxy &&
		transport.MaskedProxy(before.Proxy) == shown {
		at.Field, at.Kind, at.From, at.To = "proxy", Changed, shown, shown
		found = append(found, at)
	}
	for _, name := range slices.Sorted(maps.Keys(merged(before.Headers, after.Headers))) {
		note("headers["+strconv.Quote(name)+"]", before.Headers[name], after.Headers[name])
	}
	return found
}

func merged(a, b map[string]backend.Secret) map[string]backend.Secret {
	all := make(map[string]backend.Secret, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

func compareFields(at Difference, before, after map[string]any) []Difference {
	names := maps.Clone(before)
	maps.Copy(names, after)
	var found []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] != after[name] {
			at.Field, at.Kind, at.From, at.To = name, Changed, before[name], after[name]
			found = append(found, at)
		}
	}
	return found
}

// fieldsOf returns the single values of settings by their names, such as
// rateLimit.capacity; a list is one value. A name that is absent has no value.
func fieldsOf(settings any) map[string]any {
	data, _ := json.Marshal(settings) // settings can always be encoded
	var tree map[string]any
	_ = json.Unmarshal(data, &tree)
	flat := make(map[string]any)
	flatten("", tree, flat)
	return flat
}

func flatten(prefix string, tree map[string]any, flat map[string]any) {
	for name, value := range tree {
		switch v := value.(type) {
		case map[string]any:
			flatten(prefix+name+".", v, flat)
		case []any:
			// Instances were taken out; the other lists hold names.
			names := make([]string, len(v))
			for i, element := range v {
				names[i] = fmt.Sprint(element)
			}
			flat[prefix+name] = strings.Join(names, ", ")
		default:
			flat[prefix+name] = v
		}
	}
}

// Text prints the difference on one line.
func (d Difference) Text() string {
	var out strings.Builder
	sign := map[string]string{Added: "+ ", Removed: "- ", Changed: "~ "}[d.Kind]
	out.WriteString(sign + d.Service)
	if d.Instance != "" {
		out.WriteString(" " + d.Instance)
	}
	if d.Field != "" {
		fmt.Fprintf(&out, ": %s %v → %v", d.Field, formatValue(d.From), formatValue(d.To))
	}
	return out.String()
}

func formatValue(value any) any {
	if value == "" || value == nil {
		return "(none)"
	}
	if number, ok := value.(float64); ok {
		return strconv.FormatFloat(number, 'f', -1, 64) // %v writes 3.6e+06
	}
	return value
}

// Summarize describes the changes in one short line.
func Summarize(differences []Difference) string {
	const longest = 240
	var parts []string
	var seen []string
	for _, d := range differences {
		if slices.Contains(seen, d.Service) {
			continue
		}
		seen = append(seen, d.Service)
		if part := summarizeService(d.Service, differences); part != "" {
			parts = append(parts, d.Service+": "+part)
		}
	}
	if len(parts) == 0 {
		return say.Text("version.settings")
	}
	line := strings.Join(parts, "; ")
	if len(line) > longest {
		line = strings.ToValidUTF8(line[:longest], "") + "…"
	}
	return line
}

func summarizeService(of string, differences []Difference) string {
	var added, removed, words []string
	for _, d := range differences {
		switch {
		case d.Service != of:
		case d.Instance == "" && d.Field == "":
			words = append(words, d.Kind)
		case d.Field == "instances":
			words = append(words, "order of the instances")
		case d.Field != "" && d.Instance != "":
			words = append(words, fmt.Sprintf("%s on %s", d.change(), ShortID(d.Instance)))
		case d.Field != "":
			words = append(words, d.change())
		case d.Kind == Added:
			added = append(added, ShortID(d.Instance))
		default:
			removed = append(removed, ShortID(d.Instance))
		}
	}
	return strings.Join(append(append(words, countNames("+", added)...), countNames("-", removed)...), ", ")
}

func (d Difference) change() string {
	if d.isSecret() {
		return d.Field + " changed"
	}
	return fmt.Sprintf("%s %v→%v", d.Field, formatValue(d.From), formatValue(d.To))
}

// isSecret reports whether a secret differs. The values of secrets are masked.
func (d Difference) isSecret() bool {
	return d.Field == "apiKey" || strings.HasPrefix(d.Field, "headers[")
}

func countNames(sign string, instances []string) []string {
	const named = 3
	if len(instances) == 0 {
		return nil
	}
	noun := "instances"
	if len(instances) == 1 {
		noun = "instance"
	}
	text := fmt.Sprintf("%s%d %s %s", sign, len(instances), noun,
		strings.Join(instances[:min(named, len(instances))], " "))
	if len(instances) > named {
		text += " …"
	}
	return []string{text}
}

// ShortID shortens the identifier of an instance to its name and host.
func ShortID(id string) string {
	// The base URL begins at the last "@" before its scheme; names may hold "@".
	for _, scheme := range []string{"@https://", "@http://"} {
		if at := strings.LastIndex(id, scheme); at >= 0 {
			if parsed, err := url.Parse(id[at+1:]); err == nil {
				return id[:at] + "@" + parsed.Host
			}
		}
	}
	return id
}
