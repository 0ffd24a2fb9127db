package importer

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// draft is a configuration in the making.
type draft struct {
	source    Source
	file      string
	open      Open
	used      map[*yaml.Node]bool
	rows      []Row
	variables []Variable
	// reserved are the names of variables that the source refers to.
	reserved map[string]bool

	listen, jsonBody string
	origins          []string
	maxAttempts      int
	totalTimeout     string
	services         map[schema.ServiceType]*service
	tokens, keys     []credential
}

// service is what is written of a service type.
type service struct {
	policy    []string // lines
	aliases   []string // name: model
	fallbacks []string // model: [others]
	instances []instance
}

// instance is what is written of an instance; what is empty is left out.
type instance struct {
	name, baseURL, path, adapter, upstreamModel string
	apiKey                                      string
	headers                                     map[string]string
	weight                                      float64 // 0 is left out; noTraffic is 0
	noTraffic, disabled                         bool
	maxConcurrency, tier                        int
	timeouts                                    []string
}

// credential is a management token or an API key, by its hash.
type credential struct{ name, role, hash, expires string }

func newDraft(source Source, file string, open Open) *draft {
	return &draft{source: source, file: file, open: open, used: map[*yaml.Node]bool{}, reserved: map[string]bool{}, services: map[schema.ServiceType]*service{}}
}

// reserve notes the variables that a tree refers to, so that no other secret gets one of
// their names.
func (d *draft) reserve(n *yaml.Node) {
	if n == nil {
		return
	}
	if n.Kind == yaml.ScalarNode {
		if name := referenceOf(n.Value); name != "" {
			d.reserved[name] = true
		}
	}
	for _, below := range n.Content {
		d.reserve(below)
	}
}

// referenceOf returns the variable that a text of a source refers to, or nothing.
func referenceOf(text string) string {
	if springReference.MatchString(text) {
		name, _, _ := strings.Cut(strings.Trim(text, "${}"), ":")
		return name
	}
	for _, prefix := range []string{"os.environ/", "env."} {
		if name, found := strings.CutPrefix(text, prefix); found && variableName.MatchString(name) {
			return name
		}
	}
	return ""
}

func (d *draft) add(outcome Outcome, file string, line int, setting, text string) {
	d.rows = append(d.rows, Row{outcome, file, line, setting, text})
}

func (d *draft) taken(n *yaml.Node, setting, format string, args ...any) {
	d.add(Taken, d.file, line(n), setting, fmt.Sprintf(format, args...))
}

func (d *draft) changed(n *yaml.Node, setting, format string, args ...any) {
	d.add(Changed, d.file, line(n), setting, fmt.Sprintf(format, args...))
}

func (d *draft) unsupported(n *yaml.Node, setting, format string, args ...any) {
	d.use(n)
	d.add(Unsupported, d.file, line(n), setting, fmt.Sprintf(format, args...))
}

func (d *draft) service(serviceType schema.ServiceType) *service {
	s := d.services[serviceType]
	if s == nil {
		s = new(service)
		d.services[serviceType] = s
	}
	return s
}

// addInstance adds an instance. Instances are told apart by name and address here, so
// that a second key for the same address needs another spelling of it.
func (d *draft) addInstance(n *yaml.Node, setting string, serviceType schema.ServiceType, i instance) {
	s := d.service(serviceType)
	taken := func(baseURL string) bool {
		return slices.ContainsFunc(s.instances, func(other instance) bool { return other.name == i.name && other.baseURL == baseURL })
	}
	if !taken(i.baseURL) {
		s.instances = append(s.instances, i)
		d.taken(n, setting, "%s instance %s at %s", serviceType, i.name, i.baseURL)
		return
	}
	same := func(other instance) bool {
		return other.name == i.name && other.apiKey == i.apiKey && other.upstreamModel == i.upstreamModel && other.path == i.path && strings.EqualFold(other.baseURL, i.baseURL)
	}
	if at := slices.IndexFunc(s.instances, same); at >= 0 {
		s.instances[at].weight = cmp.Or(s.instances[at].weight, 1) + cmp.Or(i.weight, 1)
		d.changed(n, setting, "is the instance %s once more: its weight was added to that of the first", i.name)
		return
	}
	for _, spelling := range spellings(i.baseURL) {
		if !taken(spelling) {
			i.baseURL = spelling
			s.instances = append(s.instances, i)
			d.changed(n, setting, "%s instance %s at %s: the address is spelled differently, because name and address tell instances apart", serviceType, i.name, spelling)
			return
		}
	}
	d.unsupported(n, setting, "there is no further spelling of this address that would tell the instance %s apart; give the backend another name", i.name)
}

