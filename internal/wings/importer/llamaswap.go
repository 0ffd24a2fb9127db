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

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/llamaswap"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// swap is a configuration of llama-swap that is being read.
type swap struct {
	*draft
	root   reading.Setting
	file   string // its text
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
	models, peers := root.At("models").Entries(), root.At("peers").Entries()
	if len(models)+len(peers) == 0 {
		return errors.New("this is no configuration of llama-swap: it has neither models nor peers")
	}
	s := &swap{draft: d, root: root, file: string(file.Content), names: map[string]string{}}
	s.macros = s.macrosOf(root)
	for _, model := range models {
		s.model(model)
	}
	s.peers(peers)
	s.aliases(models)
	s.router()
	s.preload(root.At("hooks", "on_startup", "preload"))
	s.globals()
	for i, key := range root.At("apiKeys").Items() {
		key = expanded(key, s.macros)
		s.addKey(key, credential{name: fmt.Sprintf("llama-swap-%d", i+1), hash: s.hash(key)})
	}
	d.leftovers(root)
	return nil
}

// expanded returns a setting with macros in its text expanded.
func expanded(n reading.Setting, scope []llamaswap.Macro) reading.Setting {
	if n.Text() == "" {
		return n
	}
	return n.With(llamaswap.Expand(n.Text(), scope))
}

// macrosOf reads the macros of the file or of a model.
func (s *swap) macrosOf(n reading.Setting) (all []llamaswap.Macro) {
	for _, macro := range n.At("macros").Entries() {
		if !strings.Contains(s.file, "${"+macro.Key+"}") {
			macro.NotInForce("nothing refers to it")
			continue
		}
		all = append(all, llamaswap.Macro{Name: macro.Key, Value: macro.Text()})
	}
	return all
}

// swapModel is a model of llama-swap.
type swapModel struct {
	*swap
	node    reading.Setting
	scope   []llamaswap.Macro
	process *process
	apiKey  string // that the server wants
}

// at returns a setting of the model with its macros expanded.
func (m *swapModel) at(names ...string) reading.Setting {
	return expanded(m.node.At(names...), m.scope)
}

// seconds returns a length of time of the model, or else of the file, empty if it is 0.
func (m *swapModel) seconds(name, general string) string {
	if value, given := m.at(name).Number(); given && value >= 0 {
		return m.at(name).Seconds()
	}
	return m.root.Seconds(general)
}

// model makes a process and its instances of a model.
func (s *swap) model(n reading.Setting) {
	m := &swapModel{swap: s, node: n}
	m.scope = llamaswap.Scope(n.Key, s.macros, s.macrosOf(n))
	command, stop := m.command("cmd"), m.command("cmdStop")
	proxy := cmp.Or(m.at("proxy").Text(), "http://localhost:${PORT}")
	switch fault := unknownMacro(command.Text() + proxy + stop.Text()); {
	case command.Text() == "":
		n.Unsupported("it has no cmd")
		return
	case fault != "":
		n.Unsupported("there is no macro ${%s}", fault)
		return
	case strings.Contains(proxy, "${PORT}") && !strings.Contains(command.Text(), "${PORT}"):
		n.Unsupported("its cmd has no ${PORT} and its proxy does, which llama-swap refuses; write " +
			"proxy with the port that the server listens on")
		return
	}
	m.process = &process{name: s.processName(n.Key), command: m.swapText(m.withoutSecrets(command)),
		stop: m.swapText(stop), env: m.environment()}
	path := m.ready(proxy)
	m.process.more = members{{"stop-after", m.seconds("ttl", "globalTTL")},
		{"stop-timeout", m.seconds("unloadTimeout", "unloadTimeout")}}
	if timeout, given := s.root.Number("healthCheckTimeout"); given {
		m.process.more = append(m.process.more, [2]string{"start-timeout", reading.Seconds(max(timeout, 15))})
	}
	s.processes = append(s.processes, m.process)
	if !m.instances(command.Text(), path) {
		s.processes = s.processes[:len(s.processes)-1]
		n.Use()
		return
	}
	s.models = append(s.models, n.Key)
}

