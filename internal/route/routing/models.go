package routing

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Model is one entry of the list of models.
type Model struct {
	ID string
	// Target is the model of an alias, empty for a model.
	Target  string
	Service schema.ServiceType
	Adapter string
	Created time.Time
}

// Entries returns every model of every service type, in the order of the
// service types.
func (t *Table) Entries() []Model { return t.entries }

func (t *Table) listEntries(since Since) []Model {
	var entries []Model
	for _, s := range t.configured {
		for _, name := range s.Names() {
			pool := s.byModel[name]
			entry := Model{
				ID:      name,
				Service: s.Type,
				Adapter: pool.Instances[0].Kind.TypeName,
				Created: pool.created(since[s.Type]),
			}
			if name != pool.Model {
				entry.Target = pool.Model
			}
			entries = append(entries, entry)
		}
	}
	return entries
}

// created returns when the first of the pool's instances was added.
func (p *Pool) created(since map[string]time.Time) time.Time {
	var first time.Time
	for _, i := range p.Instances {
		added, known := since[i.ID]
		if !known {
			added = i.Since()
		}
		if first.IsZero() || added.Before(first) {
			first = added
		}
	}
	return first
}
