// Package config is the written configuration: one document that composes the
// settings of every package, read from a file, the environment and the command
// line, with every mistake reported at once and where it was made.
package config

import (
	"iter"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/hedge"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
	"github.com/patchbay-ai/patchbay/internal/route/scatter"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/see/telemetry"
	"github.com/patchbay-ai/patchbay/internal/wings"
)

// Document is everything that can be configured.
//
// A change of a section with the tag effect:"now" is in force at once. Where fields of a
// section have the tag effect:"restart", only a change of these waits for the next start.
// A section with the tag from:"file" cannot come from the environment or the command line.
// Management can change a section with the tag managed; see ManagedSection.
type Document struct {
	// Format is the format that the file was written in.
	Format     int                            `json:"format" minimum:"1" maximum:"1"`
	Server     Server                         `json:"server"`
	Limits     Limits                         `json:"limits" effect:"now"`
	Services   map[schema.ServiceType]Service `json:"services" effect:"now"`
	Monitoring Monitoring                     `json:"monitoring"`
	Quota      quota.Settings                 `json:"quota"`

	wings.Sections

	Store     Store              `json:"store"`
	Redis     Redis              `json:"redis"`
	Security  Security           `json:"security"`
	Log       logs.Settings      `json:"log"`
	Telemetry telemetry.Settings `json:"telemetry"`
	Prices    prices.Settings    `json:"prices" effect:"now"`
	// Written identifies the services, and the sections that management can change, as they
	// were written, apart from defaults. It is empty where they were not read, or changed since.
	Written string `json:"-"`
	// References are the texts with references that were written, by the paths of their settings.
	References map[string]string `json:"-"`
	// NamesRedis says that the address of Redis was written, and is not the default.
	NamesRedis bool `json:"-"`
	// Resolve replaces the references of the services' secrets, from the environment and
	// the files that this document was read with. It resolves only the names that the
	// document uses for its own services or lists in security.references. It is nil where
	// the document was not read.
	Resolve backend.Resolver `json:"-"`
	// Runs finds the processes that the gateway runs for instances. It is nil where the
	// document does not belong to a gateway.
	Runs backend.Processes `json:"-"`
}

// CurrentFormat is the format that this release reads. It grows when a setting changes its meaning.
const CurrentFormat = 1

// AnyOrigin lets pages of every origin read replies.
const AnyOrigin = "*"

// Server says where the gateway listens and where it keeps its files.
type Server struct {
	Listen listen.Addresses `json:"listen"`
	// ManagementListen serves everything except the unified API, which then is alone on
	// Listen; empty means that Listen serves everything.
	ManagementListen listen.Addresses `json:"managementListen"`
	// OllamaListen serves Ollama's API at Ollama's own paths, beside the unified API;
	// empty means nowhere.
	OllamaListen listen.Addresses `json:"ollamaListen"`
	DataDir      string           `json:"dataDir"`
	// ShutdownDelay is how long the gateway serves on after the signal to stop. Load
	// balancers thus see that it is not ready before it refuses connections.
	ShutdownDelay schema.Duration `json:"shutdownDelay"`
	// ShutdownGrace is how long running requests may then take to end.
	ShutdownGrace schema.Duration `json:"shutdownGrace"`
	// TrustedProxies are the addresses that the gateway believes when they name the
	// client's address.
	TrustedProxies []netip.Prefix `json:"trustedProxies"`
	// CORSOrigins are the origins of pages that may read replies, such as
	// https://app.example; "*" means all.
	CORSOrigins []string `json:"corsOrigins"`
	// TLS encrypts the connections with clients.
	TLS listen.TLS `json:"tls"`
	// PublicURL is the address by which people reach the gateway in a browser, such as
	// https://ai.example.com.
	PublicURL string `json:"publicUrl"`
	// UnknownModel is the status of requests for a model that no instance serves: 503, or 404
	// for clients that repeat a request after any 5xx.
	UnknownModel int `json:"unknownModel" minimum:"404" maximum:"503"`
}

// Security says who may use the gateway.
type Security struct {
	access.Settings
	wings.Access
}

