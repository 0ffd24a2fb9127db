// Package backend is one instance of a model server: its settings, its living
// state, and the checks that tell whether it is healthy.
package backend

import (
	"cmp"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	maxWeight     = 1e6
	maxTier       = 100
	maxNameLength = 256
	maxAPIVersion = 64
	maxGroup      = 63
)

// Settings describe one instance.
type Settings struct {
	Name string `json:"name" requiredWithout:"models nonempty" maxLength:"256" example:"llama3"`
	// Models are the models that the instance serves, as the backend lists them. Name is empty
	// then, or a pattern with one *, which the name of each model replaces.
	Models  Models `json:"models"`
	BaseURL string `json:"baseUrl" required:"true" example:"http://127.0.0.1:11434"`
	// Process names the process of the gateway that is the server of the instance.
	Process string `json:"process"`
	Path    string `json:"path" doc:"Replaces the path that the adapter would call; empty leaves it."`
	// APIVersion is the query parameter api-version of every call; empty means the
	// default of the kind, which most kinds do not have.
	APIVersion string `json:"apiVersion" maxLength:"64" example:"2024-10-21"`
	// HealthPath is the path of the health check; empty means the path of the kind.
	HealthPath string `json:"healthPath" example:"/health"`
	APIKey     Secret `json:"apiKey"`
	// Weight is the instance's share of the traffic; 0 means none.
	Weight float64 `json:"weight" minimum:"0" maximum:"1000000"`
	// Tier is the rank of the instance in its pool: it gets traffic only while no
	// instance of a lower tier is ready.
	Tier    int  `json:"tier" minimum:"0" maximum:"100"`
	Enabled bool `json:"enabled"`
	// Adapter is the kind of backend; empty means the kind of the service.
	Adapter string `json:"adapter"`
	// UpstreamModel is the name by which the backend knows the model; empty means Name.
	UpstreamModel string `json:"upstreamModel" maxLength:"256"`
	// Headers are added to every call.
	Headers map[string]Secret `json:"headers" keys:"^[A-Za-z0-9!#$%&'*+.^_|~-]+$"`
	// Body is a text of JSON: members of each request, whatever the caller sent.
	Body string `json:"body,omitzero" example:"{\"top_k\": 20}"`
	// ForwardAuthorization sends the caller's own credential to the backend, in the
	// form that its kind wants.
	ForwardAuthorization bool `json:"forwardAuthorization"`
	// AccountIDs lets callers name ids of the account at the backend that no answer gave
	// them.
	AccountIDs bool `json:"accountIds,omitzero"`
	// AllowMembers are the members of requests for operators of engines that callers with a key
	// may name.
	AllowMembers []schema.EngineMember `json:"allowMembers,omitzero" uniqueItems:"true"`
	// CacheBreakpoints reports whether prompts are marked for the cache of the backend.
	CacheBreakpoints Breakpoints `json:"cacheBreakpoints,omitzero"`
	// MendToolArguments sends {} for arguments of earlier tool calls that are no object of JSON.
	MendToolArguments bool `json:"mendToolArguments,omitzero"`
	// MaxConcurrency is the limit of requests that the instance gets at a time; 0 means
	// no limit, and AutoConcurrency a learned one.
	MaxConcurrency Concurrency `json:"maxConcurrency"`
	// ContextWindow and MaxOutputTokens are the sizes of the model; 0 means those that its engine
	// or the list of prices has.
	ContextWindow   int64 `json:"contextWindow,omitzero" minimum:"0"`
	MaxOutputTokens int64 `json:"maxOutputTokens,omitzero" minimum:"0"`
	// BatchConcurrency is how many of these may be lines of batches; nil means
	// defaultBatchConcurrency, and 0 none.
	BatchConcurrency *int `json:"batchConcurrency,omitzero" minimum:"0"`
	// KeepAlive says whether connections are kept for further calls; nil means the
	// default of the kind. IdleConnections bounds the connections that are kept; 0
	// means as many as there were calls at a time.
	KeepAlive       *bool `json:"keepAlive"`
	IdleConnections int   `json:"idleConnections" minimum:"0"`
	// Responses says whether the backend speaks the Responses API itself. Then its
	// requests are passed on. nil means the usual for the kind and the host.
	Responses *bool `json:"responses"`
	// Proxy is the address of the proxy through which the backend is reached, or
	// ProxyNone; empty means as the environment says. It may hold a password.
	Proxy string `json:"proxy"`
	TLS   TLS    `json:"tls"`
	// Timeouts replace those of the service where they are set.
	Timeouts Timeouts `json:"timeouts"`
	// Pinned keeps the model in memory where models are put to sleep.
	Pinned bool `json:"pinned,omitzero"`
	// Residency says which memory the model shares with others.
	Residency Residency `json:"residency,omitzero"`
	// LoRA is no setting. It is set where the model is a LoRA adapter of the configuration file.
	LoRA *LoRA `json:"-"`
	// Doubt is no setting. It is set where the secrets may not be sent.
	Doubt Doubt `json:"-"`
}

