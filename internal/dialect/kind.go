package dialect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/dialect/redact"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Kind is one kind of backend: the services it has, its dialect, and its differences
// from others of the same dialect, as data.
type Kind struct {
	// Name is its name in the configuration; Aliases are read as well.
	Name     string
	Aliases  []string
	TypeName string // of the adapter in the list of models
	// Routes holds the service types that the kind supports.
	Routes map[schema.ServiceType]Route
	// Native holds the doors that are not unified and in a dialect that the kind speaks
	// itself: their requests and answers are passed on, not translated.
	Native map[schema.Door]Route
	// KeyHeader is the header that carries the key; empty means Authorization with a bearer
	// token.
	KeyHeader string
	// Sign returns the credential of an endpoint for backends that want another proof than
	// a key in a header, such as a signature of the call; nil for all others.
	Sign func(e Endpoint) Credential
	// Tokens are the prefixes of credentials that are bearer tokens and belong into the
	// header Authorization, although keys of this kind have a header of their own. Signed
	// tokens (JWT) belong there for every kind.
	Tokens  []string
	Headers []wire.Header // of every call
	// Deployments replaces the version at the beginning of every path, for a backend
	// that names the model in the path: {model} is replaced by its name. A base address
	// that ends in a version leads to the paths as they are.
	Deployments string
	// APIVersion is the query parameter api-version of the calls below Deployments,
	// unless the instance says otherwise; empty means that there is none.
	APIVersion string
	// OpenAIBeside means that the backend also serves OpenAI's chat API, beside the API
	// of the kind.
	OpenAIBeside bool
	// Health is the path of a health check that costs nothing and makes the backend
	// do no work; empty means that a health check only connects.
	Health string
	// Tells are the questions that its engine answers about its load, its cache and the
	// models in its memory; nil if it answers none.
	Tells []engines.Question
	// Sizes reads the sizes of its models; nil if it reports none.
	Sizes engines.ReadSizes
	// Breakpoints marks what its API caches in a call; nil if it has no such marks.
	Breakpoints func(*wire.Call)
	// Lever is how its engine loads models and gives them up, empty if it cannot be told to.
	Lever engines.Lever
	// Adapters is how its engine loads LoRA adapters beside its model, empty if it cannot be told
	// to. The names of adapters are models in requests.
	Adapters engines.Lever
	// NoKeepAlive means that a connection serves one call, unless the instance says
	// otherwise, because idle connections occupy workers of the server.
	NoKeepAlive bool
	// Guide describes the kind to people and programs.
	Guide Guide
	// Quirks are the differences of the kind from its dialect.
	Quirks Quirks
	// ErrorPatterns match errors that are not a fault of the backend; see
	// Kind.Meaning.
	ErrorPatterns []ErrorPatterns
}

// Route is how a kind serves one service type.
type Route struct {
	// Path is where calls go unless the instance says otherwise.
	Path    string
	Adapter *Adapter
	// Hosts are where a native door is used unless the instance says otherwise; empty
	// means everywhere. A host includes the domains below it.
	Hosts []string
}

// isUsual reports whether a native door is used at a host unless the instance says
// otherwise.
func (r Route) isUsual(host string) bool {
	for _, known := range r.Hosts {
		if host == known || strings.HasSuffix(host, "."+known) {
			return true
		}
	}
	return len(r.Hosts) == 0
}

// Credential proves to a backend who sends a call, which is complete otherwise: it adds a
// header, a signature of the call, or a token that it has fetched and keeps.
type Credential func(ctx context.Context, call *wire.Call) error

// Quirks are departures of a kind from its dialect.
type Quirks struct {
	// TextDocuments means that documents to rank must be texts, not objects.
	TextDocuments bool
	// UnwrapDocuments means that objects that have a text must be sent as that text, and
	// that others are read as something else, such as images.
	UnwrapDocuments bool
	// Continues is how the kind is made to go on with the beginning of an answer.
	Continues Continuation
}

// Continuation is how a backend of OpenAI's dialect is made to go on with the beginning of an
// answer, which is the last message of a chat.
type Continuation uint8

