package importer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/llamaswap"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// swap is a configuration of llama-swap that is being read.
type swap struct {
	*draft
	root   *yaml.Node
	macros []llamaswap.Macro
	models []string          // that became processes
	names  map[string]string // of models and peers' models, by their names and aliases
}

// llamaSwap reads a configuration of llama-swap.
func (d *draft) llamaSwap(file File) error {
	root, err := d.parse(file)
	if err != nil {
		return err
	}
	models, peers := reading.Entries(reading.At(root, "models")), reading.Entries(reading.At(root, "peers"))
	if len(models)+len(peers) == 0 {
		return errors.New("this is no configuration of llama-swap: it has neither models nor peers")
	}
	s := &swap{draft: d, root: root, names: map[string]string{}}
	s.macros = s.macrosOf(root, "macros", string(file.Content))
	for _, model := range models {
		s.model(model, string(file.Content))
	}
	s.peers(peers)
	s.aliases(models)
	s.router()
	s.preload(reading.At(root, "hooks", "on_startup", "preload"))
	s.globals()
	s.keys(reading.At(root, "apiKeys"))
	d.leftovers(root, "")
	return nil
}

// macrosOf reads the macros of the file or of a model.
func (s *swap) macrosOf(n *yaml.Node, setting, file string) (all []llamaswap.Macro) {
	for _, e := range reading.Entries(reading.At(n, "macros")) {
		if !strings.Contains(file, "${"+e.Key+"}") {
			s.NotInForce(e.Value, setting+"."+e.Key, "nothing refers to it")
			continue
		}
		all = append(all, llamaswap.Macro{Name: e.Key, Value: s.Text(e.Value)})
	}
	return all
}

// swapModel is a model of llama-swap.
type swapModel struct {
	*swap
	id, setting string
	node        *yaml.Node
	scope       []llamaswap.Macro
	process     *process
	apiKey      string // that the server wants
}

// text returns a setting of the model with its macros expanded.
func (m *swapModel) text(names ...string) string {
	return llamaswap.Expand(m.Text(m.node, names...), m.scope)
}

// seconds returns a length of time of the model, or else of the file.
func (m *swapModel) seconds(name, general string) float64 {
	value, err := strconv.ParseFloat(m.text(name), 64)
	if err != nil || value < 0 {
		value, _ = m.Number(m.root, general)
	}
	return value
}

// model makes a process and its instances of a model.
func (s *swap) model(e reading.Entry, file string) {
	m := &swapModel{swap: s, id: e.Key, setting: "models." + e.Key, node: e.Value}
	m.scope = llamaswap.Scope(m.id, s.macros, s.macrosOf(m.node, m.setting+".macros", file))
	command := llamaswap.Expand(llamaswap.Command(m.Text(m.node, "cmd")), m.scope)
	proxy := cmp.Or(m.text("proxy"), "http://localhost:${PORT}")
	switch fault := m.unknownMacro(command + proxy + m.text("cmdStop")); {
	case command == "":
		s.Unsupported(m.node, m.setting, "it has no cmd")
		return
	case fault != "":
		s.Unsupported(m.node, m.setting, "there is no macro ${%s}", fault)
		return
	case strings.Contains(proxy, "${PORT}") && !strings.Contains(command, "${PORT}"):
		s.Unsupported(m.node, m.setting, "its cmd has no ${PORT} and its proxy does, which llama-swap refuses; write "+
			"proxy with the port that the server listens on")
		return
	}
	m.process = &process{
		name: s.processName(m.id), command: m.swapText(m.withoutSecrets(command), m.setting+".cmd"),
		stop: m.swapText(llamaswap.Expand(llamaswap.Command(m.Text(m.node, "cmdStop")), m.scope), m.setting+".cmdStop"),
		env:  m.environment(),
	}
	path := m.ready(proxy)
	if after := m.seconds("ttl", "globalTTL"); after > 0 {
		m.process.lines = append(m.process.lines, "stop-after: "+seconds(after))
	}
	if timeout := m.seconds("unloadTimeout", "unloadTimeout"); timeout > 0 {
		m.process.lines = append(m.process.lines, "stop-timeout: "+seconds(timeout))
	}
	if timeout, given := s.Number(s.root, "healthCheckTimeout"); given {
		m.process.lines = append(m.process.lines, "start-timeout: "+seconds(max(timeout, 15)))
	}
	s.processes = append(s.processes, m.process)
	if !m.instances(command, path) {
		s.processes = s.processes[:len(s.processes)-1]
		s.Use(m.node)
		return
	}
	s.models = append(s.models, m.id)
}

