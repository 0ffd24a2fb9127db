package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// section is a part of the configuration that the demo fills where nobody else does.
type section struct {
	// names begin the names of the settings that keep the demo from filling it.
	names []string
	set   []string
}

// sections returns the settings of the demo beside its backends.
func sections() []section {
	return []section{
		{[]string{"quota."}, []string{"quota.enabled=true"}},
		{[]string{"batches."}, []string{"batches.enabled=true"}},
		{[]string{"prices."}, []string{`prices.models=[{model: demo-embedding, input: 0.1}, ` +
			`{model: demo-rerank, input: 0.1}, {model: "demo-image*", image: 0.04}, ` +
			`{model: demo-tts, characters: 0.015}, {model: demo-stt, minute: 0.006}, ` +
			`{model: demo-claude, input: 3, output: 15}, {model: "demo-*", input: 2.5, output: 10}]`}},
		{[]string{"security.enabled", "security.keys", "security.tenants", "security.defaults", "security.tokens",
			"security.allow-keyless"},
			[]string{
				`security.tenants=[{name: acme, budgets: {day: {cost: 100}}}, ` +
					`{name: globex, budgets: {month: {cost: 1000}}, limits: {requests-per-minute: 600}}, ` +
					`{name: initech, budgets: {day: {tokens: 5000000}}}]`,
				`security.keys=[` + keyList() + `]`,
			}},
	}
}

// caller is somebody in whose name the demo sends requests.
type caller struct {
	key, tenant, user string
	weight            int
	terms             string // in the notation of the configuration
}

// nightly is the key of the demo's batch.
const nightly = "globex-nightly"

// callers returns the callers of the demo. Each has a key of its own.
func callers() []caller {
	return []caller{
		{"acme-shop", "acme", "ann", 5, "budgets: {month: {cost: 500}}"},
		{"acme-support", "acme", "bob", 3, "limits: {concurrent-requests: 8}"},
		{"globex-app", "globex", "carol", 3, "services: [chat, embedding, rerank, tts, imgGen]"},
		{"initech-lab", "initech", "dave", 1, "limits: {requests-per-minute: 240}"},
		{nightly, "globex", "carol", 0, "models: [demo-night], budgets: {month: {requests: 200}}"},
	}
}

// KeyOf returns the text of a key of the demo, which is no secret.
func KeyOf(id string) string { return "sk-demo-" + id }

func keyList() string {
	var keys []string
	for _, one := range callers() {
		sum := sha256.Sum256([]byte(KeyOf(one.key)))
		keys = append(keys, fmt.Sprintf(`{id: %s, tenant: %s, key-sha256: "%s", %s}`, one.key, one.tenant,
			hex.EncodeToString(sum[:]), one.terms))
	}
	return strings.Join(keys, ", ")
}

// Settings returns the settings of the demo in the form of --set, for a configuration that gives
// others: one that says anything about a section keeps it as it is. A section of a wing that is
// not built in is left out. hasKeys reports whether the keys of the demo are among them.
func Settings(given map[string]string) (set []string, hasKeys bool) {
	for _, part := range sections() {
		if part.isGiven(given) {
			continue
		}
		if _, err := config.Load(config.Source{Set: part.set}); err != nil {
			continue
		}
		set, hasKeys = append(set, part.set...), hasKeys || part.names[0] == "security.enabled"
	}
	return set, hasKeys
}

func (s section) isGiven(given map[string]string) bool {
	for setting := range given {
		for _, name := range s.names {
			if strings.HasPrefix(setting, name) {
				return true
			}
		}
	}
	return false
}
