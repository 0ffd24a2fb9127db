// Package stored decides how services are written in a stored version, and how to read a
// version of another release.
package stored

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Marshal writes services without the settings that have their defaults. A release that
// changes a default then does not take that for an edit, and one that adds a setting writes
// it only if somebody uses it: an older release refuses members that it does not know.
func Marshal(of map[schema.ServiceType]config.Service) ([]byte, error) {
	serviceDefaults, wrong := membersOf(config.DefaultService())
	instanceDefaults, err := membersOf(backend.DefaultSettings())
	wrong = errors.Join(wrong, err)
	services := make(map[string]members, len(of))
	for serviceType, service := range of {
		instances := make([]members, len(service.Instances))
		for i := range service.Instances {
			instances[i], err = membersOf(service.Instances[i])
			wrong = errors.Join(wrong, err)
			instances[i].drop(instanceDefaults)
		}
		service.Instances = nil
		settings, err := membersOf(service)
		settings.drop(serviceDefaults)
		if len(instances) > 0 {
			settings["instances"], _ = json.Marshal(instances, json.Deterministic(true)) // they came from JSON
		}
		services[serviceType.String()], wrong = settings, errors.Join(wrong, err)
	}
	if wrong != nil {
		return nil, wrong
	}
	return json.Marshal(services, json.Deterministic(true))
}

// WithoutDefaults is Marshal for services that were checked.
func WithoutDefaults(services map[schema.ServiceType]config.Service) jsontext.Value {
	data, _ := Marshal(services)
	return data
}

// members are those of an object.
type members map[string]jsontext.Value

func membersOf(settings any) (members, error) {
	found := members{}
	data, err := json.Marshal(settings, json.Deterministic(true))
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	return found, err
}

// drop removes the members that another object has as well.
func (m members) drop(defaults members) {
	for name, value := range m {
		same := defaults[name]
		if bytes.Equal(value, same) {
			delete(m, name)
		} else if value.Kind() == jsontext.KindBeginObject && same.Kind() == jsontext.KindBeginObject {
			inner, _ := membersOf(value) // they came from JSON
			other, _ := membersOf(same)
			inner.drop(other)
			m[name], _ = json.Marshal(inner, json.Deterministic(true))
		}
	}
}

// Unmarshal reads services over their defaults. It refuses unknown members.
func Unmarshal(data []byte) (map[schema.ServiceType]config.Service, error) {
	var raw map[schema.ServiceType]jsontext.Value
	if err := json.Unmarshal(data, &raw, strict()); err != nil {
		return nil, err
	}
	services := make(map[schema.ServiceType]config.Service, len(raw))
	for serviceType, value := range raw {
		service, err := readService(value)
		if err != nil {
			return nil, err
		}
		services[serviceType] = service
	}
	return services, nil
}

func readService(data jsontext.Value) (config.Service, error) {
	service := config.DefaultService()
	if err := json.Unmarshal(data, &service, strict()); err != nil {
		return service, err
	}
	var lists struct {
		Instances []jsontext.Value `json:"instances"`
	}
	if err := json.Unmarshal(data, &lists); err != nil {
		return service, err
	}
	for i, value := range lists.Instances {
		service.Instances[i] = backend.DefaultSettings()
		if err := json.Unmarshal(value, &service.Instances[i], strict()); err != nil {
			return service, err
		}
	}
	return service, nil
}

// strict refuses unknown members.
func strict() json.Options { return json.RejectUnknownMembers(true) }