// unfinished are macros that were not expanded. PORT and PID have their values at the start and
// the end of a process.
var unfinished = regexp.MustCompile(`\$\{([A-Za-z0-9_-]+)\}`)

func (m *swapModel) unknownMacro(text string) string {
	for _, found := range unfinished.FindAllStringSubmatch(text, -1) {
		if found[1] != "PORT" && found[1] != "PID" {
			return found[1]
		}
	}
	return ""
}

// swapReference is a reference to a variable, to the port or to the number of a process.
var swapReference = regexp.MustCompile(`\$\{(?:env\.([A-Za-z_][A-Za-z0-9_]*)|(PORT|PID))\}`)

// swapText writes a text of llama-swap as one of ours.
func (d *draft) swapText(text, from string) string {
	var b strings.Builder
	behind := 0
	for _, at := range swapReference.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(escaped(text[behind:at[0]]))
		if behind = at[1]; at[2] < 0 {
			b.WriteString("$" + text[at[4]:at[5]])
			continue
		}
		name := text[at[2]:at[3]]
		d.variable(Variable{Name: name, From: from})
		b.WriteString("${" + name + ":}")
	}
	b.WriteString(escaped(text[behind:]))
	return b.String()
}

// secretFlag finds secrets among the arguments of a command, and secretName those among variables.
var (
	secretFlag = regexp.MustCompile(`(--?(?:api-key|hf-token|hft|token|password)(?:\s+|=))([^\s'"$]+)`)
	secretName = regexp.MustCompile(`(?i)TOKEN|KEY|SECRET|PASSWORD`)
)

// withoutSecrets puts variables of the environment, as llama-swap writes them, in the places of
// the secrets of a command.
func (m *swapModel) withoutSecrets(command string) string {
	return secretFlag.ReplaceAllStringFunc(command, func(found string) string {
		parts := secretFlag.FindStringSubmatch(found)
		reference := m.secret(parts[2], m.setting+".cmd", m.id+"_API_KEY")
		if strings.Contains(parts[1], "api-key") {
			m.apiKey = reference
		}
		return parts[1] + "${env." + strings.Trim(reference, "${:}") + "}"
	})
}

// environment returns the variables of the model's process.
func (m *swapModel) environment() map[string]string {
	all := map[string]string{}
	for _, item := range m.Texts(m.node, "env") {
		name, value, _ := strings.Cut(llamaswap.Expand(item, m.scope), "=")
		if secretName.MatchString(name) && m.variableIn(value) == "" {
			all[name] = m.secret(value, m.setting+".env", name)
			continue
		}
		all[name] = m.swapText(value, m.setting+".env")
	}
	return all
}

