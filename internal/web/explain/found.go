package explain

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Found is what an instance that discovers models has found, as JSON.
type Found struct {
	Models []string   `json:"models" doc:"Those that it serves; each has an instance of its own in monitoring."`
	ReadAt *time.Time `json:"readAt" doc:"When the backend was asked last; null before that."`
	Error  string     `json:"error,omitzero" doc:"Why the backend did not tell its models; those that were known stay."`
}

// FoundBy returns what an instance has found.
func FoundBy(table *routing.Table, serviceType schema.ServiceType, id string) *Found {
	view := &Found{Models: []string{}}
	for _, source := range table.Sources() {
		if source.Service.Type != serviceType || source.Settings.ID() != id {
			continue
		}
		list := table.Found().Of(source.Key())
		view.Error = list.Error
		if !list.Read.IsZero() {
			at := list.Read.UTC().Truncate(time.Millisecond)
			view.ReadAt = &at
		}
		for _, model := range list.Models {
			if table.Service(serviceType).Instance(source.Settings.Found(model).ID()) != nil {
				view.Models = append(view.Models, model)
			}
		}
	}
	return view
}
