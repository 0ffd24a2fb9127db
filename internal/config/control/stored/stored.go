// Package stored decides how services are written in a stored version, and how to read a
// version of another release.
package stored

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The settings of a service type and of an instance that the last release knows. It
// refuses versions with other members. So stored versions leave out other settings at
// their defaults: gateways of both releases can share a database until somebody uses a
// new setting. A release brings the lists up to date, with the fixture of TestUpgrade.

func knownOfServices() []string {
	return []string{
		"loadBalancer", "adapter", "rateLimit", "circuitBreaker", "healthCheck", "queue", "timeouts", "instances",
	}
}

func knownOfInstances() []string {
	return []string{
		"name", "baseUrl", "path", "apiKey", "weight", "enabled", "adapter", "upstreamModel", "headers",
		"forwardAuthorization", "maxConcurrency", "keepAlive", "idleConnections", "proxy", "tls", "timeouts",
	}
}

// Marshal writes services as they are stored.
func Marshal(of map[schema.ServiceType]config.Service) ([]byte, error) {
	w, err := newWriter()
	if err != nil {
		return nil, err
	}
	services := make(map[string]jsontext.Value, len(of))
	for serviceType, service := range of {
		value, err := w.serviceOf(service)
		if err != nil {
			return nil, err
		}
		services[serviceType.String()] = value
	}
	return json.Marshal(services, json.Deterministic(true))
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

// writer writes settings as they are stored: without new settings at their defaults,
// which the last release does not know. It encodes the defaults once for all services and
// instances.
type writer struct {
	service, instance map[string]jsontext.Value // the defaults, by member
}

func newWriter() (w writer, err error) {
	if w.service, err = membersOf(config.DefaultService()); err != nil {
		return w, err
	}
	w.instance, err = membersOf(backend.DefaultSettings())
	return w, err
}

func membersOf(settings any) (map[string]jsontext.Value, error) {
	data, err := json.Marshal(settings, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	members := map[string]jsontext.Value{}
	return members, json.Unmarshal(data, &members)
}

func (w writer) serviceOf(service config.Service) (jsontext.Value, error) {
	instances := make([]jsontext.Value, 0, len(service.Instances))
	for i := range service.Instances {
		value, err := storedSettings(service.Instances[i], w.instance, knownOfInstances())
		if err != nil {
			return nil, err
		}
		instances = append(instances, value)
	}
	list, err := json.Marshal(instances)
	if err != nil {
		return nil, err
	}
	service.Instances = nil // they are in the list
	value, err := storedSettings(service, w.service, knownOfServices())
	if err != nil {
		return nil, err
	}
	return mapMembers(value, func(name string, value jsontext.Value) jsontext.Value {
		if name == "instances" {
			return list
		}
		return value
	})
}

func storedSettings(settings any, defaults map[string]jsontext.Value, known []string) (jsontext.Value, error) {
	data, err := json.Marshal(settings, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return mapMembers(data, func(name string, value jsontext.Value) jsontext.Value {
		if !slices.Contains(known, name) && bytes.Equal(value, defaults[name]) {
			return nil
		}
		return value
	})
}

// mapMembers replaces the values of an object, in their order, and leaves out a member if
// replace returns nothing for it.
func mapMembers(object jsontext.Value, replace func(name string,
	value jsontext.Value) jsontext.Value) (jsontext.Value, error) {
	from := jsontext.NewDecoder(bytes.NewReader(object))
	var to bytes.Buffer
	encoder := jsontext.NewEncoder(&to)
	if _, err := from.ReadToken(); err != nil {
		return nil, err
	}
	if err := encoder.WriteToken(jsontext.BeginObject); err != nil {
		return nil, err
	}
	for from.PeekKind() != jsontext.KindEndObject {
		token, err := from.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		value, err := from.ReadValue()
		if err != nil {
			return nil, err
		}
		next := replace(name, value)
		if len(next) == 0 {
			continue
		}
		if err := encoder.WriteToken(jsontext.String(name)); err != nil {
			return nil, err
		}
		if err := encoder.WriteValue(next); err != nil {
			return nil, err
		}
	}
	if err := encoder.WriteToken(jsontext.EndObject); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(to.Bytes()), nil
}