// ready sets the address that answers when the process is ready, and returns the path below
// which the process serves requests.
func (m *swapModel) ready(proxy string) (path string) {
	check := cmp.Or(m.text("checkEndpoint"), "/health")
	proxy = strings.Replace(strings.TrimRight(proxy, "/"), "://localhost", "://127.0.0.1", 1)
	if address, err := url.Parse(swapReference.ReplaceAllString(proxy, "1")); err == nil {
		path = address.Path
	}
	switch _, address, _ := strings.Cut(strings.TrimSuffix(proxy, path), "://"); {
	case check == "none":
		m.process.ready = m.swapText("tcp://"+address, m.setting+".proxy")
		m.Changed(reading.At(m.node, "checkEndpoint"), m.setting+".checkEndpoint", "ready: %s; requests are sent when "+
			"the server takes connections, not before", m.process.ready)
	case proxy != "http://127.0.0.1:${PORT}" || check != "/health":
		m.process.ready = m.swapText(proxy+"/"+strings.TrimLeft(check, "/"), m.setting+".proxy")
	}
	return path
}

// instances adds the instances of the model's process, one for each service type.
func (m *swapModel) instances(command, path string) bool {
	types, adapter, route := llamaswap.Serves(m.id, command, m.capabilities())
	i := instance{name: escaped(m.id), process: m.process.name, adapter: adapter, path: route, apiKey: m.apiKey,
		upstreamModel: m.swapText(m.text("useModelName"), m.setting+".useModelName")}
	if path != "" {
		i.baseURL = "http://" + m.process.name + ".process" + path
	}
	if limit, err := strconv.Atoi(m.text("concurrencyLimit")); err == nil && limit > 0 {
		i.maxConcurrency = limit
	}
	filters := reading.At(m.node, "filters")
	i.body = m.body(filters, m.setting+".filters", m.scope, m.id)
	i.timeouts = m.timeouts(m.node, m.setting)
	if reading.At(m.node, "timeouts", "responseHeader") == nil { // which means no bound
		i.timeouts = append(i.timeouts, "first-byte: 1h")
	}
	for _, serviceType := range types {
		if !m.addInstance(m.node, m.setting, serviceType, i) {
			return false
		}
		m.variants(filters, serviceType, i)
	}
	m.names[m.id] = m.id
	return true
}

// variants adds the instances of further names of the model, which have parameters of their own.
func (m *swapModel) variants(filters *yaml.Node, serviceType schema.ServiceType, i instance) {
	params := reading.At(filters, "setParamsByID")
	var names []string
	for _, e := range reading.Entries(params) {
		names = append(names, llamaswap.Expand(e.Key, m.scope))
	}
	if slices.Contains(names, m.id) { // aliases do not have the parameters of the model's own name
		for _, alias := range m.Texts(m.node, "aliases") {
			names = append(names, llamaswap.Expand(alias, m.scope))
		}
	}
	i.upstreamModel = cmp.Or(i.upstreamModel, i.name)
	for _, name := range names {
		if name == m.id {
			continue
		}
		i.name, i.body = escaped(name), m.body(filters, m.setting+".filters", m.scope, name)
		if m.addInstance(params, m.setting+".filters.setParamsByID", serviceType, i) {
			m.names[name] = name
		}
	}
}

// body returns the members of requests that filters set or take out, for one name of a model.
func (s *swap) body(filters *yaml.Node, setting string, scope []llamaswap.Macro, name string) string {
	all := map[string]any{}
	for param := range strings.SplitSeq(llamaswap.Expand(s.Text(filters, "stripParams"), scope), ",") {
		if param = strings.TrimSpace(param); param != "" && param != "model" {
			all[param] = nil
		}
	}
	sets := []*yaml.Node{reading.At(filters, "setParams")}
	for _, e := range reading.Entries(reading.At(filters, "setParamsByID")) {
		if llamaswap.Expand(e.Key, scope) == name {
			sets = append(sets, e.Value)
		}
	}
	for _, set := range sets {
		s.Use(set)
		for _, e := range reading.Entries(set) {
			var value any
			if err := llamaswap.ExpandTree(e.Value, scope).Decode(&value); err == nil && e.Key != "model" {
				all[e.Key] = value
			}
		}
	}
	for _, member := range slices.Sorted(maps.Keys(all)) {
		one, err := json.Marshal(map[string]any{member: all[member]})
		if err == nil {
			_, err = dialect.ReadMembers(string(one))
		}
		if err != nil {
			s.Partly(filters, setting, "%s: %v", member, err)
			delete(all, member)
		}
	}
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all, json.Deterministic(true)) // as its parts were
	return s.swapText(string(text), setting)
}

