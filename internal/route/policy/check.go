package policy

import (
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	maxAttempts   = 10
	maxDiscovered = 1000
	minBodySize   = 1 * schema.KiB
)

// AdapterCheck returns an error if the adapter does not exist or cannot serve the service type.
type AdapterCheck func(adapter string, serviceType schema.ServiceType) error

// Check reports every field of the service that has a value it may not have.
func (s Service) Check(serviceType schema.ServiceType, known AdapterCheck,
	report say.Report) {
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
		checkAdapter(s.Adapter, serviceType, known, "adapter", report)
	}
	s.RateLimit.Check(within("rateLimit.", report))
	s.CircuitBreaker.Check(within("circuitBreaker.", report))
	s.HealthCheck.Check(within("healthCheck.", report))
	s.Queue.Check(within("queue.", report))
	s.Split.Check(serviceType, within("split.", report))
	s.Streams.Check(within("streams.", report))
	s.Hedge.Check(serviceType, within("hedge.", report))
	s.Residency.Check(within("residency.", report))

	first := make(map[string]int, len(s.Instances))
	for i, instance := range s.Instances {
		at := instanceAt(i)
		instance.Check(within(at+".", report))
		if instance.MaxConcurrency == backend.AutoConcurrency {
			switch {
			case !backend.CanLearnSlots(serviceType):
				report(at+".maxConcurrency", say.New("field.auto_service", "service", serviceType.String()))
			case s.Queue.Size == 0:
				report(at+".maxConcurrency", say.New("field.auto_queue"))
			}
		}
		if instance.Adapter != "" {
			checkAdapter(instance.Adapter, serviceType, known, at+".adapter", report)
		}
		if instance.Name == "" && !instance.Models.Given() || instance.BaseURL == "" {
			continue
		}
		// The base URL is not repeated: a wrong one may hold a password.
		if other, taken := first[instance.ID()]; taken {
			report(at, say.New("field.same_instance", "other", instanceAt(other)))
			continue
		}
		first[instance.ID()] = i
	}
}

// CheckNames reports aliases and fallbacks that lead nowhere. The LoRA adapters of instances are
// models too.
func (s Service) CheckNames(loras []backend.LoRA, report say.Report) {
	models := slices.Clone(backend.ModelsOf(s.Instances))
	for _, instance := range s.Instances {
		models = append(models, instance.Adapted(loras)...)
		for _, lora := range loras {
			if instance.Finds(lora.Base) {
				models = append(models, backend.Settings{Name: lora.Name})
			}
		}
	}
	s.Aliases.Check(models, within("aliases", report))
	s.Fallbacks.Check(s.Aliases, models, within("fallbacks", report))
}

func within(prefix string, report say.Report) say.Report {
	return func(path string, fault say.Sentence) { report(prefix+path, fault) }
}

func checkAdapter(adapter string, serviceType schema.ServiceType, known AdapterCheck, path string,
	report say.Report) {
	if known == nil {
		return
	}
	if err := known(adapter, serviceType); err != nil {
		report(path, say.From(err))
	}
}

func instanceAt(i int) string { return "instances[" + strconv.Itoa(i) + "]" }

// Check reports every setting of the section that has a value it may not have.
func (l Limits) Check(report say.Report) {
	if l.MaxInFlight < 0 {
		report("maxInFlight", say.New("field.no_limit"))
	}
	checkBodySize(l.JSONBody, "jsonBody", report)
	checkBodySize(l.MultipartBody, "multipartBody", report)
	if least := l.MultipartBody / 2 * 3; l.Uploads != 0 && l.Uploads < least {
		report("uploads", say.New("field.uploads", "least", least))
	}
	checkTimeout(l.ConnectTimeout, "connectTimeout", report)
	checkTimeout(l.FirstByteTimeout, "firstByteTimeout", report)
	checkTimeout(l.IdleTimeout, "idleTimeout", report)
	if l.MaxDiscovered < 1 || l.MaxDiscovered > maxDiscovered {
		report("maxDiscovered", say.New("field.between", "least", "1", "most", maxDiscovered, "found", l.MaxDiscovered))
	}
	if l.MaxAttempts < 1 || l.MaxAttempts > maxAttempts {
		report("maxAttempts", say.New("field.between", "least", "1", "most", maxAttempts, "found", l.MaxAttempts))
	}
}

func checkBodySize(size schema.Bytes, path string, report say.Report) {
	if size < minBodySize {
		report(path, say.New("field.at_least", "least", minBodySize, "found", size))
	}
}

func checkTimeout(timeout schema.Duration, path string, report say.Report) {
	if timeout <= 0 {
		report(path, say.New("field.longer"))
	}
}
