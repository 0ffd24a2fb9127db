package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/say"
)

// said returns what a version changed as codes and values, nil where that is not known.
//
// Versions are stored with a summary in words, because the last release refuses members that
// it does not know. So a version is compared with those that may have been in force before
// it: what leads to the stored summary is what changed.
func (c *Control) said(v *Version) []say.Sentence {
	if v.Summary == firstSummary() {
		return []say.Sentence{say.New("version.first")}
	}
	for _, number := range c.before(v.Number) {
		earlier, err := c.Load(number)
		if err != nil {
			continue
		}
		services := Compare(earlier.Services, v.Services)
		all := append(slices.Clone(services), CompareTerms(c.termsOf(earlier), c.termsOf(v))...)
		switch v.Summary {
		case summarize(all):
			return saidOf(all)
		case summarize(services):
			return saidOf(services)
		case summarizeFile(services):
			return saidOfFile(services)
		}
	}
	return nil
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

// saidOfFile returns what an edit of the configuration file changed.
func saidOfFile(differences []Difference) []say.Sentence {
	if len(differences) == 0 {
		return []say.Sentence{say.New("version.file")}
	}
	added, changed, removed := namesByKind(differences)
	said := []say.Sentence{say.New("version.file_counts", "added", len(added), "changed", len(changed), "removed", len(removed))}
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
	return say.New("change.instance_field", "service", d.Service, "instance", d.Instance, "field", d.Field, "from", from, "to", to)
}