// command returns a command of the model without its comments, with macros expanded.
func (m *swapModel) command(name string) reading.Setting {
	n := m.node.At(name)
	return expanded(n.With(llamaswap.Command(n.Text())), m.scope)
}

// unfinished are macros that were not expanded. PORT and PID have their values at the start and
// the end of a process.
var unfinished = regexp.MustCompile(`\$\{([A-Za-z0-9_-]+)\}`)

func unknownMacro(text string) string {
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
func (d *draft) swapText(n reading.Setting) string {
	var b strings.Builder
	text, behind := n.Text(), 0
	for _, at := range swapReference.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(escaped(text[behind:at[0]]))
		if behind = at[1]; at[2] < 0 {
			b.WriteString("$" + text[at[4]:at[5]])
			continue
		}
		name := text[at[2]:at[3]]
		d.variable(Variable{Name: name, From: n.Name})
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
func (m *swapModel) withoutSecrets(command reading.Setting) reading.Setting {
	return command.With(secretFlag.ReplaceAllStringFunc(command.Text(), func(found string) string {
		parts := secretFlag.FindStringSubmatch(found)
		reference := m.secret(command.With(parts[2]), m.node.Key+"_API_KEY")
		if strings.Contains(parts[1], "api-key") {
			m.apiKey = reference
		}
		return parts[1] + "${env." + strings.Trim(reference, "${:}") + "}"
	}))
}

// environment returns the variables of the model's process.
func (m *swapModel) environment() map[string]string {
	all, env := map[string]string{}, m.node.At("env")
	env.Use()
	for _, item := range env.Items() {
		name, value, _ := strings.Cut(expanded(item, m.scope).Text(), "=")
		at := env.With(value)
		if secretName.MatchString(name) && m.variableIn(value) == "" {
			all[name] = m.secret(at, name)
			continue
		}
		all[name] = m.swapText(at)
	}
	return all
}

// ready sets the address that answers when the process is ready, and returns the path below
// which the process serves requests.
func (m *swapModel) ready(proxy string) (path string) {
	at := m.node.At("proxy")
	check := cmp.Or(m.at("checkEndpoint").Text(), "/health")
	proxy = strings.Replace(strings.TrimRight(proxy, "/"), "://localhost", "://127.0.0.1", 1)
	if address, err := url.Parse(swapReference.ReplaceAllString(proxy, "1")); err == nil {
		path = address.Path
	}
	switch _, address, _ := strings.Cut(strings.TrimSuffix(proxy, path), "://"); {
	case check == "none":
		m.process.ready = m.swapText(at.With("tcp://" + address))
		m.node.At("checkEndpoint").Changed("ready: %s; requests are sent when "+
			"the server takes connections, not before", m.process.ready)
	case proxy != "http://127.0.0.1:${PORT}" || check != "/health":
		m.process.ready = m.swapText(at.With(proxy + "/" + strings.TrimLeft(check, "/")))
	}
	return path
}

// instances adds the instances of the model's process, one for each service type.
func (m *swapModel) instances(command, path string) bool {
	capabilities := m.node.At("capabilities")
	types, adapter, route := llamaswap.Serves(m.node.Key, command, llamaswap.Capabilities{
		In: capabilities.Texts("in"), Out: capabilities.Texts("out"),
		IsReranker: capabilities.Text("reranker") == "true"})
	i := instance{name: escaped(m.node.Key), process: m.process.name, adapter: adapter, path: route, apiKey: m.apiKey,
		upstreamModel: m.swapText(m.at("useModelName"))}
	if path != "" {
		i.baseURL = "http://" + m.process.name + ".process" + path
	}
	if limit, err := strconv.Atoi(m.at("concurrencyLimit").Text()); err == nil && limit > 0 {
		i.maxConcurrency = limit
	}
	filters := m.node.At("filters")
	i.body = m.body(filters, m.scope, m.node.Key)
	i.timeouts = swapTimeouts(m.node)
	if !m.node.At("timeouts", "responseHeader").Exists() { // which means no bound
		i.timeouts = append(i.timeouts, [2]string{"first-byte", "1h"})
	}
	for _, serviceType := range types {
		if !m.addInstance(m.node, serviceType, i) {
			return false
		}
		m.variants(filters, serviceType, i)
	}
	m.names[m.node.Key] = m.node.Key
	return true
}

// variants adds the instances of further names of the model, which have parameters of their own.
func (m *swapModel) variants(filters reading.Setting, serviceType schema.ServiceType, i instance) {
	params := filters.At("setParamsByID")
	var names []string
	for _, param := range params.Entries() {
		names = append(names, llamaswap.Expand(param.Key, m.scope))
	}
	if slices.Contains(names, m.node.Key) { // aliases do not have the parameters of the model's own name
		for _, alias := range m.node.Texts("aliases") {
			names = append(names, llamaswap.Expand(alias, m.scope))
		}
	}
	i.upstreamModel = cmp.Or(i.upstreamModel, i.name)
	for _, name := range names {
		if name == m.node.Key {
			continue
		}
		i.name, i.body = escaped(name), m.body(filters, m.scope, name)
		if m.addInstance(params, serviceType, i) {
			m.names[name] = name
		}
	}
}

// body returns the members of requests that filters set or take out, for one name of a model.
func (s *swap) body(filters reading.Setting, scope []llamaswap.Macro, name string) string {
	all := map[string]any{}
	for param := range strings.SplitSeq(llamaswap.Expand(filters.Text("stripParams"), scope), ",") {
		if param = strings.TrimSpace(param); param != "" && param != "model" {
			all[param] = nil
		}
	}
	sets := []reading.Setting{filters.At("setParams")}
	for _, set := range filters.At("setParamsByID").Entries() {
		if llamaswap.Expand(set.Key, scope) == name {
			sets = append(sets, set)
		}
	}
	for _, set := range sets {
		set.Use()
		for _, member := range set.Entries() {
			var value any
			if err := llamaswap.ExpandTree(member.Node, scope).Decode(&value); err == nil && member.Key != "model" {
				all[member.Key] = value
			}
		}
	}
	for _, member := range slices.Sorted(maps.Keys(all)) {
		one, err := json.Marshal(map[string]any{member: all[member]})
		if err == nil {
			_, err = dialect.ReadMembers(string(one))
		}
		if err != nil {
			filters.Partly("%s: %v", member, err)
			delete(all, member)
		}
	}
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all, json.Deterministic(true)) // as its parts were
	return s.swapText(filters.With(string(text)))
}

// swapTimeouts reads how long a call to a model or a peer may take.
func swapTimeouts(n reading.Setting) members {
	connect := n.At("timeouts", "connect")
	if _, given := connect.Number(); given && connect.Seconds() == "" {
		connect.Changed("limits.connect-timeout counts: no timeout can be left out")
	}
	return members{{"connect", connect.Seconds()}, {"first-byte", n.At("timeouts").Seconds("responseHeader")}}
}

// peers adds an instance for each model of other servers.
func (s *swap) peers(peers []reading.Setting) {
	owners := map[string][]string{}
	for _, peer := range peers {
		proxy, models := expanded(peer.At("proxy"), s.macros), peer.Texts("models")
		if proxy.Text() == "" || len(models) == 0 {
			peer.Unsupported("it has no proxy or no models")
			continue
		}
		i := instance{baseURL: s.swapAddress(proxy), timeouts: swapTimeouts(peer),
			apiKey: s.secret(expanded(peer.At("apiKey"), s.macros), peer.Key+"_API_KEY"),
			body:   s.body(peer.At("filters"), s.macros, "")}
		for _, model := range models {
			name := peer.Key + "/" + model
			i.name, i.upstreamModel = escaped(name), escaped(model)
			if s.addInstance(peer, llamaswap.ServiceOf(model), i) {
				s.names[name] = name
				owners[model] = append(owners[model], name)
			}
		}
	}
	for _, model := range slices.Sorted(maps.Keys(owners)) {
		if owner := owners[model]; len(owner) == 1 && s.names[model] == "" {
			s.alias(s.root.At("peers"), model, owner[0])
		}
	}
}

// swapAddress returns the address of a peer. One that leads nowhere takes the place of a variable
// that is not set.
func (d *draft) swapAddress(n reading.Setting) string {
	if d.variableIn(n.Text()) != "" {
		return d.address(n, "")
	}
	return strings.TrimRight(d.swapText(n), "/")
}

// alias gives a model another name, and adds a row about it.
func (s *swap) alias(n reading.Setting, name, model string) {
	if s.rename(n, name, model) {
		n.Taken("%s is an alias of %s", name, s.names[name])
	}
}

// rename gives a model another name, and reports whether that is possible.
func (s *swap) rename(n reading.Setting, name, model string) bool {
	model = cmp.Or(s.names[model], model)
	types := s.servicesOf(model)
	if len(types) == 0 {
		n.Unsupported("%s is not served here", model)
		return false
	}
	for _, serviceType := range types {
		if fault := s.addAlias(serviceType, name, model); fault != "" {
			n.Unsupported("%s", fault)
			return false
		}
	}
	s.names[name] = model
	return true
}

// aliases reads further names of models, and names that stand for one of several.
func (s *swap) aliases(models []reading.Setting) {
	for _, model := range models {
		scope := llamaswap.Scope(model.Key, s.macros, nil)
		for _, name := range model.Texts("aliases") {
			if name = llamaswap.Expand(name, scope); s.names[name] == "" {
				s.alias(model.At("aliases"), name, model.Key)
			}
		}
	}
	for _, selector := range s.root.At("selectors").Entries() {
		strategy, targets := selector.Text("strategy"), selector.Texts("targets")
		if len(targets) == 0 {
			selector.Unsupported("it has no targets")
			continue
		}
		if strategy == "pin" {
			s.alias(selector, selector.Key, targets[0])
		} else if s.rename(selector, selector.Key, targets[0]) {
			selector.Partly("%s is an alias of its first target; a name that is served by one of several "+
				"models has an instance for each of them, and load-balancer: least-time goes where one is in memory",
				selector.Key)
		}
	}
}

// globals reports the outcome of the settings for all models.
func (s *swap) globals() {
	for _, global := range [][2]string{
		{"globalTTL", "written at each process"}, {"unloadTimeout", "written at each process"},
		{"healthCheckTimeout", "written at each process"}, {"startPort", "$PORT is any free port"},
		{"includeAliasesInList", "aliases are always among the models that are listed"},
	} {
		if n := s.root.At(global[0]); n.Exists() {
			n.Use()
			n.Changed("%s", global[1])
		}
	}
	s.same("logLevel", "log", "level", &s.logLevel)
	s.same("logRequests", "log", "access", &s.logAccess)
	s.same("metricsMaxInMemory", "monitoring", "calls", &s.calls)
	if n := s.root.At("sendLoadingState"); n.Text() == "true" &&
		s.addPolicy(n, schema.Chat, "residency: { hold-notice: 1s }") {
		n.Changed("residency.hold-notice: 1s: a stream that waits for its model begins with " +
			"comments, not with a text of its own")
	}
	if len(s.models) == 0 {
		return
	}
	s.about("timeouts").Changed("an answer of a process may take an hour to begin, which llama-swap does not bound")
	s.about("env").Changed("a process gets its env, and of the other variables only PATH, HOME and others that are " +
		"no secrets; docs/processes.md lists them")
}

// same reads a setting that has the same values here.
func (s *swap) same(name, section, member string, to *string) {
	n := s.root.At(name)
	if n.Text() == "" {
		return
	}
	value := s.numeral(expanded(n, s.macros), "")
	if fault := faultOf(section + ": { " + member + ": " + value + " }\n"); fault != "" {
		n.Unsupported("%s", fault)
		return
	}
	*to = value
	n.Taken("%s.%s: %s", section, member, value)
}