// capabilities returns what the model is said to take and to give.
func (m *swapModel) capabilities() llamaswap.Capabilities {
	n := reading.At(m.node, "capabilities")
	return llamaswap.Capabilities{In: m.Texts(n, "in"), Out: m.Texts(n, "out"),
		IsReranker: m.Text(n, "reranker") == "true"}
}

// timeouts reads how long a call to a model or a peer may take.
func (s *swap) timeouts(n *yaml.Node, setting string) (lines []string) {
	for _, name := range [][2]string{{"connect", "connect"}, {"responseHeader", "first-byte"}} {
		at := reading.At(n, "timeouts", name[0])
		switch value, given := s.Number(at); {
		case given && value > 0:
			lines = append(lines, name[1]+": "+seconds(value))
		case given && name[0] == "connect":
			s.Changed(at, setting+".timeouts.connect", "limits.connect-timeout counts: no timeout can be left out")
		}
	}
	return lines
}

// peers adds an instance for each model of other servers.
func (s *swap) peers(peers []reading.Entry) {
	owners := map[string][]string{}
	for _, e := range peers {
		setting := "peers." + e.Key
		proxy, models := llamaswap.Expand(s.Text(e.Value, "proxy"), s.macros), s.Texts(e.Value, "models")
		if proxy == "" || len(models) == 0 {
			s.Unsupported(e.Value, setting, "it has no proxy or no models")
			continue
		}
		i := instance{baseURL: s.swapAddress(proxy, setting+".proxy"), timeouts: s.timeouts(e.Value, setting),
			apiKey: s.secret(llamaswap.Expand(s.Text(e.Value, "apiKey"), s.macros), setting+".apiKey",
				e.Key+"_API_KEY"),
			body: s.body(reading.At(e.Value, "filters"), setting+".filters", s.macros, "")}
		for _, model := range models {
			i.name, i.upstreamModel = escaped(e.Key+"/"+model), escaped(model)
			serviceType := llamaswap.ServiceOf(model)
			if s.addInstance(e.Value, setting, serviceType, i) {
				s.names[e.Key+"/"+model] = e.Key + "/" + model
				owners[model] = append(owners[model], e.Key+"/"+model)
			}
		}
	}
	for _, model := range slices.Sorted(maps.Keys(owners)) {
		if owner := owners[model]; len(owner) == 1 && s.names[model] == "" {
			s.alias(reading.At(s.root, "peers"), "peers", model, owner[0])
		}
	}
}

// swapAddress returns the address of a peer. One that leads nowhere takes the place of a variable
// that is not set.
func (d *draft) swapAddress(text, from string) string {
	if d.variableIn(text) != "" {
		return d.address(text, from, "")
	}
	return strings.TrimRight(d.swapText(text, from), "/")
}

// alias gives a model another name, and says so.
func (s *swap) alias(n *yaml.Node, setting, name, model string) {
	if s.rename(n, setting, name, model) {
		s.Taken(n, setting, "%s is an alias of %s", name, s.names[name])
	}
}

// rename gives a model another name, and reports whether it could.
func (s *swap) rename(n *yaml.Node, setting, name, model string) bool {
	model = cmp.Or(s.names[model], model)
	types := s.servicesOf(model)
	if len(types) == 0 {
		s.Unsupported(n, setting, "%s is not served here", model)
		return false
	}
	for _, serviceType := range types {
		written := quoted(escaped(name)) + ": " + quoted(escaped(model))
		if err := check(s.processesText() + "services:\n" +
			s.services[serviceType].withAlias(serviceType, written)); err != nil {
			s.Unsupported(n, setting, "%s", faultOf(err))
			return false
		}
		s.services[serviceType].aliases = append(s.services[serviceType].aliases, written)
	}
	s.names[name] = model
	return true
}

