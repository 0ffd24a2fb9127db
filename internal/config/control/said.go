package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/see/say"
)

// said returns the changes of a version as codes and values, nil where they are not
// known.
//
// Versions are stored with a summary in words, because the last release refuses members
// that it does not know, and with their changes beside it. A version without changes is
// compared with the versions that may have been in force before it. The differences that
// give the stored summary are its changes.
func (c *Control) said(v *Version) []say.Sentence {
	if v.Summary == firstSummary() {
		return []say.Sentence{say.New("version.first")}
	}
	if said := saidAs(v.Summary, changesOf(v)); said != nil {
		return said
	}
	for _, number := range c.before(v.Number) {
		earlier, err := c.Load(number)
		if err != nil {
			continue
		}
		if said := saidAs(v.Summary, c.CompareVersions(earlier, v)); said != nil {
			return said
		}
	}
	return nil
}

// keptChanges returns differences as they are stored beside a version: without hidden
// values, which may be parts of secrets. It returns nothing where there are no
// differences, because the summary then has fixed words.
func keptChanges(differences []Difference) jsontext.Value {
	if len(differences) == 0 {
		return nil
	}
	kept := slices.Clone(differences)
	for i, d := range kept {
		if d.isSecret() || d.Field == "instances" {
			kept[i].From, kept[i].To = nil, nil
		}
	}
	changes, err := json.Marshal(kept)
	if err != nil {
		return nil // the name is no text; the versions can still be compared
	}
	return changes
}

// changesOf returns the differences that are stored beside a version, none where they cannot
// be read.
func changesOf(v *Version) []Difference {
	var kept []Difference
	if err := json.Unmarshal(v.Changes, &kept); err != nil {
		return nil
	}
	return kept
}

// saidAs returns differences as codes and values, nil unless they lead to a summary.
func saidAs(summary string, all []Difference) (said []say.Sentence) {
	services := slices.DeleteFunc(slices.Clone(all), Difference.isOfTerms)
	switch summary {
	case summarize(all):
		said = saidOf(all)
	case summarize(services):
		said = saidOf(services)
	case summarizeFile(services):
		said = saidOfFile(services)
	}
	if slices.ContainsFunc(said, func(s say.Sentence) bool { return s.String() == "" }) {
		return nil // a later release has other kinds of changes
	}
	return said
}

// before returns the versions that may have been in force before another one, the likeliest
// first.
func (c *Control) before(number int) []int {
	const most = 4
	var found []int
	add := func(other int) {
		if other > 0 && other != number && !slices.Contains(found, other) {
			found = append(found, other)
		}
	}
	last := 0
	for _, made := range c.Activations() {
		if made.Version == number {
			add(last)
			break
		}
		last = made.Version
	}
	numbers, err := c.Versions()
	if err != nil {
		return found
	}
	for _, other := range slices.Backward(numbers) {
		if other < number && len(found) < most {
			add(other)
		}
	}
	return found
}

// firstSummary returns the summary of the first version.
func firstSummary() string { return say.Text("version.first") }

// saidOf returns differences as codes and values.
func saidOf(differences []Difference) []say.Sentence {
	said := make([]say.Sentence, 0, len(differences))
	for _, d := range differences {
		said = append(said, d.said())
	}
	if len(said) == 0 {
		said = append(said, say.New("version.settings"))
	}
	return say.All(said...)
}

// saidOfFile returns the changes that an edit of the configuration file made.
func saidOfFile(differences []Difference) []say.Sentence {
	if len(differences) == 0 {
		return []say.Sentence{say.New("version.file")}
	}
	added, changed, removed := namesByKind(differences)
	said := []say.Sentence{say.New("version.file_counts", "added", len(added), "changed", len(changed),
		"removed", len(removed))}
	return say.All(append(said, saidOf(differences)...)...)
}

// said returns the difference as a code and values.
func (d Difference) said() say.Sentence {
	from, to := fmt.Sprint(formatValue(d.From)), fmt.Sprint(formatValue(d.To))
	tenant, isTenant := strings.CutPrefix(d.Service, tenantPrefix)
	switch {
	case isTenant && d.Field == "":
		return say.New(say.Code("change.tenant_"+d.Kind), "tenant", tenant)
	case isTenant:
		return say.New("change.tenant_field", "tenant", tenant, "field", d.Field, "from", from, "to", to)
	case d.Service == defaultTerms:
		return say.New("change.defaults_field", "field", d.Field, "from", from, "to", to)
	case d.Instance == "" && d.Field == "":
		return say.New(say.Code("change.service_"+d.Kind), "service", d.Service)
	case d.Field == "instances":
		return say.New("change.order", "service", d.Service)
	case d.Instance == "":
		return say.New("change.service_field", "service", d.Service, "field", d.Field, "from", from, "to", to)
	case d.Field == "":
		return say.New(say.Code("change.instance_"+d.Kind), "service", d.Service, "instance", d.Instance)
	case d.isSecret():
		return say.New("change.instance_secret", "service", d.Service, "instance", d.Instance, "field", d.Field)
	case d.Field == "enabled" && d.To == true:
		return say.New("change.instance_enabled", "service", d.Service, "instance", d.Instance)
	case d.Field == "enabled":
		return say.New("change.instance_disabled", "service", d.Service, "instance", d.Instance)
	}
	return say.New("change.instance_field", "service", d.Service, "instance", d.Instance, "field", d.Field,
		"from", from, "to", to)
}
