// Package vouch encrypts the secrets of stored versions and signs the versions, with the doubts about their
// instances.
package vouch

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// Services are the service types of a version.
type Services = map[schema.ServiceType]config.Service

// Seal returns services as they are stored: with their secrets encrypted.
func Seal(keys *seal.Keys, services Services) Services {
	sealed, _ := mapInstances(services, func(serviceType schema.ServiceType,
		s backend.Settings) (backend.Settings, error) {
		return s.Sealed(keys, serviceType.String()), nil
	})
	return sealed
}

// Open returns stored services with their secrets readable.
func Open(keys *seal.Keys, services Services) (Services, error) {
	return mapInstances(services, func(serviceType schema.ServiceType, s backend.Settings) (backend.Settings, error) {
		opened, err := s.Opened(keys, serviceType.String())
		if err != nil {
			return s, fmt.Errorf("%s: %w", serviceType, err)
		}
		return opened, nil
	})
}

// NeedsSealing reports whether stored services or settings have a secret that must be encrypted
// anew.
func NeedsSealing(keys *seal.Keys, services Services, managed config.Managed) bool {
	needs := false
	for at, secret := range managed.Secrets() {
		needs = needs || secret.NeedsSealing(keys, at)
	}
	each(services, func(serviceType schema.ServiceType, s *backend.Settings) {
		needs = needs || s.NeedsSealing(keys, serviceType.String())
	})
	return needs
}

// each calls a function with every instance, in a fixed order.
func each(services Services, visit func(serviceType schema.ServiceType, s *backend.Settings)) {
	for _, serviceType := range schema.ServiceTypes() {
		instances := services[serviceType].Instances
		for i := range instances {
			visit(serviceType, &instances[i])
		}
	}
}

// mapInstances returns a copy of the services with each instance changed by a function.
func mapInstances(services Services, change func(schema.ServiceType, backend.Settings) (backend.Settings,
	error)) (Services, error) {
	if services == nil {
		return nil, nil
	}
	mapped := make(Services, len(services))
	for serviceType, service := range services {
		service = settings.Clone(service)
		for i := range service.Instances {
			changed, err := change(serviceType, service.Instances[i])
			if err != nil {
				return nil, err
			}
			service.Instances[i] = changed
		}
		mapped[serviceType] = service
	}
	return mapped, nil
}

// keyOf names an instance uniquely among all service types.
func keyOf(serviceType schema.ServiceType, s *backend.Settings) string {
	return serviceType.String() + "/" + s.ID()
}
