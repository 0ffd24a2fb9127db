// Package hedge decides when a second instance is asked because the first one takes longer
// than such calls do. It learns that time from answers, and limits the number of second
// calls. It calls nobody: package proxy does.
package hedge

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Settings say which calls are hedged. The zero value hedges none.
type Settings struct {
	Enabled bool `json:"enabled,omitzero"`
	// Paid allows it for models that have a price, too: both calls are paid then.
	Paid bool `json:"paid,omitzero"`
}

// Docs describes the members that a tag has no room for.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"enabled": "Whether a second instance is asked when the first takes longer than 95 % of such calls do.",
		"paid":    "Whether that holds for models that have a price, too; both calls are paid then.",
	}
}

// Check reports every setting that has a value it may not have.
func (s Settings) Check(service schema.ServiceType, report say.Report) {
	if s.Enabled && !Hedges(service) {
		report("enabled", say.New("field.hedge_services"))
	}
}

// Hedges reports whether a service type has calls without side effects.
func Hedges(service schema.ServiceType) bool {
	switch service {
	case schema.Chat, schema.Embedding, schema.Rerank, schema.STT:
		return true
	}
	return false
}