// Docs describes the members that a tag has no room for.
func (Settings) Docs() map[string]string {
	return map[string]string{
		"name": "The model that callers ask for. Beside models it is left out, or a pattern such as groq/*: " +
			"callers ask for groq/NAME, and the backend gets NAME.",
		"models": "In place of a name: discover for all models that the backend lists, or patterns of " +
			"their names such as qwen*.",
		"process": "The process of the gateway's configuration file that is the server of the instance, " +
			"started for requests. The baseUrl is http://NAME.process then, wherever the process listens.",
		"apiVersion": "The query parameter api-version of every call, which Azure wants; empty for that of the " +
			"adapter.",
		"healthPath": "Replaces the path that the health checks call; empty for that of the adapter.",
		"tier": "The instance gets traffic only while no instance of the same model with a lower tier is " +
			"ready.",
		"adapter": "The kind of backend, which must be one that serves the service type; empty for that of " +
			"the service type.",
		"body": "A text of JSON: members that each request to the backend has, whatever the caller sent. null takes " +
			"a member out.",
		"accountIds": "Whether callers with keys may name ids of the account at the backend (files, items, " +
			"containers, vector stores, prompts) that no answer through the gateway gave them.",
		"allowMembers": "Which members of requests callers with keys may name although they are meant for the " +
			"operator of the engine. Only an ADMIN may add one.",
		"maxConcurrency": "0 for as many as there are; auto, which is shown as -1, for as many as is learned from " +
			"the time per token.",
		"cacheBreakpoints": "auto marks what the backend caches in requests without marks of their own, if its " +
			"API has such marks (Anthropic's).",
		"mendToolArguments": "Whether arguments of earlier tool calls that are no object of JSON are sent as {}.",
		"contextWindow": "How many tokens a prompt and its answer may have together; 0 for what the engine, or " +
			"else the list of prices, has.",
		"maxOutputTokens": "How many tokens an answer may have; 0 for what the engine, or else the list of prices, " +
			"has.",
		"batchConcurrency": "How many of the requests that the instance gets at a time may be lines of batches, at " +
			"most maxConcurrency; 0 for none, left out for 2.",
		"responses": "Whether the backend speaks the Responses API itself, so that requests to /v1/responses are " +
			"passed on to it; null for what is usual: true for OpenAI, false for all others.",
		"proxy":  "Such as http://proxy.example:3128; none for none, empty for that of the environment.",
		"pinned": "Where residency is on: the model is neither put to sleep nor thrown out of memory for another one.",
	}
}

// Residency says which memory the model of an instance shares with other models.
type Residency struct {
	// Group names the memory; by default it is the memory of one host.
	Group string `json:"group,omitzero" maxLength:"63" example:"gpu0"`
}

