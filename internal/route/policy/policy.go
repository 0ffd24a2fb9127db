// Package policy is the part of the configuration that routes requests: the policy of each service
// type with its instances, the limits of one request and the prices of models. The configuration
// composes it and routing compiles it into a table.
package policy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/hedge"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
	"github.com/patchbay-ai/patchbay/internal/route/scatter"
)

// Policy is what one table is compiled from.
type Policy struct {
	Services map[schema.ServiceType]Service
	Limits   Limits
	Prices   prices.Settings
	// UnknownModel is the status of requests for a model that no instance serves.
	UnknownModel int
	// LoRAs are the adapters that engines load beside their models.
	LoRAs []backend.LoRA
	// Resolve resolves the references of secrets, and Processes finds the processes that the
	// gateway runs for instances. Either may be nil.
	Resolve   backend.Resolver
	Processes backend.Processes
}

// Limits bound the cost of one request.
type Limits struct {
	JSONBody      schema.Bytes `json:"jsonBody"`
	MultipartBody schema.Bytes `json:"multipartBody"`
	// Uploads is how much of the disk the files of all forms may take together; 0 is
	// four times MultipartBody.
	Uploads          schema.Bytes    `json:"uploads"`
	ConnectTimeout   schema.Duration `json:"connectTimeout"`
	FirstByteTimeout schema.Duration `json:"firstByteTimeout"`
	IdleTimeout      schema.Duration `json:"idleTimeout"`
	// FirstTokenTimeout bounds the wait for the first event of a stream, and
	// TotalTimeout a whole answer; 0 sets no bound of its own.
	FirstTokenTimeout schema.Duration `json:"firstTokenTimeout"`
	TotalTimeout      schema.Duration `json:"totalTimeout"`
	// MaxAttempts is the number of instances that one request may try.
	MaxAttempts int `json:"maxAttempts" minimum:"1" maximum:"10"`
	// MaxInFlight is how many requests may run at once; more are turned away.
	MaxInFlight int `json:"maxInFlight" minimum:"0"`
	// Memory is how much memory the program may use before it turns requests away; 0
	// leaves it to the environment's GOMEMLIMIT or, without that, takes a share of the
	// memory of the container or the machine.
	Memory schema.Bytes `json:"memory"`
}

// UploadSpace returns how much of the disk the files of all forms may take together.
func (l *Limits) UploadSpace() int64 {
	if l.Uploads > 0 {
		return int64(l.Uploads)
	}
	const forms = 4
	return forms * int64(l.MultipartBody)
}

// Timeouts are the limits on the phases of a call.
func (l *Limits) Timeouts() backend.Timeouts {
	return backend.Timeouts{
		Connect:    l.ConnectTimeout,
		FirstByte:  l.FirstByteTimeout,
		FirstToken: l.FirstTokenTimeout,
		Idle:       l.IdleTimeout,
		Total:      l.TotalTimeout,
	}
}

// Service is the policy of one service type and the instances that serve it.
type Service struct {
	LoadBalancer balance.Strategy `json:"loadBalancer"`
	// LeastTimeTo is the time that least_time makes short.
	LeastTimeTo balance.Goal `json:"leastTimeTo,omitzero"`
	// PromptSharing says which callers' prompts may share the caches of the instances,
	// for a balancer that knows these caches.
	PromptSharing balance.Sharing `json:"promptSharing,omitzero"`
	// Adapter is the kind of the instances that name none.
	Adapter        string                 `json:"adapter"`
	RateLimit      ratelimit.Settings     `json:"rateLimit"`
	CircuitBreaker breaker.Settings       `json:"circuitBreaker"`
	HealthCheck    backend.HealthSettings `json:"healthCheck"`
	Queue          queue.Settings         `json:"queue"`
	// Priority is the class of requests without a class of their key or tenant.
	Priority schema.Class `json:"priority,omitzero" doc:"Of requests without one of key or tenant; else normal."`
	// Residency says whether models are loaded for requests and unloaded when idle.
	Residency residency.Settings `json:"residency,omitzero"`
	// Split says which requests several instances share.
	Split scatter.Settings `json:"split,omitzero"`
	// Hedge says whether a second instance is asked when the first is slow.
	Hedge    hedge.Settings   `json:"hedge,omitzero"`
	Timeouts backend.Timeouts `json:"timeouts"`
	// Streams says how the gateway treats streams that break off.
	Streams resume.Settings `json:"streams,omitzero"`
	// Aliases are further names of models: callers may ask for the name on the left
	// and get the model, or the alias, on the right.
	Aliases naming.Aliases `json:"aliases" doc:"Further names of models: the name asked for, and the model."`
	// Fallbacks are the models that take over from a model that cannot serve a request,
	// for the reasons in FallbackOn.
	Fallbacks  naming.Fallbacks `json:"fallbacks"`
	FallbackOn []naming.Reason  `json:"fallbackOn" doc:"For which reasons fallbacks take over."`
	// MendToolArguments is that of all instances.
	MendToolArguments bool               `json:"mendToolArguments,omitzero" doc:"As that of an instance, for all."`
	Instances         []backend.Settings `json:"instances"`
}

// Docs says more about some members than a tag has room for.
func (Service) Docs() map[string]string {
	return map[string]string{
		"leastTimeTo": "The time that least_time makes short: that to the first token, or to the end of the answer.",
		"promptSharing": "Whose prompts least_time may bring together in the cache of an instance: those of " +
			"all callers, of a tenant, or of a key.",
		"adapter": "The kind of instances that name none; it serves the type.",
		"fallbacks": "The models that take over from a model that cannot serve a request, in the order in " +
			"which they are tried.",
	}
}

// Choices returns the values that texts of a service type may have, where there
// are only a few.
func (Service) Choices() map[string][]string {
	return map[string][]string{"adapter": kinds.Names()}
}

// DefaultLimits returns the limits of a gateway without a configuration.
func DefaultLimits() Limits {
	return Limits{
		JSONBody:         32 * schema.MiB,
		MultipartBody:    256 * schema.MiB,
		ConnectTimeout:   schema.Duration(5 * time.Second),
		FirstByteTimeout: schema.Duration(300 * time.Second),
		IdleTimeout:      schema.Duration(120 * time.Second),
		MaxAttempts:      2,
		MaxInFlight:      10_000,
	}
}

// DefaultService returns the policy of a service type without a configuration.
func DefaultService() Service {
	return Service{
		LoadBalancer:   balance.RoundRobin,
		Adapter:        kinds.Default,
		RateLimit:      ratelimit.DefaultSettings(),
		CircuitBreaker: breaker.DefaultSettings(),
		HealthCheck:    backend.DefaultHealthSettings(),
		Queue:          queue.DefaultSettings(),
		FallbackOn:     naming.Reasons(),
	}
}

// SetDefaults makes s the default service.
func (s *Service) SetDefaults() { *s = DefaultService() }
