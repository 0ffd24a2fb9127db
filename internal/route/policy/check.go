package policy

import (
	"fmt"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	maxAttempts = 10
	minBodySize = schema.KiB
)

// AdapterCheck returns an error if the adapter does not exist or cannot serve the service type.
type AdapterCheck func(adapter string, serviceType schema.ServiceType) error

// Check reports every field of the service that has a value it may not have, and aliases and
// fallbacks that lead nowhere.
func (s Service) Check(serviceType schema.ServiceType, known AdapterCheck,
	loras []backend.LoRA, report say.Report) {
	checkAdapter := func(adapter, path string) {
		if known != nil {
			if err := known(adapter, serviceType); err != nil {
				report(path, say.From(err))
			}
		}
	}
	if !s.LoadBalancer.Valid() {
		report("loadBalancer", say.New("field.unknown_strategy"))
	}
	if !s.LeastTimeTo.Valid() {
		report("leastTimeTo", say.New("field.unknown_goal"))
	}
	if !s.PromptSharing.Valid() {
		report("promptSharing", say.New("field.unknown_sharing"))
	}
	if s.Adapter == "" {
		report("adapter", say.New("field.empty"))
	} else {
		checkAdapter(s.Adapter, "adapter")
	}
	s.RateLimit.Check(say.Under("rateLimit.", report))
	s.CircuitBreaker.Check(say.Under("circuitBreaker.", report))
	s.HealthCheck.Check(say.Under("healthCheck.", report))
	s.Queue.Check(say.Under("queue.", report))
	s.Split.Check(serviceType, say.Under("split.", report))
	s.Streams.Check(say.Under("streams.", report))
	s.Hedge.Check(serviceType, say.Under("hedge.", report))
	s.Residency.Check(say.Under("residency.", report))

	first := make(map[string]int, len(s.Instances))
	for i, instance := range s.Instances {
		at := fmt.Sprintf("instances[%d]", i)
		instance.Check(say.Under(at+".", report))
		if instance.MaxConcurrency == backend.AutoConcurrency {
			switch {
			case !backend.CanLearnSlots(serviceType):
				report(at+".maxConcurrency", say.New("field.auto_service", "service", serviceType.String()))
			case s.Queue.Size == 0:
				report(at+".maxConcurrency", say.New("field.auto_queue"))
			}
		}
		if instance.Adapter != "" {
			checkAdapter(instance.Adapter, at+".adapter")
		}
		if instance.Name == "" && !instance.Models.Given() || instance.BaseURL == "" {
			continue
		}
		// The base URL is not repeated: a wrong one may hold a password.
		if other, taken := first[instance.ID()]; taken {
			report(at, say.New("field.same_instance", "other", fmt.Sprintf("instances[%d]", other)))
			continue
		}
		first[instance.ID()] = i
	}

	// The LoRA adapters of instances are models too.
	models := slices.Clone(backend.ModelsOf(s.Instances))
	for _, instance := range s.Instances {
		models = append(models, instance.Adapted(loras)...)
		for _, lora := range loras {
			if instance.Finds(lora.Base) {
				models = append(models, backend.Settings{Name: lora.Name})
			}
		}
	}
	s.Aliases.Check(models, say.Under("aliases", report))
	s.Fallbacks.Check(s.Aliases, models, say.Under("fallbacks", report))
}

// Check reports every setting of the section that has a value it may not have.
func (l Limits) Check(report say.Report) {
	checkBodySize := func(size schema.Bytes, path string) {
		if size < minBodySize {
			report(path, say.New("field.at_least", "least", minBodySize, "found", size))
		}
	}
	checkTimeout := func(timeout schema.Duration, path string) {
		if timeout <= 0 {
			report(path, say.New("field.longer"))
		}
	}
	if l.MaxInFlight < 0 {
		report("maxInFlight", say.New("field.no_limit"))
	}
	checkBodySize(l.JSONBody, "jsonBody")
	checkBodySize(l.MultipartBody, "multipartBody")
	if least := l.MultipartBody / 2 * 3; l.Uploads != 0 && l.Uploads < least {
		report("uploads", say.New("field.uploads", "least", least))
	}
	checkTimeout(l.ConnectTimeout, "connectTimeout")
	checkTimeout(l.FirstByteTimeout, "firstByteTimeout")
	checkTimeout(l.IdleTimeout, "idleTimeout")
	if l.MaxAttempts < 1 || l.MaxAttempts > maxAttempts {
		report("maxAttempts", say.New("field.between", "least", "1", "most", maxAttempts, "found", l.MaxAttempts))
	}
}