// The ways to go on.
const (
	// NoContinuation means that the model answers anew.
	NoContinuation Continuation = iota
	// ContinuesLast means that it goes on with a last message of its own.
	ContinuesLast
	// ContinuesFlagged means that it does so if it is told to (continue_final_message).
	ContinuesFlagged
)

// ServesOpenAIChat reports whether a backend answers requests of OpenAI's chat API below
// /v1 of its base address.
func (k *Kind) ServesOpenAIChat() bool {
	return k.OpenAIBeside || k.Routes[schema.Chat].Path == "/v1/chat/completions" && k.Deployments == ""
}

// Endpoint holds the facts about an instance that an adapter needs.
type Endpoint struct {
	BaseURL              string
	Path                 string
	HealthPath           string // where its health is asked for; empty = the kind's
	APIVersion           string // the query parameter api-version; empty = the kind's
	APIKey               string
	Model                string // the backend's name for the model; empty = the caller's
	Headers              map[string]string
	ForwardAuthorization bool
	// AccountIDs says that callers may name things of the account, whoever made them.
	AccountIDs bool
	// Allowed are the members for operators of engines that callers with a key may name.
	Allowed schema.Members
	// Responses says whether the backend speaks the Responses API itself; nil means the
	// usual.
	Responses *bool
	// Members are put into each request.
	Members Members
}

// has reports whether the backend has a native door.
func (e Endpoint) has(door schema.Door, native Route, host string) bool {
	if door == schema.DoorResponses && e.Responses != nil {
		return *e.Responses
	}
	return native.isUsual(host)
}

// Target is an Endpoint prepared for calls: everything that can be computed before
// a request comes.
type Target struct {
	Adapter              *Adapter
	Path                 string
	Header               []wire.Header // without the credential; see Authorize
	ForwardAuthorization bool
	// Model is the backend's name for the model, empty for the caller's, and
	// ModelJSON the same as a JSON text.
	Model     string
	ModelJSON []byte
	Quirks    Quirks

	modelInPath bool // Path holds modelMark
	// accountIDs says that callers may name ids of the account: it is allowed, or the account
	// is the caller's own.
	accountIDs bool
	allowed    schema.Members
	members    Members
	secrets    redact.Secrets
	credential Credential // nil where there is none
	// native are the targets of the doors that the backend has itself.
	native map[schema.Door]*Target
}

// modelMark is the place of the model's name in a path.
const modelMark = "{model}"

// PathFor returns the path of the call for a request, with the name of the model filled
// in.
func (t *Target) PathFor(req *schema.Request) string {
	if !t.modelInPath {
		return t.Path
	}
	return strings.Replace(t.Path, modelMark, url.PathEscape(t.ModelFor(req)), 1)
}

// ModelFor returns the backend's name of the model that a request asks for.
func (t *Target) ModelFor(req *schema.Request) string {
	if t.Model != "" {
		return t.Model
	}
	return string(req.Model)
}

// ModelNameJSON is ModelFor as JSON.
func (t *Target) ModelNameJSON(req *schema.Request) []byte {
	if t.ModelJSON != nil {
		return t.ModelJSON
	}
	return req.ModelJSON()
}

// ForModel returns the target with this name as the backend's name for the model.
func (t *Target) ForModel(model string) *Target {
	if t.Model == model {
		return t
	}
	named := *t
	named.Model, named.ModelJSON = model, jsonwrite.AppendText(nil, model)
	if t.native != nil {
		named.native = make(map[schema.Door]*Target, len(t.native))
	}
	for door, own := range t.native {
		named.native[door] = own.ForModel(model)
	}
	return &named
}