// Docs describes the members that a tag has no room for.
func (Residency) Docs() map[string]string {
	return map[string]string{
		"group": "Where residency is on: instances of one group share a GPU, whatever their addresses and service " +
			"types, so that one sleeps before another wakes up; empty for none. Processes of a group with the same " +
			"name count.",
	}
}

// Patterns returns the patterns of the settings' texts, as regular expressions of JSON
// schema.
func (Residency) Patterns() map[string]string {
	return map[string]string{"group": `^[A-Za-z0-9._-]*$`}
}

func (s Settings) checkResidency(report say.Report) {
	switch {
	case len(s.Residency.Group) > maxGroup || strings.ContainsFunc(s.Residency.Group, isNotInVersion):
		report("residency.group", say.New("field.group", "most", maxGroup))
	case s.Residency.Group != "" && s.Process != "":
		report("residency.group", say.New("field.group_process"))
	}
}

// Patterns returns the patterns of an instance's texts, as regular expressions of
// JSON schema. Check knows a few rules more.
func (Settings) Patterns() map[string]string {
	const (
		control = `\x00-\x1f\x7f-\x9f`
		edge    = `[^\s` + control + `]`
		name    = edge + `[^` + control + `]*` + edge
		label   = `[A-Za-z0-9_-]{1,63}`
		group   = `[0-9A-Fa-f]{1,4}`
		address = `\[(::` + group + `|(` + group + `:){7}` + group + `|(` + group + `:){1,3}(:` + group + `){1,4})\]`
		port    = `(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?`
		word    = `([A-Za-z0-9_~!$&'()*+,;=:@-]|%2[0-9A-Da-dFf]|%[3-7][0-9A-Fa-f])+`
		segment = word + `(\.` + word + `)*`
		path    = `(/` + segment + `)*/?`
	)
	const host = `(` + label + `(\.` + label + `)*|` + address + `)` + port
	return map[string]string{
		"name":          `^(` + name + `|[^*\s` + control + `])?$`,
		"upstreamModel": `^(` + name + `|` + edge + `)?$`,
		"baseUrl":       `^https?://` + host + path + `$`,
		"proxy":         `^(none|https?://([A-Za-z0-9._~*-]+(:[A-Za-z0-9._~*-]*)?@)?` + host + `/?)?$`,
		"apiVersion":    `^[A-Za-z0-9._-]*$`,
		"path":          `^(/(` + segment + path + `)?(\?[!"$-~]*)?)?$`,
		"healthPath":    `^(/(` + segment + path + `)?(\?[!"$-~]*)?)?$`,
	}
}

// Choices returns the values that texts of an instance may have, where there are
// only a few: the empty adapter means the adapter of the service type.
func (Settings) Choices() map[string][]string {
	return map[string][]string{"adapter": append([]string{""}, kinds.Names()...)}
}

// DefaultSettings returns the values of fields that an instance leaves out.
func DefaultSettings() Settings { return Settings{Weight: 1, Enabled: true} }

// SetDefaults makes s the default settings.
func (s *Settings) SetDefaults() { *s = DefaultSettings() }

// ID returns the identifier of the instance, made of name and base URL exactly as
// they were written. An instance that discovers its models has the name * unless it has
// another one.
func (s Settings) ID() string {
	if s.Models.Given() {
		return cmp.Or(s.Name, "*") + "@" + s.BaseURL
	}
	return s.Name + "@" + s.BaseURL
}

