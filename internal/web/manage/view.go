package manage

import (
	"maps"
	"slices"
	"strconv"
	"strings"
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
// the mask of them: apiKey and headers that are absent or null stay as stored, and
// so does the value of what is masked. Who may not see a secret may not have it sent to a
// host of their choice either. The path is that of the instance in the body.
func keepSecrets(next, stored *backend.Settings, given config.Given, path string, who access.Identity) error {
	var before backend.Settings
	if stored != nil {
		before = *stored
	}
	moved := stored != nil && !sameHost(before.BaseURL, next.BaseURL)
	keep := func(field, secret string) (string, error) {
		switch {
		case secret == "":
			return "", wrong(field, "is a mask, and nothing is stored for it")
		case moved && !who.SeesSecrets:
			return "", wrong(field, "must be given again when baseUrl moves to another host, because your role may not see what is stored")
		}
		return secret, nil
	}
	var err error
	if hasKey := given.Has(path + "apiKey"); hasKey && access.IsMask(next.APIKey) || !hasKey && before.APIKey != "" {
		if next.APIKey, err = keep(path+"apiKey", before.APIKey); err != nil {
			return err
		}
	}
	hasHeaders := given.Has(path + "headers")
	if !hasHeaders {
		next.Headers = maps.Clone(before.Headers)
	}
	for _, name := range slices.Sorted(maps.Keys(next.Headers)) {
		secret := header(before.Headers, name)
		if hasHeaders && !access.IsMask(next.Headers[name]) || !hasHeaders && secret == "" {
			continue
		}
		if next.Headers[name], err = keep(path+"headers["+strconv.Quote(name)+"]", secret); err != nil {
			return err
		}
	}
	if next.ForwardAuthorization && (moved || !before.ForwardAuthorization) && !who.Role.Holds(access.ManageKeys) {
		return wrong(path+"forwardAuthorization", "sends the keys of callers to the host, so only ADMIN may turn it on or move it")
	}
	return nil
}

// header returns the value of a header, whose name may be in any case.
func header(headers map[string]string, name string) string {
	for known, value := range headers {
		if strings.EqualFold(known, name) {
			return value
		}
	}
	return ""
}

// sameHost tells whether two addresses lead to the same place. One that cannot
// be read leads nowhere: the checks refuse it.
func sameHost(a, b string) bool {
	from, _ := transport.ParseOrigin(a) // it was checked when it was stored
	to, err := transport.ParseOrigin(b)
	return err != nil || from == to
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
