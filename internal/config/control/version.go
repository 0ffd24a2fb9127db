package control

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control/differences"
	"github.com/patchbay-ai/patchbay/internal/config/control/versions"
)

// The stored types, under the names that this package and its users have for them.
type (
	// Version is one stored state of the services.
	Version = versions.Version
	// Services are the configured service types.
	Services = versions.Services
	// Head describes a log.
	Head = versions.Head
	// Position is a point in the history of a shared log.
	Position = versions.Position
	// Activation is the moment that a version came into force.
	Activation = versions.Activation
	// Log is a log of versions.
	Log = versions.Log
	// Store is the log in the data directory.
	Store = versions.Store
	// Shared is a log that several gateways follow.
	Shared = versions.Shared
	// Transaction is a transaction on a shared log.
	Transaction = versions.Transaction
	// Listener is notified of writes to a shared log.
	Listener = versions.Listener
)

// asStored returns a document with its services as they are after they were
// stored and read again, with the doubts about them.
func asStored(doc *config.Document) (*config.Document, error) {
	data, err := json.Marshal(Services(doc.Services))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSave, err)
	}
	var services Services
	if err := json.Unmarshal(data, &services); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSave, err)
	}
	for serviceType := range services {
		for i := range services[serviceType].Instances {
			services[serviceType].Instances[i].Doubt = doc.Services[serviceType].Instances[i].Doubt
		}
	}
	read := *doc
	read.Services = services
	return &read, nil
}

// strict refuses unknown members.
func strict() json.Options { return json.RejectUnknownMembers(true) }

// Difference is one thing that two configurations do not have in common.
type Difference = differences.Difference