// Check reports every field that has a value it may not have. Its messages never
// repeat the base URL, the key or a header: any of them may hold a secret.
func (s Settings) Check(report say.Report) {
	switch {
	case !s.Models.Given():
		checkName(s.Name, "name", true, report)
	case s.Name != "" && (strings.Count(s.Name, "*") != 1 || s.Name == "*"):
		report("name", say.New("field.models_name"))
	case s.UpstreamModel != "":
		report("upstreamModel", say.New("field.beside_models"))
	}
	s.Models.check(report)
	if s.Name == "*" {
		report("name", say.New("field.star"))
	}
	checkName(s.UpstreamModel, "upstreamModel", false, report)
	if fault := BaseURLFault(s.BaseURL); fault.Is() {
		report("baseUrl", fault)
	}
	if fault := pathFault(s.Path); fault.Is() {
		report("path", fault)
	}
	if fault := pathFault(s.HealthPath); fault.Is() {
		report("healthPath", fault)
	}
	if _, err := dialect.ReadMembers(s.Body); err != nil {
		report("body", say.From(err))
	}
	for i, name := range s.AllowMembers {
		if slices.Contains(s.AllowMembers[:i], name) {
			report("allowMembers["+strconv.Itoa(i)+"]", say.New("field.twice", "name", name))
		}
	}
	if len(s.APIVersion) > maxAPIVersion || strings.ContainsFunc(s.APIVersion, isNotInVersion) {
		report("apiVersion", say.New("field.api_version"))
	}
	if fault := valueFault(s.APIKey); fault.Is() {
		report("apiKey", fault)
	}
	if math.IsNaN(s.Weight) || s.Weight < 0 || s.Weight > maxWeight {
		report("weight", say.New("field.weight", "found", strconv.FormatFloat(s.Weight, 'g', -1, 64)))
	}
	if s.Tier < 0 || s.Tier > maxTier {
		report("tier", say.New("field.tier", "most", maxTier, "found", s.Tier))
	}
	if s.MaxConcurrency < AutoConcurrency {
		report("maxConcurrency", say.New("field.auto_negative"))
	}
	for path, tokens := range map[string]int64{"contextWindow": s.ContextWindow, "maxOutputTokens": s.MaxOutputTokens} {
		if tokens < 0 {
			report(path, say.New("field.at_least", "least", "0", "found", tokens))
		}
	}
	s.checkBatchConcurrency(report)
	s.checkProcess(report)
	s.checkResidency(report)
	s.checkHeaders(report)
	s.checkReach(report)
}

func checkName(name, path string, required bool, report say.Report) {
	switch {
	case name == "":
		if required {
			report(path, say.New("field.required"))
		}
	case strings.TrimSpace(name) != name:
		report(path, say.New("field.spaces"))
	case strings.ContainsFunc(name, unicode.IsControl):
		report(path, say.New("field.control"))
	case len(name) > maxNameLength:
		report(path, say.New("field.bytes", "most", maxNameLength))
	}
}

// BaseURLFault returns the fault of the address of an instance. It never repeats the address.
func BaseURLFault(raw string) say.Sentence {
	if raw == "" {
		return say.New("field.required")
	}
	if strings.ContainsFunc(raw, isSpaceOrControl) {
		return say.New("field.spaces_control")
	}
	fault := outgoing.AddressFault(raw)
	switch fault.Code {
	case "":
	case "field.url_name":
		return say.New("field.url_user")
	default:
		return fault
	}
	parsed, _ := url.Parse(raw) // as AddressFault did
	if port := parsed.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return say.New("field.url_port")
		}
	}
	if strings.Contains(raw, "?") {
		return say.New("field.url_query")
	}
	if strings.Contains(raw, "#") {
		return say.New("field.url_fragment")
	}
	if hasParentSegment(parsed.Path) {
		return say.New("field.path_parent")
	}
	// An identifier is name@base-url: it leads to one instance only if the last
	// address in it is the whole base URL.
	if lower := strings.ToLower(raw); strings.Contains(lower, "@http://") || strings.Contains(lower, "@https://") {
		return say.New("field.url_other")
	}
	if _, err := transport.ParseOrigin(raw); err != nil {
		return say.New("field.url_dial")
	}
	return say.Sentence{}
}