// Target prepares the calls of one service type to an endpoint.
func (k *Kind) Target(service schema.ServiceType, e Endpoint) (*Target, error) {
	base, err := url.Parse(e.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base address: %w", err)
	}
	route := k.Routes[service]
	t := &Target{
		Adapter:              route.Adapter,
		Path:                 k.path(base.EscapedPath(), e, route.Path),
		ForwardAuthorization: e.ForwardAuthorization,
		Model:                e.Model,
		Quirks:               k.Quirks,
		accountIDs:           e.AccountIDs || e.ForwardAuthorization,
		allowed:              e.Allowed,
		members:              e.Members,
		secrets:              secretsOf(base, e),
	}
	t.modelInPath = strings.Contains(t.Path, modelMark)
	if e.Model != "" {
		t.ModelJSON = jsonwrite.AppendText(nil, e.Model)
	}
	t.addHeaders(k, e)
	for door, native := range k.Native {
		if door.Service() != service || !e.has(door, native, base.Hostname()) {
			continue
		}
		own := *t
		own.native = nil // the map belongs to t
		at, under := e, base.EscapedPath()
		at.Path = nativePath(e.Path, route.Path, native.Path)
		if isVersioned(route.Path) && !isVersioned(native.Path) {
			under = withoutVersion(under) // it is beside the API and not in it
		}
		own.Adapter, own.Path = native.Adapter, k.path(under, at, native.Path)
		own.modelInPath = strings.Contains(own.Path, modelMark)
		if t.native == nil {
			t.native = make(map[schema.Door]*Target)
		}
		t.native[door] = &own
	}
	return t, nil
}

// AllowsAccountIDs reports whether callers may name ids of the account, whoever was given
// them.
func (t *Target) AllowsAccountIDs() bool { return t.accountIDs }

// addHeaders sets the headers of every call, from the instance and from its kind, and its
// credential.
func (t *Target) addHeaders(k *Kind, e Endpoint) {
	own := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		own[strings.ToLower(name)] = true
		t.Header = append(t.Header, wire.Header{Name: name, Value: e.Headers[name]})
	}
	for _, h := range k.Headers {
		if !own[strings.ToLower(h.Name)] {
			t.Header = append(t.Header, h)
		}
	}
	switch {
	case k.Sign != nil:
		t.credential = k.Sign(e)
	case e.APIKey != "":
		key := k.Key(e.APIKey)
		t.credential = func(_ context.Context, call *wire.Call) error {
			call.AddHeader(key.Name, key.Value)
			return nil
		}
	}
}

// Authorize adds the credential of the endpoint to a call that is complete otherwise. A
// header that is configured for the instance wins over it.
func (t *Target) Authorize(ctx context.Context, call *wire.Call) error {
	if t.credential == nil {
		return nil
	}
	return t.credential(ctx, call)
}

// Begin fills in a call except for its body.
func (t *Target) Begin(call *wire.Call, path, contentType, accept string) {
	call.Method, call.Path = "POST", path
	call.Header = append(append(call.Header[:0], t.Header...),
		wire.Header{Name: "Content-Type", Value: contentType}, wire.Header{Name: "Accept", Value: accept})
}

// Key returns the header that carries a key.
func (k *Kind) Key(key string) wire.Header {
	if k.KeyHeader != "" {
		return wire.Header{Name: k.KeyHeader, Value: key}
	}
	return wire.Header{Name: "Authorization", Value: "Bearer " + key}
}