// aliases reads further names of models, and names that stand for one of several.
func (s *swap) aliases(models []reading.Entry) {
	for _, e := range models {
		scope := llamaswap.Scope(e.Key, s.macros, nil)
		for _, name := range s.Texts(e.Value, "aliases") {
			if name = llamaswap.Expand(name, scope); s.names[name] == "" {
				s.alias(reading.At(e.Value, "aliases"), "models."+e.Key+".aliases", name, e.Key)
			}
		}
	}
	for _, e := range reading.Entries(reading.At(s.root, "selectors")) {
		setting := "selectors." + e.Key
		strategy, targets := s.Text(e.Value, "strategy"), s.Texts(e.Value, "targets")
		if len(targets) == 0 {
			s.Unsupported(e.Value, setting, "it has no targets")
			continue
		}
		if strategy == "pin" {
			s.alias(e.Value, setting, e.Key, targets[0])
		} else if s.rename(e.Value, setting, e.Key, targets[0]) {
			s.Partly(e.Value, setting, "%s is an alias of its first target; a name that is served by one of several "+
				"models has an instance for each of them, and load-balancer: least-time goes where one is in memory",
				e.Key)
		}
	}
}

// globals reports the outcome of the settings for all models.
func (s *swap) globals() {
	for _, name := range []string{"globalTTL", "unloadTimeout", "healthCheckTimeout"} {
		if n := reading.At(s.root, name); n != nil {
			s.Use(n)
			s.Changed(n, name, "written at each process")
		}
	}
	if n := reading.At(s.root, "startPort"); n != nil {
		s.Use(n)
		s.Changed(n, "startPort", "$PORT is any free port")
	}
	if n := reading.At(s.root, "includeAliasesInList"); n != nil {
		s.Use(n)
		s.Changed(n, "includeAliasesInList", "aliases are always among the models that are listed")
	}
	s.same("logLevel", "log", "level", &s.logLevel)
	s.same("logRequests", "log", "access", &s.logAccess)
	s.same("metricsMaxInMemory", "monitoring", "calls", &s.calls)
	if n := reading.At(s.root, "sendLoadingState"); n != nil && s.Text(n) == "true" &&
		s.addPolicy(n, "sendLoadingState", schema.Chat, "residency: { hold-notice: 1s }") {
		s.Changed(n, "sendLoadingState", "residency.hold-notice: 1s: a stream that waits for its model begins with "+
			"comments, not with a text of its own")
	}
	if len(s.models) == 0 {
		return
	}
	s.Changed(nil, "timeouts", "an answer of a process may take an hour to begin, which llama-swap does not bound")
	s.Changed(nil, "env", "a process gets its env, and of the other variables only PATH, HOME and others that are no "+
		"secrets; docs/processes.md lists them")
}

// same reads a setting that has the same values here.
func (s *swap) same(name, section, member string, to *string) {
	n := reading.At(s.root, name)
	if s.Text(n) == "" {
		return
	}
	value := s.numeral(llamaswap.Expand(s.Text(n), s.macros), name, "")
	if err := check(section + ": { " + member + ": " + value + " }\n"); err != nil {
		s.Unsupported(n, name, "%s", faultOf(err))
		return
	}
	*to = value
	s.Taken(n, name, "%s.%s: %s", section, member, value)
}

// keys takes API keys by their hashes.
func (s *swap) keys(n *yaml.Node) {
	for i, item := range reading.Items(n) {
		setting := fmt.Sprintf("apiKeys[%d]", i)
		value := llamaswap.Expand(s.Text(item), s.macros)
		s.addKey(item, setting, credential{name: fmt.Sprintf("llama-swap-%d", i+1), hash: s.hash(value, setting)})
	}
}
