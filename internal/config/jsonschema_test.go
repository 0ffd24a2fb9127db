package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/docs"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
)

// schemaFaults checks a value against the keywords that JSONSchema uses.
func schemaFaults(root, s map[string]any, at string, value any) []string {
	if ref, has := s["$ref"].(string); has {
		to := root
		if name, inner := strings.CutPrefix(ref, "#/$defs/"); inner {
			to = root["$defs"].(map[string]any)[name].(map[string]any)
		}
		return schemaFaults(root, to, at, value)
	}
	if list, has := s["anyOf"].([]any); has {
		var faults []string
		for _, one := range list {
			found := schemaFaults(root, one.(map[string]any), at, value)
			if len(found) == 0 {
				return nil
			}
			faults = append(faults, found...)
		}
		return faults
	}
	if values, has := s["enum"].([]any); has && !slices.Contains(values, value) {
		return []string{fmt.Sprintf("%s: %v is not one of %v", at, value, values)}
	}
	if s["type"] != nil && !hasType(s["type"], value) {
		return []string{fmt.Sprintf("%s: %v is no %v", at, value, s["type"])}
	}
	if pattern, has := s["pattern"].(string); has && !regexp.MustCompile(pattern).MatchString(fmt.Sprint(value)) {
		return []string{fmt.Sprintf("%s: %v does not match %s", at, value, pattern)}
	}
	number, err := strconv.ParseFloat(fmt.Sprint(value), 64)
	least, hasLeast := s["minimum"].(float64)
	most, hasMost := s["maximum"].(float64)
	if err == nil && (hasLeast && number < least || hasMost && number > most) {
		return []string{fmt.Sprintf("%s: %v is not within %v and %v", at, value, s["minimum"], s["maximum"])}
	}
	var faults []string
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			faults = append(faults, schemaFaults(root, s["items"].(map[string]any), indexed(at, i), item)...)
		}
	case map[string]any:
		for key, item := range v {
			faults = append(faults, memberFaults(root, s, at, key, item)...)
		}
	}
	return faults
}

func memberFaults(root, s map[string]any, at, key string, item any) []string {
	properties, _ := s["properties"].(map[string]any)
	if member, has := properties[key].(map[string]any); has {
		return schemaFaults(root, member, join(at, key), item)
	}
	patterns, _ := s["patternProperties"].(map[string]any)
	for pattern, member := range patterns {
		if regexp.MustCompile(pattern).MatchString(key) {
			return schemaFaults(root, member.(map[string]any), join(at, key), item)
		}
	}
	if others, has := s["additionalProperties"].(map[string]any); has {
		return schemaFaults(root, others, join(at, key), item)
	}
	if s["additionalProperties"] == false {
		return []string{join(at, key) + ": unknown key"}
	}
	return nil
}

func hasType(types, value any) bool {
	names, several := types.([]any)
	if !several {
		names = []any{types}
	}
	return slices.ContainsFunc(names, func(name any) bool {
		switch value.(type) {
		case nil:
			return name == "null"
		case bool:
			return name == "boolean"
		case int:
			return name == "integer" || name == "number"
		case float64:
			return name == "number"
		case string:
			return name == "string"
		case []any:
			return name == "array"
		case map[string]any:
			return name == "object"
		default: // a time, for which YAML has a type
			return name == "string"
		}
	})
}

// plainSchema returns the schema as a reader of its JSON sees it.
func plainSchema(t *testing.T) map[string]any {
	t.Helper()
	data, err := json.Marshal(JSONSchema(docs.Setting))
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	return root
}

func yamlFaults(t *testing.T, root map[string]any, content string) []string {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(content), &value); err != nil {
		t.Fatalf("%v in\n%s", err, content)
	}
	return schemaFaults(root, root, "", value)
}

