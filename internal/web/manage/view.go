package manage

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/adapter"
	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

// serviceView is how a service type is read.
type serviceView struct {
	config.Service
	Instances []instanceView `json:"instances"`
}

// instanceView is how an instance is read.
type instanceView struct {
	InstanceID string `json:"instanceId"`
	backend.Settings
}

// instanceInfo is the detailed read of an instance.
type instanceInfo struct {
	instanceView
	HealthStatus string `json:"healthStatus"`
	// LastHealthCheck is null before the first check.
	LastHealthCheck *time.Time `json:"lastHealthCheck"`
}

// readOnly are the members of reads that may come along in writes.
func readOnly() []string { return []string{"instanceId", "healthStatus", "lastHealthCheck"} }

func viewService(service config.Service, who access.Identity) serviceView {
	return serviceView{Service: service, Instances: viewInstances(service.Instances, who)}
}

func viewServices(services control.Services, who access.Identity) map[schema.ServiceType]serviceView {
	views := make(map[schema.ServiceType]serviceView, len(services))
	for serviceType, service := range services {
		views[serviceType] = viewService(service, who)
	}
	return views
}

func viewInstances(instances []backend.Settings, who access.Identity) []instanceView {
	views := make([]instanceView, len(instances))
	for i, instance := range instances {
		views[i] = viewInstance(instance, who)
	}
	return views
}

// viewInstance shows an instance as stored, or with its secrets masked to those
// who may not see them.
func viewInstance(s backend.Settings, who access.Identity) instanceView {
	s = s.Clone()
	if s.Headers == nil {
		s.Headers = map[string]string{}
	}
	if !who.SeesSecrets {
		s.APIKey = access.Mask(s.APIKey)
		for name, value := range s.Headers {
			s.Headers[name] = access.Mask(value)
		}
	}
	return instanceView{InstanceID: s.ID(), Settings: s}
}

// keepSecrets puts the stored secrets back where a write left them out or sent
// the mask of them: apiKey absent, null or masked keeps the stored one, and a
// masked header its value. The path is that of the instance in the body.
func keepSecrets(next *backend.Settings, stored *backend.Settings, given config.Given, path string) error {
	if !given.Has(path+"apiKey") && stored != nil {
		next.APIKey = stored.APIKey
	}
	if access.IsMask(next.APIKey) && given.Has(path+"apiKey") {
		if stored == nil || stored.APIKey == "" {
			return wrong(path+"apiKey", "is a mask, and there is no stored key for it")
		}
		next.APIKey = stored.APIKey
	}
	for _, name := range slices.Sorted(maps.Keys(next.Headers)) {
		if !access.IsMask(next.Headers[name]) {
			continue
		}
		if stored == nil || stored.Headers[name] == "" {
			return wrong(path+"headers["+strconv.Quote(name)+"]", "is a mask, and there is no stored value for it")
		}
		next.Headers[name] = stored.Headers[name]
	}
	return nil
}

// mayMove keeps callers who may not see a stored secret from sending it to a
// host of their choice.
func mayMove(next, stored backend.Settings, who access.Identity) error {
	if who.SeesSecrets {
		return nil
	}
	from, _ := transport.ParseOrigin(stored.BaseURL) // it was checked when it was stored
	to, err := transport.ParseOrigin(next.BaseURL)
	if err != nil || from == to {
		return nil //nolint:nilerr // what is wrong with the address is found by the checks
	}
	if next.APIKey != "" && next.APIKey == stored.APIKey {
		return wrong("instance.apiKey", "must be given again when baseUrl moves to another host, because your role may not see the stored key")
	}
	for name, value := range next.Headers {
		if stored.Headers[name] == value {
			return wrong("instance.headers["+strconv.Quote(name)+"]", "must be given again when baseUrl moves to another host")
		}
	}
	return nil
}

// check returns all that is wrong with a service type. The function turns the
// path of a setting into the name that it has in the body.
func check(serviceType schema.ServiceType, service config.Service, name func(path string) string) error {
	var problems config.Problems
	service.Check(serviceType, adapter.Check, func(path, message string) {
		problems = append(problems, config.Problem{Path: name(path), Message: message})
	})
	if len(problems) > 0 {
		return problems
	}
	return nil
}
