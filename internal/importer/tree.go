package importer

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// at returns the node below a node by the names of members, in any spelling, or nil.
func at(n *yaml.Node, names ...string) *yaml.Node {
	for _, name := range names {
		n = member(n, name)
	}
	return n
}

func member(n *yaml.Node, name string) *yaml.Node {
	n = resolved(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if schema.Fold(n.Content[i].Value) == schema.Fold(name) {
			return resolved(n.Content[i+1])
		}
	}
	return nil
}

// resolved follows aliases.
func resolved(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// entry is a member of a mapping.
type entry struct {
	key   string
	value *yaml.Node
}

func entries(n *yaml.Node) []entry {
	n = resolved(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var list []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		list = append(list, entry{n.Content[i].Value, resolved(n.Content[i+1])})
	}
	return list
}

func items(n *yaml.Node) []*yaml.Node {
	n = resolved(n)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	list := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		list[i] = resolved(item)
	}
	return list
}

func line(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}

// text returns a scalar and notes that it was looked at.
func (d *draft) text(n *yaml.Node, names ...string) string {
	n = at(n, names...)
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.use(n)
		return ""
	}
	d.use(n)
	return n.Value
}

func (d *draft) number(n *yaml.Node, names ...string) (value float64, given bool) {
	text := d.text(n, names...)
	value, err := strconv.ParseFloat(text, 64)
	return value, text != "" && err == nil
}

// isOff tells whether a switch is given and off.
func (d *draft) isOff(n *yaml.Node, names ...string) bool {
	return strings.EqualFold(d.text(n, names...), "false")
}

// use notes that a node, with all that is below it, was looked at.
func (d *draft) use(n *yaml.Node) {
	if n == nil || d.used[n] {
		return
	}
	d.used[n] = true
	for _, below := range n.Content {
		d.use(resolved(below))
	}
}

// isTouched tells whether a node or something below it was looked at.
func (d *draft) isTouched(n *yaml.Node) bool {
	if n == nil || d.used[n] {
		return n != nil
	}
	for _, below := range n.Content {
		if d.isTouched(resolved(below)) {
			return true
		}
	}
	return false
}

// leftovers reports what was not looked at, whole branches as one row.
func (d *draft) leftovers(root *yaml.Node, file string) {
	d.walk(root, "", file)
}

func (d *draft) walk(n *yaml.Node, path, file string) {
	if n == nil || d.used[n] {
		return
	}
	for _, e := range entries(n) {
		here := strings.TrimPrefix(path+"."+e.key, ".")
		switch {
		case d.used[e.value] || isEmpty(e.value):
		case !d.isTouched(e.value):
			d.add(Unsupported, file, line(e.value), here, reasonFor(d.source, here))
		default:
			d.walk(e.value, here, file)
		}
	}
	for i, item := range items(n) {
		here := fmt.Sprintf("%s[%d]", path, i)
		if !d.used[item] && !d.isTouched(item) {
			d.add(Unsupported, file, line(item), here, reasonFor(d.source, here))
			continue
		}
		d.walk(item, here, file)
	}
}

func isEmpty(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && (n.Tag == "!!null" || n.Value == "") || n.Kind != yaml.ScalarNode && len(n.Content) == 0
}

// reasonFor says why a setting has no place here, and what to do.
func reasonFor(source Source, path string) string {
	for _, known := range reasons {
		if (known.source == "" || known.source == source) && strings.Contains(path, known.part) {
			return known.text
		}
	}
	return "there is no such setting here; docs/configuration.md has those that there are"
}

type reason struct {
	source     Source
	part, text string
}

var reasons = []reason{
	{LiteLLM, "environment_variables", "set these variables in the environment of the gateway"},
	{LiteLLM, "fallbacks", "write it as fallbacks of the service type; docs/traffic.md"},
	{LiteLLM, "cache", "there is no cache of answers"},
	{LiteLLM, "callback", "calls are in the access log, in OpenTelemetry traces and at /api/monitoring/calls"},
	{LiteLLM, "database_url", "keys are in the data directory, or in PostgreSQL with store.config"},
	{LiteLLM, "guardrails", "there are no guardrails"},
	{LiteLLM, "mcp", "there is no MCP gateway"},
	{LiteLLM, "tpm", "tokens are counted by the quota ledger; limits of them belong to keys"},
	{LiteLLM, "_cost_per_", "write it under prices; patchbay prices import makes that section of the price list of LiteLLM"},
	{LiteLLM, "drop_params", "members that a dialect has no place for are left out or refused as docs/adapters.md says"},
	{LiteLLM, "redis_", "set redis.url, and shared: true at the rate limits that gateways share; docs/scaling.md"},
	{JAiRouter, "permissions", "a key is for /v1 only; issue management tokens with patchbay tokens"},
	{JAiRouter, "fallback", "there is no answer in place of a failed one; failover tries other instances"},
	{JAiRouter, "hash-algorithm", "ip-hash needs no choice of an algorithm"},
	{JAiRouter, "virtual-nodes", "ip-hash needs no virtual nodes"},
	{JAiRouter, "jwt", "issue management tokens with patchbay tokens"},
	{JAiRouter, "spring", "this is a setting of the Java framework"},
	{JAiRouter, "management", "the operational endpoints are always there; security guards them"},
	{JAiRouter, "logging", "set log.level, or a logger at /actuator/loggers"},
	{JAiRouter, "monitoring", "set monitoring by hand; the names of metrics differ"},
	{JAiRouter, "store", "versions are files in server.data-dir"},
	{JAiRouter, "tracing", "set telemetry by hand"},
	{JAiRouter, "webclient", "set limits.connect-timeout and limits.first-byte-timeout"},
	{JAiRouter, "rate-limit", "limits are settings of a service type; those of instances are max-concurrency"},
	{JAiRouter, "circuit-breaker", "breakers are set for a service type"},
	{Bifrost, "mcp", "there is no MCP gateway"},
	{Bifrost, "plugins", "there are no plugins"},
	{Bifrost, "config_store", "versions are files in server.data-dir, or in PostgreSQL with store.config"},
	{Bifrost, "logs_store", "calls are in the access log and at /api/monitoring/calls"},
	{Bifrost, "vector_store", "there is no cache of answers"},
	{Bifrost, "bedrock", "requests to Bedrock must be signed, which no adapter does; use an OpenAI-compatible endpoint"},
	{Bifrost, "vertex", "Vertex needs tokens of Google Cloud, which no adapter gets; use the gemini adapter with an API key"},
}