// spellings returns other ways to write an address that lead to the same place.
func spellings(baseURL string) []string {
	list := []string{baseURL + "/"}
	start := strings.Index(baseURL, "://") + len("://")
	end := len(baseURL)
	if slash := strings.IndexByte(baseURL[start:], '/'); slash >= 0 {
		end = start + slash
	}
	for at := start; at < end; at++ {
		if c := baseURL[at]; c >= 'a' && c <= 'z' && !strings.Contains(baseURL, "${") {
			list = append(list, baseURL[:at]+strings.ToUpper(string(c))+baseURL[at+1:])
		}
	}
	return list
}

var (
	springReference = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_.-]*(:[^}]*)?\}$`)
	variableName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	notInName       = regexp.MustCompile(`[^A-Z0-9]+`)
)

// secret returns a reference to a secret in the environment. The text is the secret, or
// says in the way of the source which variable has it.
func (d *draft) secret(text, from, proposed string) string {
	if text == "" {
		return ""
	}
	if name := referenceOf(text); name != "" {
		d.variable(Variable{Name: name, From: from})
		if springReference.MatchString(text) {
			return text // with its default
		}
		return "${" + name + "}"
	}
	for _, known := range d.variables {
		if known.Value == text {
			return "${" + known.Name + "}"
		}
	}
	name := strings.Trim(notInName.ReplaceAllString(strings.ToUpper(proposed), "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "KEY_" + name
	}
	for base, n := name, 2; d.isTaken(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	d.variable(Variable{name, text, from})
	return "${" + name + "}"
}

// isTaken tells whether a variable has another secret, or may have one.
func (d *draft) isTaken(name string) bool {
	return d.reserved[name] || slices.ContainsFunc(d.variables, func(v Variable) bool { return v.Name == name }) ||
		slices.ContainsFunc(providers, func(p provider) bool { return p.variable == name })
}

func (d *draft) variable(v Variable) {
	if !slices.ContainsFunc(d.variables, func(known Variable) bool { return known.Name == v.Name }) {
		d.variables = append(d.variables, v)
	}
}

// hash returns the hash of a credential, or a reference to a variable that has to hold
// the hash, where only the source's environment has the credential.
func (d *draft) hash(text, from string) string {
	reference := referenceOf(text)
	if reference == "" {
		return access.HashOf(text)
	}
	name := reference + "_SHA256"
	d.variable(Variable{Name: name, From: "the hash (patchbay tokens hash) of " + reference + ", " + from})
	return "${" + name + "}"
}

// result writes the configuration.
func (d *draft) result() (*Result, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by patchbay import from a configuration of %s.\n", d.source)
	if len(d.variables) > 0 {
		b.WriteString("# The variables that it refers to must be set.\n")
	}
	d.writeServer(&b)
	if len(d.services) > 0 {
		b.WriteString("services:\n")
	}
	for _, serviceType := range schema.ServiceTypes() {
		if s := d.services[serviceType]; s != nil {
			s.write(&b, serviceType)
		}
	}
	d.writeSecurity(&b)
	slices.SortStableFunc(d.rows, func(x, y Row) int { return cmp.Or(strings.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line)) })
	return &Result{YAML: b.String(), Rows: d.rows, Variables: d.variables}, nil
}

func (d *draft) writeServer(b *strings.Builder) {
	if d.listen != "" || len(d.origins) > 0 {
		b.WriteString("server:\n")
	}
	if d.listen != "" {
		fmt.Fprintf(b, "  listen: %s\n", config.QuoteYAML(d.listen))
	}
	if len(d.origins) > 0 {
		var list []string
		for _, origin := range d.origins {
			list = append(list, config.QuoteYAML(origin))
		}
		fmt.Fprintf(b, "  cors-origins: [%s]\n", strings.Join(list, ", "))
	}
	if d.maxAttempts > 0 || d.totalTimeout != "" || d.jsonBody != "" {
		b.WriteString("limits:\n")
	}
	if d.maxAttempts > 0 {
		fmt.Fprintf(b, "  max-attempts: %d\n", d.maxAttempts)
	}
	if d.totalTimeout != "" {
		fmt.Fprintf(b, "  total-timeout: %s\n", d.totalTimeout)
	}
	if d.jsonBody != "" {
		fmt.Fprintf(b, "  json-body: %s\n", d.jsonBody)
	}
}

func (d *draft) writeSecurity(b *strings.Builder) {
	if len(d.tokens)+len(d.keys) == 0 {
		return
	}
	b.WriteString("security:\n  enabled: true\n")
	for i, token := range d.tokens {
		if i == 0 {
			b.WriteString("  tokens:\n")
		}
		fmt.Fprintf(b, "    - { name: %s, role: %s, token-sha256: %s }\n", config.QuoteYAML(token.name), token.role, config.QuoteYAML(token.hash))
	}
	for i, key := range d.keys {
		if i == 0 {
			b.WriteString("  keys:\n")
		}
		expires := ""
		if key.expires != "" {
			expires = ", expires-at: " + config.QuoteYAML(key.expires)
		}
		fmt.Fprintf(b, "    - { id: %s, key-sha256: %s%s }\n", config.QuoteYAML(key.name), config.QuoteYAML(key.hash), expires)
	}
}

func (s *service) write(b *strings.Builder, serviceType schema.ServiceType) {
	fmt.Fprintf(b, "  %s:\n", serviceType)
	for _, line := range s.policy {
		fmt.Fprintf(b, "    %s\n", line)
	}
	if len(s.aliases) > 0 {
		fmt.Fprintf(b, "    aliases: { %s }\n", strings.Join(s.aliases, ", "))
	}
	if len(s.fallbacks) > 0 {
		fmt.Fprintf(b, "    fallbacks: { %s }\n", strings.Join(s.fallbacks, ", "))
	}
	if len(s.instances) == 0 {
		b.WriteString("    instances: []\n")
		return
	}
	b.WriteString("    instances:\n")
	for _, i := range s.instances {
		fmt.Fprintf(b, "      - name: %s\n        base-url: %s\n", config.QuoteYAML(i.name), config.QuoteYAML(i.baseURL))
		for _, field := range []struct{ name, value string }{
			{"adapter", i.adapter}, {"upstream-model", i.upstreamModel}, {"path", i.path}, {"api-key", i.apiKey},
		} {
			if field.value != "" {
				fmt.Fprintf(b, "        %s: %s\n", field.name, config.QuoteYAML(field.value))
			}
		}
		switch {
		case i.noTraffic:
			b.WriteString("        weight: 0\n")
		case i.weight != 0 && i.weight != 1:
			fmt.Fprintf(b, "        weight: %s\n", strconv.FormatFloat(i.weight, 'g', -1, 64))
		}
		if i.disabled {
			b.WriteString("        enabled: false\n")
		}
		if i.tier > 0 {
			fmt.Fprintf(b, "        tier: %d\n", i.tier)
		}
		if i.maxConcurrency > 0 {
			fmt.Fprintf(b, "        max-concurrency: %d\n", i.maxConcurrency)
		}
		if len(i.timeouts) > 0 {
			fmt.Fprintf(b, "        timeouts: { %s }\n", strings.Join(i.timeouts, ", "))
		}
		if len(i.headers) > 0 {
			b.WriteString("        headers:\n")
			for _, name := range slices.Sorted(maps.Keys(i.headers)) {
				fmt.Fprintf(b, "          %s: %s\n", config.QuoteYAML(name), config.QuoteYAML(i.headers[name]))
			}
		}
	}
}

// seconds writes seconds as a length of time.
func seconds(s float64) string {
	if whole := int64(s); s == float64(whole) {
		return strconv.FormatInt(whole, 10) + "s"
	}
	return strconv.FormatInt(int64(s*1000+0.5), 10) + "ms"
}
