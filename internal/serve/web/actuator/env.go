package actuator

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// masked is shown in place of every value that is not known to be harmless.
const masked = "******"

// environment is the configuration at the start of the gateway, by its sources.
// They are listed when they are first asked for, which most gateways never are.
type environment struct{ sources func() []source }

type source struct {
	Name       string              `json:"name"`
	Properties map[string]property `json:"properties"`
}

type property struct {
	Value  any    `json:"value"`
	Origin string `json:"origin,omitzero"`
}

// Describe sets the content of Env: the origin of each setting, by its path, and the
// environment variables of the process. It is called before the first request.
func (a *API) Describe(origins map[string]string, environ []string) {
	a.env.sources = sync.OnceValue(func() []source { return sourcesOf(a.options.Document, origins, environ) })
}

func sourcesOf(doc *config.Document, origins map[string]string, environ []string) []source {
	values, presets := map[string]any{}, map[string]any{}
	flatten(values, "", doc)
	flatten(presets, "", config.Default())
	properties := map[string]map[string]property{}
	for path, value := range values {
		name, origin := sourceOf(origins[path])
		if properties[name] == nil {
			properties[name] = map[string]property{}
		}
		if preset, known := presets[path]; !isHarmless(path, value) && !(known && value == preset) {
			value = masked // no default is a secret: they are in the documentation
		}
		properties[name][path] = property{Value: value, Origin: origin}
	}
	variables := map[string]property{}
	for _, entry := range environ {
		if name, _, ok := strings.Cut(entry, "="); ok && name != "" {
			variables[name] = property{Value: masked}
		}
	}
	sources := []source{{Name: systemEnvironment, Properties: variables}}
	for name, list := range properties {
		sources = append(sources, source{name, list})
	}
	slices.SortFunc(sources, func(a, b source) int {
		return cmp.Or(cmp.Compare(rank(a.Name), rank(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return sources
}

// The names of the sources. The first source with a setting wins.
const (
	commandLine       = "commandLineArgs"
	variablesUsed     = "patchbayEnvironment"
	systemEnvironment = "systemEnvironment"
	defaults          = "defaults"
)

func rank(name string) int {
	if at := slices.Index([]string{commandLine, variablesUsed, systemEnvironment}, name); at >= 0 {
		return at
	}
	if name == defaults {
		return 4
	}
	return 3
}

// sourceOf returns the name of the source of an origin such as "patchbay.yaml:3:7", and
// the origin as it is shown.
func sourceOf(origin string) (name, shown string) {
	switch {
	case origin == "":
		return defaults, ""
	case strings.HasPrefix(origin, "--"):
		return commandLine, origin
	case strings.HasPrefix(origin, "environment "):
		return variablesUsed, origin
	}
	return position.ReplaceAllString(origin, ""), origin
}

var position = regexp.MustCompile(`:\d+:\d+$`)

// harmless matches the settings without secrets, addresses of backends and stores, or names
// of people in their texts. The texts of all others are masked. A setting that is added
// later is therefore not shown by accident.
var harmless = regexp.MustCompile(`^(` + strings.Join([]string{
	// names of files, not their contents
	`server\.((management-|ollama-)?listen|data-dir|trusted-proxies|cors-origins|tls\.(certificate|key|client-ca))`,
	`limits\.[\w-]+`, `responses\.max-bytes`, `answer-cache\.(max-bytes|max-answer|services)`, // sizes with their units
	`monitoring\.(prefix|collection-interval|enabled-categories|capture|custom-tags\..+|performance\.flush-interval)`,
	`quota\.(journal-sync|windows|retention\.\w+|distributed\.(key-prefix|timeout))`,
	`redis\.key-prefix`,
	`prices\.(currency|models\[\]\.[\w-]+)`,
	`security\.(allowed-hosts|metrics|references)`,
	`security\.(tokens\[\]\.role|(defaults|tenants\[\]|keys\[\])\.(services|models|expires-at))`,
	`log\.(level|format)`,
	`telemetry\.(protocol|service-name)`,
	`services\.[\w-]+\.(load-balancer|adapter|fallback-on|aliases\..+|fallbacks\..+)`,
	`services\.[\w-]+\.rate-limit\.(algorithm|scope)`,
	`services\.[\w-]+\.instances\[\]\.(name|adapter|api-version|upstream-model|models|tls\.(ca|cert|key))`,
}, "|") + `)(\[\])?$`)

var index = regexp.MustCompile(`\[\d+\]`)

// isHarmless reports whether a value may be shown. Switches and numbers may, and so may a
// setting that is empty.
func isHarmless(path string, value any) bool {
	text, isText := value.(string)
	return !isText || text == "" || harmless.MatchString(index.ReplaceAllString(path, "[]"))
}

// flatten lists the scalars of a document by their paths.
func flatten(to map[string]any, path string, value any) {
	switch v := value.(type) {
	case *config.Document:
		if v == nil {
			return
		}
		var tree map[string]any
		encoded, err := json.Marshal(v)
		if err == nil && json.Unmarshal(encoded, &tree) == nil {
			flatten(to, "", tree)
		}
	case map[string]any:
		for key, member := range v {
			name := config.Kebab(key)
			if path != "" {
				name = path + "." + name
			}
			flatten(to, name, member)
		}
	case []any:
		for i, member := range v {
			flatten(to, path+"["+strconv.Itoa(i)+"]", member)
		}
	default:
		to[path] = v
	}
}

type envView struct {
	ActiveProfiles  []string `json:"activeProfiles"`
	DefaultProfiles []string `json:"defaultProfiles"`
	PropertySources []source `json:"propertySources"`
}

func (a *API) showEnv(_ *web.Call, q *envQuery) (envView, error) {
	const longest = 200
	view := envView{ActiveProfiles: []string{}, DefaultProfiles: []string{"default"}, PropertySources: a.env.sources()}
	if q.Pattern == "" {
		return view, nil
	}
	pattern, err := regexp.Compile(q.Pattern)
	if err != nil || len(q.Pattern) > longest {
		return view, refuse(http.StatusBadRequest, "The pattern is not a regular expression.")
	}
	view.PropertySources = matching(view.PropertySources, pattern)
	return view, nil
}

func matching(sources []source, pattern *regexp.Regexp) []source {
	left := make([]source, 0, len(sources))
	for _, s := range sources {
		kept := map[string]property{}
		for name, p := range s.Properties {
			if pattern.MatchString(name) {
				kept[name] = p
			}
		}
		left = append(left, source{s.Name, kept})
	}
	return left
}

// envQuery narrows the settings by their names.
type envQuery struct {
	Pattern string `json:"pattern" format:"regex" maxLength:"200" doc:"A regular expression for names."`
}

// envProperty is one setting, and every source that has it.
type envProperty struct {
	Property        foundProperty `json:"property"`
	ActiveProfiles  []string      `json:"activeProfiles"`
	DefaultProfiles []string      `json:"defaultProfiles"`
	PropertySources []envPlace    `json:"propertySources"`
}

type foundProperty struct {
	Source string `json:"source"`
	Value  any    `json:"value"`
}

type envPlace struct {
	Name     string    `json:"name"`
	Property *property `json:"property,omitzero"`
}

func (a *API) envProperty(c *web.Call) (envProperty, error) {
	view := envProperty{ActiveProfiles: []string{}, DefaultProfiles: []string{"default"}, PropertySources: []envPlace{}}
	for _, s := range a.env.sources() {
		at := envPlace{Name: s.Name}
		if p, ok := s.Properties[c.PathValue("name")]; ok {
			at.Property = &p
			if view.Property.Source == "" {
				view.Property = foundProperty{s.Name, p.Value}
			}
		}
		view.PropertySources = append(view.PropertySources, at)
	}
	if view.Property.Source == "" {
		return view, refuse(http.StatusNotFound, "")
	}
	return view, nil
}
