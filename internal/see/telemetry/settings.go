// Package telemetry turns the records of calls into distributed traces and
// sends them to a collector over OTLP: one span for the request, one for each
// attempt at a backend, with the names of the GenAI semantic conventions. If it is
// configured to, it sends metrics as well. It reads the records of package calls and is
// not part of the request path.
package telemetry

import (
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Protocol is the transport of OTLP.
type Protocol = schema.Choice[protocol]

type protocol struct{}

func (protocol) Names() []string { return []string{"http", "grpc"} }

// The protocols.
const (
	HTTP Protocol = iota
	GRPC
)

// Settings say where traces go.
type Settings struct {
	Enabled  bool     `json:"enabled"`
	Protocol Protocol `json:"protocol"`
	// Endpoint is the collector's base URL, such as http://127.0.0.1:4318; empty
	// leaves it to the OTEL_EXPORTER_OTLP_ variables of the environment.
	Endpoint string `json:"endpoint"`
	// Headers go along with every export; they may hold credentials.
	Headers map[string]string `json:"headers"`
	// Sample is the part of the requests without a trace that begins one, from 0
	// to 1. Requests that belong to a trace follow its decision.
	Sample      float64 `json:"sample" minimum:"0" maximum:"1"`
	ServiceName string  `json:"serviceName"`
	// Metrics are sent to the collector too, every collection interval of
	// monitoring, whether or not traces are.
	Metrics bool `json:"metrics"`
	// Content adds prompts and answers to traces, for calls with content captured by
	// monitoring.
	Content bool `json:"content"`
}

// DefaultSettings returns the settings of an empty configuration: no traces.
func DefaultSettings() Settings { return Settings{Sample: 1, ServiceName: "patchbay"} }

// Check reports every field that has a value it may not have. Its messages
// repeat neither the endpoint nor a header: both may hold a secret.
func (s Settings) Check(report say.Report) {
	if s.Endpoint != "" {
		if fault := outgoing.AddressFault(s.Endpoint); fault.Is() {
			report("endpoint", fault)
		}
	}
	if !(s.Sample >= 0 && s.Sample <= 1) { // this way round it catches NaN too
		report("sample", say.New("field.between", "least", 0, "most", 1, "found", s.Sample))
	}
	if s.ServiceName == "" {
		report("serviceName", say.New("field.empty"))
	}
}