// Monitoring says which figures and calls are recorded.
type Monitoring struct {
	metrics.Settings
	wings.Records
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
	// MaxDiscovered is how many models an instance may find.
	MaxDiscovered int `json:"maxDiscovered" minimum:"1" maximum:"1000"`
	// MaxInFlight is how many requests may run at once; more are turned away.
	MaxInFlight int `json:"maxInFlight" minimum:"0"`
	// Memory is how much memory the program may use before it turns requests away; 0
	// leaves it to the environment's GOMEMLIMIT or, without that, takes a share of the
	// memory of the container or the machine.
	Memory schema.Bytes `json:"memory"`

	wings.Bounds
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

// Store says where durable state lives.
type Store struct {
	// URL is the database of the quota ledger; relative paths are inside the data directory.
	URL string `json:"url"`
	// Config is where configuration versions live; empty means files in the data directory.
	Config string `json:"config"`
	// KeepVersions is how many of the newest versions of the configuration are kept,
	// always including the current one. 0 keeps all.
	KeepVersions int `json:"keepVersions" minimum:"0"`
}

// Redis says where the shared counters live.
type Redis struct {
	URL string `json:"url"`
	// KeyPrefix begins the names of the keys of shared rate limits and of the list of
	// gateways. The quota ledger has a prefix of its own.
	KeyPrefix string `json:"keyPrefix"`
}

// Default returns the document of a gateway without any settings: all seven service
// types, no instances.
func Default() *Document {
	services := make(map[schema.ServiceType]Service, schema.ServiceTypeCount)
	for _, serviceType := range schema.ServiceTypes() {
		services[serviceType] = DefaultService()
	}
	return &Document{
		Format: CurrentFormat,
		Server: Server{
			Listen:        listen.Addresses{"127.0.0.1:8080"},
			DataDir:       "./data",
			ShutdownGrace: schema.Duration(30 * time.Second),
			TrustedProxies: []netip.Prefix{
				netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8),
				netip.PrefixFrom(netip.IPv6Loopback(), 128),
			},
			CORSOrigins:  []string{AnyOrigin},
			UnknownModel: http.StatusServiceUnavailable,
		},
		Limits: Limits{
			JSONBody:         32 * schema.MiB,
			MultipartBody:    256 * schema.MiB,
			ConnectTimeout:   schema.Duration(5 * time.Second),
			FirstByteTimeout: schema.Duration(300 * time.Second),
			IdleTimeout:      schema.Duration(120 * time.Second),
			MaxAttempts:      2,
			MaxDiscovered:    200,
			MaxInFlight:      10_000,
			Bounds:           wings.DefaultBounds(),
		},
		Services:   services,
		Monitoring: Monitoring{metrics.DefaultSettings(), wings.DefaultRecords()},
		Quota:      quota.DefaultSettings(),
		Sections:   wings.DefaultSections(),
		Store:      Store{URL: "sqlite:quota.db", KeepVersions: 500},
		Redis:      Redis{URL: "redis://127.0.0.1:6379/0", KeyPrefix: "patchbay"},
		Security:   Security{access.DefaultSettings(), wings.DefaultAccess()},
		Log:        logs.DefaultSettings(),
		Telemetry:  telemetry.DefaultSettings(),
		Prices:     prices.DefaultSettings(),
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

// Clone returns a copy that shares nothing with d.
func (d *Document) Clone() *Document { return settings.Clone(d) }

// Differences names the sections that differ between both documents.
func (d *Document) Differences(other *Document) []string {
	var names []string
	for f, section := range d.sections() {
		if !settings.Equal(section.Interface(), reflect.ValueOf(*other).FieldByIndex(f.index).Interface()) {
			names = append(names, f.name)
		}
	}
	return names
}

// NeedRestart names the sections that differ in settings that only a start reads.
func (d *Document) NeedRestart(next *Document) []string {
	atOnce := map[string]bool{}
	for f, section := range d.sections() {
		atOnce[f.name] = reflect.TypeFor[Document]().FieldByIndex(f.index).Tag.Get("effect") == "now" ||
			sameAtStart(section, reflect.ValueOf(*next).FieldByIndex(f.index))
	}
	return slices.DeleteFunc(d.Differences(next), func(section string) bool {
		switch section {
		case "security": // the terms of keys and the allowed references are in force at once
			security := d.Security
			security.Settings = security.WithTerms(next.Security.TermSet())
			security.References = next.Security.References
			takeLiving(reflect.ValueOf(&security.Access).Elem(), reflect.ValueOf(next.Security.Access))
			return settings.Equal(security, next.Security)
		case "monitoring": // the calls on disk follow at once
			monitoring := d.Monitoring
			monitoring.Records = next.Monitoring.Records
			return settings.Equal(monitoring, next.Monitoring)
		case "quota":
			return d.Quota.SameUntilRestart(next.Quota)
		}
		return atOnce[section]
	})
}

// takeLiving takes over the fields that are in force at once.
func takeLiving(to, from reflect.Value) {
	for _, f := range fieldsOf(to.Type()) {
		if to.Type().FieldByIndex(f.index).Tag.Get("effect") == "now" {
			to.FieldByIndex(f.index).Set(from.FieldByIndex(f.index))
		}
	}
}

// sameAtStart reports whether a section has fields that only a start reads, and the next
// document changes none of them.
func sameAtStart(section, next reflect.Value) bool {
	if section.Kind() != reflect.Struct {
		return false
	}
	hasSome := false
	for _, f := range fieldsOf(section.Type()) {
		if section.Type().FieldByIndex(f.index).Tag.Get("effect") != "restart" {
			continue
		}
		hasSome = true
		if !settings.Equal(section.FieldByIndex(f.index).Interface(), next.FieldByIndex(f.index).Interface()) {
			return false
		}
	}
	return hasSome
}

// TakeFileOnly takes over the sections that come from the file alone.
func (d *Document) TakeFileOnly(file *Document) {
	from, to := reflect.ValueOf(file.Clone()).Elem(), reflect.ValueOf(d).Elem()
	for _, f := range fieldsOf(to.Type()) {
		if to.Type().FieldByIndex(f.index).Tag.Get("from") == "file" {
			to.FieldByIndex(f.index).Set(from.FieldByIndex(f.index))
		}
	}
}

// sections returns the sections of the document with their values.
func (d *Document) sections() iter.Seq2[field, reflect.Value] {
	return func(yield func(field, reflect.Value) bool) {
		all := reflect.ValueOf(*d)
		for _, f := range fieldsOf(all.Type()) {
			if !yield(f, all.FieldByIndex(f.index)) {
				return
			}
		}
	}
}

// Equal reports whether both documents say the same.
func (d *Document) Equal(other *Document) bool { return len(d.Differences(other)) == 0 }