// Forwarded returns the header that carries a caller's own credential, given its
// Authorization or its header for keys. It has the form that the backend wants, whatever
// the client's was. It returns false where the caller sent none.
func (k *Kind) Forwarded(authorization, key string) (wire.Header, bool) {
	if authorization == "" {
		return k.Key(key), key != ""
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	if k.KeyHeader == "" || !strings.EqualFold(scheme, "bearer") || k.isToken(token) {
		return wire.Header{Name: "Authorization", Value: authorization}, true
	}
	return k.Key(strings.TrimSpace(token)), true
}

// isToken reports whether a credential is a token and no key.
func (k *Kind) isToken(credential string) bool {
	const signed = "eyJ" // how the JSON object of a JWT begins in base64
	return strings.HasPrefix(credential, signed) ||
		slices.ContainsFunc(k.Tokens, func(begin string) bool { return strings.HasPrefix(credential, begin) })
}

// path returns where the calls of an endpoint go, given the kind's path for them.
func (k *Kind) path(base string, e Endpoint, fallback string) string {
	version := e.APIVersion
	if k.Deployments != "" && e.Path == "" && !versionPattern.MatchString(lastSegment(base)) {
		_, rest, _ := strings.Cut(fallback[1:], "/")
		fallback = k.Deployments + "/" + rest
		if version == "" {
			version = k.APIVersion
		}
	}
	return withAPIVersion(joinPath(base, e.Path, fallback), version)
}

// HealthPath returns where the health of an endpoint is asked for: at its own path, or
// else at the kind's; empty where there is neither. A base address may end in /v1, which
// is above calls but not above every health check, or in the first segment of the path
// itself.
func (k *Kind) HealthPath(e Endpoint) string {
	health, version := cmp.Or(e.HealthPath, k.Health), e.APIVersion
	if health == "" {
		return ""
	}
	base := ""
	if parsed, err := url.Parse(e.BaseURL); err == nil {
		base = strings.TrimRight(parsed.EscapedPath(), "/")
	}
	if e.HealthPath == "" && k.Deployments != "" && versionPattern.MatchString(lastSegment(base)) {
		return withAPIVersion(base+"/"+lastSegment(health), version)
	}
	if version == "" {
		version = k.APIVersion
	}
	base = strings.TrimSuffix(base, "/v1")
	first, _, _ := strings.Cut(health[1:], "/")
	return withAPIVersion(strings.TrimSuffix(base, "/"+first)+health, version)
}

// withAPIVersion adds the query parameter api-version to a path that has none.
func withAPIVersion(path, version string) string {
	if version == "" || strings.Contains(path, "api-version=") {
		return path
	}
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return path + separator + "api-version=" + url.QueryEscape(version)
}

func lastSegment(path string) string {
	path = strings.TrimSuffix(path, "/")
	return path[strings.LastIndexByte(path, '/')+1:]
}

// versionPattern matches the part of a path that names a version: v1, v4, v1beta,
// v1-openai.
var versionPattern = regexp.MustCompile(`^v[0-9]+([a-z-].*)?$`)

// IsVersion reports whether a segment of a path names a version.
func IsVersion(segment string) bool { return versionPattern.MatchString(segment) }

// isVersioned reports whether a path begins with a version.
func isVersioned(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return versionPattern.MatchString(first)
}

// withoutVersion returns a path without a version at its end.
func withoutVersion(path string) string {
	path = strings.TrimSuffix(path, "/")
	if last := lastSegment(path); versionPattern.MatchString(last) {
		return strings.TrimSuffix(path, "/"+last)
	}
	return path
}

// joinPath joins the path of a base address with the instance's own path or, where
// there is none, with the kind's default. A base address that ends as the default
// begins, or in a version, replaces that part of the default.
func joinPath(base, own, fallback string) string {
	base = strings.TrimSuffix(base, "/")
	if own != "" {
		return base + own
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(fallback, "/"), "/")
	last := lastSegment(base)
	if last == first || versionPattern.MatchString(first) && versionPattern.MatchString(last) {
		return base + "/" + rest
	}
	return base + fallback
}

// nativePath returns the instance's own path for a door that the backend has itself,
// empty for the usual one. The instance has the path of its service type. It is used
// where the two are the same or it tells where the API begins.
func nativePath(own, route, native string) string {
	if own == "" || native == route {
		return own
	}
	_, routeEnd, _ := strings.Cut(strings.TrimPrefix(route, "/"), "/")
	_, nativeEnd, _ := strings.Cut(strings.TrimPrefix(native, "/"), "/")
	path, query, hasQuery := strings.Cut(own, "?")
	if root, ok := strings.CutSuffix(path, "/"+routeEnd); ok {
		if isVersioned(route) && !isVersioned(native) {
			root, nativeEnd = withoutVersion(root), strings.TrimPrefix(native, "/")
		}
		path = root + "/" + nativeEnd
		if hasQuery {
			path += "?" + query
		}
		return path
	}
	return ""
}