// What Load reads, the schema allows: the examples of the documentation, in all
// spellings.
func TestSchemaAllowsWhatLoadReads(t *testing.T) {
	root := plainSchema(t)
	content, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	examples := []string{
		"server: {listen: [a:1, b:2], shutdownGrace: 1000}\n",
		"patchbay: {quota: {failOpen: false}}\nlog.level: WARN\n",
		"services: {imgGen: {load_balancer: LEAST_CONNECTIONS, rateLimit: {algorithm: SlidingWindow}}, img-edit: }\n",
		"limits: {json-body: 1MiB, max-attempts: '${N:2}', memory: 1048576}\n",
		"services: {chat: {instances: [{name: m, baseUrl: 'http://x', weight: 0.5, adapter: claude, headers: {X-A: b}, timeouts: {first_byte: 1m30s}}]}}\n",
		"prices: {models: [{model: m, input: 2.5, output: 10, cached-input: '0.25'}]}\nsecurity: {keys: [{id: k, key-sha256: x, budgets: {day: {cost: 2.5}}}]}\n",
		"services: {chat: {instances: [{name: m, base-url: 'http://x', weight: 0, tier: 100, max-concurrency: auto}]}}\n",
		"services: {chat: {load-balancer: leastTime, adapter: Open_AI, instances: [{name: m, base-url: 'http://x', adapter: '${KIND}'}]}}\n",
		"services: {chat: {load-balancer: , instances: }}\nserver: {listen: , trusted-proxies: ['10.0.0.0/8', '::ffff:10.0.0.1']}\n",
	}
	sample, err := os.ReadFile(filepath.Join("testdata", "sample.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	examples = append(examples, strings.Replace(string(sample), ", ::1/128,::/64", "", 1)) // which YAML libraries do not read
	for _, block := range strings.Split(string(content), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(block, "```")
		examples = append(examples, example)
	}
	for _, example := range examples {
		if faults := yamlFaults(t, root, example); len(faults) > 0 {
			t.Errorf("%v in\n%s", faults, example)
		}
	}
}

func TestSchemaRefusesWhatLoadRefuses(t *testing.T) {
	root := plainSchema(t)
	for _, content := range []string{
		"sevrices: {}", "services: {chatt: {}}", "services: {chat: {load-balancer: fastest}}", "log: {level: loud}",
		"limits: {max-attempts: many}", "limits: {json-body: 3 elephants}", "server: {shutdown-grace: soon}",
		"quota: {enabled: perhaps}", "services: {chat: {instances: {name: m}}}", "services: {chat: {instances: [{title: m}]}}",
		"services: {chat: {instances: [{name: m, base-url: 'http://x', weight: -1}]}}", "services: {chat: {instances: [{name: m, base-url: 'http://x', weight: 1e9}]}}",
		"services: {chat: {instances: [{name: m, base-url: 'http://x', tier: 101}]}}", "prices: {models: [{model: m, input: -1}]}",
		"prices: {models: [{model: m, input: much}]}", "services: {chat: {adapter: nonesuch}}", "server: {trusted-proxies: [abc]}",
		"services: {chat: {instances: [{name: m, base-url: 'http://x', adapter: nonesuch}]}}",
	} {
		if _, err := Load(Source{File: "x.yaml", Content: []byte(content), KnownAdapter: kinds.Check}); err == nil {
			t.Errorf("Load reads %s", content)
		}
		if len(yamlFaults(t, root, content)) == 0 {
			t.Errorf("the schema allows %s", content)
		}
	}
}

// Every setting is in the schema, with what the documentation says of it.
func TestSchemaHasEverySetting(t *testing.T) {
	root := plainSchema(t)
	var count func(at map[string]any) int
	count = func(at map[string]any) int {
		described := 0
		for name, value := range at {
			if name == "patternProperties" {
				continue
			}
			switch v := value.(type) {
			case map[string]any:
				described += count(v)
			case []any:
				for _, one := range v {
					if inner, isObject := one.(map[string]any); isObject {
						described += count(inner)
					}
				}
			case string:
				if name == "description" && v != "" {
					described++
				}
			}
		}
		return described
	}
	rows := map[[2]string]bool{} // two lists may share a table, and its definitions
	for _, key := range documentedKeys() {
		rows[[2]string{key.section, key.key}] = true
	}
	if got, want := count(root), len(rows); got < want {
		t.Errorf("%d settings are described, want at least %d", got, want)
	}
}
