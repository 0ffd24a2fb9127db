package main

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// variant is a way to run Patchbay.
type variant struct {
	name, binary string
	instances    int // of the model chat
	models       int // in addition to the requested ones
	keys         int // API keys; every request must have one of them
	strategy     string
	limit        string // the rate limit
	more         string
}

// variants returns how Patchbay is to be run.
func variants(o options) []variant {
	all := []variant{{name: "Patchbay", binary: o.patchbay, instances: 1}}
	if o.compare != "" {
		all = append(all, variant{name: "compared", binary: o.compare, instances: 1})
	}
	if o.ledger {
		all = append(all, variant{name: "with ledger", binary: o.patchbay, instances: 1, more: "quota: {enabled: true}\n"})
	}
	if o.cache {
		all = append(all,
			variant{name: "from the cache", binary: o.patchbay, instances: 1, more: "answer-cache: {services: [chat]}\n"},
			variant{name: "at its limit", binary: o.patchbay, instances: 1, limit: "{enabled: true, capacity: 1, refill-rate: 1}"})
	}
	if o.fleet {
		for _, instances := range []int{1, 16, 200} {
			for _, strategy := range []string{"least-connections", "least-time"} {
				all = append(all, variant{name: fmt.Sprintf("%d %s", instances, strategy), binary: o.patchbay, instances: instances, strategy: strategy})
			}
		}
	}
	if o.scale {
		all = append(all,
			variant{name: "200 instances", binary: o.patchbay, instances: 200},
			variant{name: "200 by connections", binary: o.patchbay, instances: 200, strategy: "least-connections"},
			variant{name: "500 models", binary: o.patchbay, instances: 1, models: 500},
			variant{name: "1 key", binary: o.patchbay, instances: 1, keys: 1},
			variant{name: "10,000 keys", binary: o.patchbay, instances: 1, keys: 10_000})
	}
	return all
}

// config is the configuration of a variant. Instances differ by their paths, which the
// backend does not look at.
func (v variant) config(backend string) string {
	var yaml strings.Builder
	yaml.WriteString("services:\n  chat:\n")
	if v.strategy != "" {
		fmt.Fprintf(&yaml, "    load-balancer: %s\n", v.strategy)
	}
	if v.limit != "" {
		fmt.Fprintf(&yaml, "    rate-limit: %s\n", v.limit)
	}
	yaml.WriteString("    instances:\n")
	instance := func(model, path string) {
		fmt.Fprintf(&yaml, "      - {name: %s, base-url: \"http://%s%s\"}\n", model, backend, path)
	}
	for n := range v.instances {
		instance("chat", fmt.Sprintf("/%d", n))
	}
	for _, model := range []string{"wait", "stream", "paced", "drip"} {
		instance(model, "")
	}
	fmt.Fprintf(&yaml, doorModels, backend)
	for n := range v.models {
		instance(fmt.Sprintf("model-%d", n), "")
	}
	fmt.Fprintf(&yaml, "  embedding:\n    instances:\n      - {name: embed, base-url: \"http://%s\"}\n", backend)
	if v.keys > 0 {
		yaml.WriteString("security:\n  enabled: true\n  keys:\n")
	}
	for n := range v.keys {
		fmt.Fprintf(&yaml, "    - {id: key-%d, tenant: tenant-%d, key-sha256: \"%x\"}\n", n, n%100, sha256.Sum256([]byte(keyOf(n))))
	}
	return yaml.String() + v.more
}

// keyOf is the API key with a number.
func keyOf(n int) string { return fmt.Sprintf("sk-bench-%032d", n) }