func pathFault(raw string) say.Sentence {
	if raw == "" {
		return say.Sentence{}
	}
	if strings.ContainsFunc(raw, isSpaceOrControl) {
		return say.New("field.spaces_control")
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r > unicode.MaxASCII }) {
		return say.New("field.path_ascii")
	}
	if !strings.HasPrefix(raw, "/") {
		return say.New("field.path_slash")
	}
	if strings.Contains(raw, "#") {
		return say.New("field.url_fragment")
	}
	// A query is allowed: some hosted backends want an api-version there.
	path, _, _ := strings.Cut(raw, "?")
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return say.New("field.path_escape")
	}
	if hasParentSegment(decoded) {
		return say.New("field.path_parent")
	}
	return say.Sentence{}
}

// isNotInVersion reports whether no api-version contains the character.
func isNotInVersion(r rune) bool {
	return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
}

func isSpaceOrControl(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func hasParentSegment(path string) bool {
	return slices.Contains(strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }), "..")
}

func (s Settings) checkHeaders(report say.Report) {
	seen := make(map[string]string, len(s.Headers))
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		path := "headers[" + strconv.Quote(name) + "]"
		lower := strings.ToLower(name)
		if first, twice := seen[lower]; twice {
			report(path, say.New("field.same_header", "other", first))
			continue
		}
		seen[lower] = name
		switch {
		case !wire.IsToken(name):
			report(path, say.New("field.header"))
		case isGatewayHeader(lower):
			report(path, say.New("field.own_header"))
		default:
			if fault := valueFault(s.Headers[name]); fault.Is() {
				report(path, fault)
			}
		}
	}
}

// valueFault says why a text cannot be sent as the value of a header. The text of a
// reference is checked when it is resolved.
func valueFault(value Secret) say.Sentence {
	if value.IsReference() {
		return say.Sentence{}
	}
	if strings.ContainsFunc(value.Reveal(), func(r rune) bool { return r != '\t' && unicode.IsControl(r) }) {
		return say.New("field.control_lines")
	}
	return say.Sentence{}
}

// isGatewayHeader reports whether a header belongs to the connection or to the body.
// With such a header every call would fail, or say two things about its body.
func isGatewayHeader(lowerName string) bool {
	switch lowerName {
	case "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-md5",
		"content-range",
		"content-type", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-connection",
		"te", "trailer", "transfer-encoding", "upgrade":
		return true
	}
	return false
}

// HealthSettings say how the instances of a service are watched.
type HealthSettings struct {
	Enabled  bool            `json:"enabled"`
	Interval schema.Duration `json:"interval" minimum:"1"`
	Timeout  schema.Duration `json:"timeout" minimum:"1"`
	// UnhealthyThreshold is the number of failed checks in a row that takes an
	// instance out of traffic, HealthyThreshold the number of good ones that
	// brings it back.
	UnhealthyThreshold int `json:"unhealthyThreshold" minimum:"1"`
	HealthyThreshold   int `json:"healthyThreshold" minimum:"1"`
}

// DefaultHealthSettings returns the settings where nothing is configured.
func DefaultHealthSettings() HealthSettings {
	return HealthSettings{
		Enabled:            true,
		Interval:           schema.Duration(30 * time.Second),
		Timeout:            schema.Duration(5 * time.Second),
		UnhealthyThreshold: 2,
		HealthyThreshold:   1,
	}
}

// Check reports every field that has a value it may not have.
func (s HealthSettings) Check(report say.Report) {
	if s.Interval <= 0 {
		report("interval", say.New("field.longer"))
	}
	if s.Timeout <= 0 {
		report("timeout", say.New("field.longer"))
	}
	if s.UnhealthyThreshold < 1 {
		report("unhealthyThreshold", say.New("field.at_least", "least", "1", "found", s.UnhealthyThreshold))
	}
	if s.HealthyThreshold < 1 {
		report("healthyThreshold", say.New("field.at_least", "least", "1", "found", s.HealthyThreshold))
	}
}
