package gatewaytest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// LoadDocument makes a configuration of a file's content.
func LoadDocument(t *testing.T, yaml, dataDir string) *config.Document {
	t.Helper()
	return LoadDocumentWith(t, yaml, dataDir)
}

// LoadDocumentWith is LoadDocument with an environment, as NAME=value.
func LoadDocumentWith(t *testing.T, yaml, dataDir string, env ...string) *config.Document {
	t.Helper()
	doc, err := parse(yaml, dataDir, env...)
	if err != nil {
		needsSettings(t, err)
		t.Fatal(err)
	}
	return doc
}

func parse(yaml, dataDir string, env ...string) (*config.Document, error) {
	loaded, err := config.Load(config.Source{
		File: "test.yaml", Content: []byte(yaml), KnownAdapter: kinds.Check, Env: env,
		Set: []string{"server.listen='127.0.0.1:0'", "server.data-dir=" + Quote(dataDir)},
	})
	if err != nil {
		return nil, err
	}
	beGenerous(loaded.Document)
	return loaded.Document, nil
}

// beGenerous lengthens default times that a busy machine may exceed. Only tests that set
// them depend on them.
func beGenerous(doc *config.Document) {
	usual := config.Default().Limits
	if doc.Limits.ConnectTimeout == usual.ConnectTimeout {
		doc.Limits.ConnectTimeout = schema.Duration(waittest.Limit)
	}
	for serviceType, service := range doc.Services {
		if len(service.Instances) > 0 && service.HealthCheck.Timeout == backend.DefaultHealthSettings().Timeout {
			service.HealthCheck.Timeout = schema.Duration(waittest.Limit)
			doc.Services[serviceType] = service
		}
	}
}

// Quote returns a text as YAML that is read as that text.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// ChatYAML is a configuration of a chat service with these instances. Breakers and health
// checks are off, for tests that are not about them.
func ChatYAML(instances ...string) string {
	return "services: {chat: {circuit-breaker: {enabled: false}, health-check: {enabled: false}, instances: [\n  " +
		strings.Join(instances, ",\n  ") + "]}}\n"
}

// Instance describes one instance; more are further settings as YAML.
func Instance(model, url string, more ...string) string {
	return "{" + strings.Join(append([]string{"name: " + Quote(model), "base-url: " + Quote(url)}, more...), ", ") + "}"
}

// PoolYAML is a configuration of backends that serve the model m.
func PoolYAML(backends ...*simulator.Backend) string {
	var list []string
	for _, b := range backends {
		list = append(list, Instance("m", b.URL()))
	}
	return ChatYAML(list...)
}

// Settings that turn policies off, for tests that are not about them.
const (
	NoBreaker         = "circuit-breaker: {enabled: false}"
	NoChecks          = "health-check: {enabled: false}"
	NoBreakerNoChecks = NoBreaker + ", " + NoChecks
)

// PolicyYAML is a configuration of a chat service with this policy.
func PolicyYAML(policy string, instances ...string) string {
	return "services: {chat: {" + policy + ", instances: [\n  " + strings.Join(instances, ",\n  ") + "]}}\n"
}

// BreakerYAML is a configuration with breakers and without health checks.
func BreakerYAML(settings string, backends ...*simulator.Backend) string {
	var list []string
	for _, b := range backends {
		list = append(list, Instance("m", b.URL()))
	}
	return PolicyYAML("circuit-breaker: {"+settings+"}, "+NoChecks, list...)
}

// SlotsYAML is a configuration with one backend, this many slots, and a queue.
func SlotsYAML(b *simulator.Backend, slots int, queue string) string {
	return PolicyYAML("queue: {"+queue+"}, "+NoBreakerNoChecks,
		Instance("m", b.URL(), fmt.Sprintf("max-concurrency: %d", slots)))
}

// Impatient are short timeouts for an instance that is expected to exceed them. Other
// instances of the same test have the default ones, which even a busy machine meets.
const Impatient = "timeouts: {first-byte: 300ms, idle: 300ms}"

// ServiceYAML is a configuration of one service type with these instances. Breakers and
// health checks are off, for tests that are not about them.
func ServiceYAML(service string, instances ...string) string {
	return "services: {" + ServiceEntry(service, instances...) + "}\n"
}

// ServiceEntry is one entry of services in a configuration.
func ServiceEntry(service string, instances ...string) string {
	return service + ": {circuit-breaker: {enabled: false}, health-check: {enabled: false}, instances: [\n  " +
		strings.Join(instances, ",\n  ") + "]}"
}

// EveryService is a configuration of a backend that serves the model m for every service
// type.
func EveryService(b *simulator.Backend) string {
	var entries []string
	for _, service := range schema.ServiceTypes() {
		entries = append(entries, ServiceEntry(service.String(), Instance("m", b.URL())))
	}
	return "services: {" + strings.Join(entries, ",\n") + "}\n"
}

// SecuredYAML has a token for each role, and leaves the unified API open.
func SecuredYAML() string {
	return fmt.Sprintf("security: {enabled: true, allow-keyless: true, tokens: [{name: a, role: ADMIN, token-sha256: "+
		"%s}, {name: o, role: OPERATOR, token-sha256: %s}, {name: v, role: VIEWER, token-sha256: %s}]}\n",
		HashOf("admin-token"), HashOf("operator-token"), HashOf("viewer-token"))
}

// HashOf returns the hash of a secret as the configuration takes it.
func HashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// ShortTimeouts is the section of limits for a backend that takes a step: the timeouts that
// end the silence of the step are short, and all others are long, because a slow machine must
// not be taken for a silent backend.
func ShortTimeouts(step simulator.Step) string {
	switch {
	case step.Hang, max(step.HeaderDelay, step.FirstDelay) >= Never:
		return "limits: {first-byte-timeout: 300ms}\n"
	case step.Stop == simulator.StopStall && step.After > 0:
		return "limits: {idle-timeout: 1s}\n" // the events before the silence may come slowly
	case step.Stop == simulator.StopStall:
		return "limits: {first-byte-timeout: 1s, idle-timeout: 1s}\n"
	}
	return ""
}
