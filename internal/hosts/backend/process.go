package backend

import (
	"net/url"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// processHost is the ending of the host in a base URL that means a process of the gateway,
// wherever the process listens. No host of a network has this ending.
const processHost = ".process"

// Process is a model server that the gateway runs for an instance.
type Process interface {
	residency.Server
	// Rules returns which memory the server shares with others, and how long a request waits
	// for it.
	Rules() residency.Rules
	// Program returns the settings that decide what the server answers, as JSON can be written.
	Program() any
	// Doubt says that a connection to the server broke: the server may have died.
	Doubt()
}

// Processes returns a process of the gateway and its address, nil if there is none of this
// name.
type Processes func(name string) (p Process, address string)

// ProcessPlace returns where a process of the gateway is in a fleet, whatever its models are
// called.
func ProcessPlace(f *fleet.Fleet, name string) *fleet.Instance {
	return f.Instance("http://"+name+processHost, name)
}

// CompleteProcess fills in the address of the process where settings name a process and
// no address.
func (s *Settings) CompleteProcess() {
	if s.Process != "" && s.BaseURL == "" {
		s.BaseURL = "http://" + s.Process + processHost
	}
}

// checkProcess reports settings that do not go together with a process.
func (s Settings) checkProcess(report say.Report) {
	host := ""
	if parsed, err := url.Parse(s.BaseURL); err == nil {
		host = parsed.Hostname()
	}
	switch {
	case strings.HasSuffix(host, processHost) && host != s.Process+processHost:
		report("baseUrl", say.New("field.names_process", "name", strings.TrimSuffix(host, processHost)))
	case s.Process != "" && s.Models.Given():
		report("models", say.New("field.beside_process"))
	}
}

// dialled returns the settings with the real address of the process in place of its name.
func (s Settings) dialled(address string) Settings {
	parsed, err := url.Parse(s.BaseURL)
	if err != nil || !strings.HasSuffix(parsed.Hostname(), processHost) || address == "" {
		return s
	}
	s.BaseURL = strings.TrimSuffix(address, "/") + parsed.Path
	return s
}

// process returns the process of an instance, its settings with the address of the process,
// and why it cannot be called on this gateway.
func (s Settings) process(all Processes) (p Process, dialled Settings, fault say.Sentence) {
	if s.Process == "" {
		return nil, s, fault
	}
	address := ""
	if all != nil {
		p, address = all(s.Process)
	}
	if p == nil {
		return nil, s, say.New("instance.process", "name", s.Process).About("process")
	}
	return p, s.dialled(address), fault
}

// Process returns the process that the gateway runs as the server of the instance, nil
// where it runs none.
func (i *Instance) Process() Process { return i.process }

// isAsleep reports whether the instance has a process that does not run. Its health says
// nothing then: a request would start it.
func (i *Instance) isAsleep() bool { return i.process != nil && !i.process.IsRunning() }

// endpointOf returns the part of an instance that a kind needs to know.
func endpointOf(s Settings, key string, headers map[string]string) dialect.Endpoint {
	members, _ := dialect.ReadMembers(s.Body) // was checked
	allowed := schema.MembersOf(s.AllowMembers)
	setsSalt := func(m dialect.Field) bool { return m.Name == "cache_salt" && m.Value != nil }
	if !slices.ContainsFunc(members, setsSalt) {
		allowed |= schema.CacheSalt
	}
	return dialect.Endpoint{
		BaseURL:              s.BaseURL,
		Path:                 s.Path,
		APIVersion:           s.APIVersion,
		APIKey:               key,
		Model:                s.UpstreamModel,
		Headers:              headers,
		ForwardAuthorization: s.ForwardAuthorization,
		AccountIDs:           s.AccountIDs,
		Allowed:              allowed,
		Responses:            s.Responses,
		Members:              members,
	}
}
