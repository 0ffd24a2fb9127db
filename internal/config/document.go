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
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/policy"
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
	policy.Limits
	wings.Bounds
}

// Service is the policy of one service type and the instances that serve it.
type Service = policy.Service

// Routed returns the part of the document that routing compiles.
func (d *Document) Routed() *policy.Policy {
	return &policy.Policy{
		Services: d.Services, Limits: d.Limits.Limits, Prices: d.Prices, UnknownModel: d.Server.UnknownModel,
		LoRAs: d.LoRAs(), Resolve: d.Resolve, Processes: d.Runs,
	}
}

// Alone returns a copy of the document that has no instance but one, with the policy of a service.
func (d *Document) Alone(serviceType schema.ServiceType, service Service, instance backend.Settings) *Document {
	alone := d.Clone()
	service.Instances = []backend.Settings{instance}
	alone.Services = map[schema.ServiceType]Service{serviceType: service}
	return alone
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
		Limits:     Limits{policy.DefaultLimits(), wings.DefaultBounds()},
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
func DefaultService() Service { return policy.DefaultService() }

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
