package differences

import (
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// SaidOf returns differences as codes and values.
func SaidOf(differences []Difference) []say.Sentence {
	said := make([]say.Sentence, 0, len(differences))
	for _, d := range differences {
		said = append(said, d.said())
	}
	if len(said) == 0 {
		said = append(said, say.New("version.settings"))
	}
	return say.All(said...)
}

// SaidOfFile returns the changes that an edit of the configuration file made.
func SaidOfFile(differences []Difference) []say.Sentence {
	if len(differences) == 0 {
		return []say.Sentence{say.New("version.file")}
	}
	added, changed, removed := namesByKind(differences)
	said := []say.Sentence{say.New("version.file_counts", "added", len(added), "changed", len(changed),
		"removed", len(removed))}
	return say.All(append(said, SaidOf(differences)...)...)
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
	case d.isManaged():
		return say.New("change.section_field", "section", d.Service, "field", d.Field, "from", from, "to", to)
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
