package loras_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/lint"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
)

const file = `loras: {room: 4, adapters: {org/l.1: {base: m, path: "${PLACE}/1", base-urls: ["http://h:1"], pinned: true}}}
`

// TestAdaptersAreReadFromTheFileOnly sets the section in every other way.
func TestAdaptersAreReadFromTheFileOnly(t *testing.T) {
	t.Parallel()
	loaded, err := config.Load(config.Source{Content: []byte(file), Env: []string{"PLACE=/l"}})
	if err != nil {
		t.Fatal(err)
	}
	all := loaded.Document.LoRAs()
	if len(all) != 1 || all[0].Name != "org/l.1" || all[0].Path != "/l/1" || all[0].Base != "m" || all[0].Room != 4 || !all[0].IsPinned {
		t.Errorf("read %+v", all)
	}
	for name, source := range map[string]config.Source{
		"the environment":        {Env: []string{"PATCHBAY_LORAS_ROOM=3"}},
		"adapters by variables":  {Env: []string{"PATCHBAY_LORAS_ADAPTERS={a: {base: m, path: /l}}"}},
		"the command line":       {Set: []string{"loras.room=3"}},
		"a part by command line": {Content: []byte(file), Env: []string{"PLACE=/l"}, Set: []string{`loras.adapters["org/l.1"].path=/etc`}},
	} {
		if _, err := config.Load(source); err == nil || !strings.Contains(err.Error(), "is read from the configuration file only") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMistakesInAdaptersAreNamed(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"loras: {room: -1}":                                             "loras.room",
		"loras: {adapters: {a: {path: /l}}}":                            `loras.adapters["a"].base: is required`,
		"loras: {adapters: {a: {base: m}}}":                             `loras.adapters["a"].path: is required`,
		`loras: {adapters: {a: {base: m, path: "/l\n"}}}`:               `loras.adapters["a"].path: must not contain control`,
		"loras: {adapters: {' a': {base: m, path: /l}}}":                `loras.adapters[" a"]: must not`,
		"loras: {adapters: {a: {base: m, path: /l, base-urls: [h:1]}}}": `loras.adapters["a"].base-urls[0]`,
		"loras: {adapters: {a: {base: m, path: /l, rank: 8}}}":          "rank",
	} {
		if _, err := config.Load(config.Source{Content: []byte(yaml)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", yaml, err)
		}
	}
}

// TestAdaptersAreTargetsOfNames has aliases and fallbacks that lead to an adapter, and from it.
func TestAdaptersAreTargetsOfNames(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"name: m", `models: ["m*"]`} {
		services := `services: {chat: {adapter: vllm, aliases: {sql: l1}, fallbacks: {l1: [m]}, instances: [{` + base + `, base-url: "http://h:1"}]}}
`
		for adapter, isThere := range map[string]bool{"l1": true, "l2": false, "sql": false} {
			yaml := services + "loras: {adapters: {" + adapter + ": {base: m, path: /l}}}"
			_, err := config.Load(config.Source{Content: []byte(yaml), KnownAdapter: kinds.Check})
			if (err == nil) != isThere {
				t.Errorf("%s of {%s}: %v", adapter, base, err)
			}
		}
	}
}

// TestAdaptersThatNobodyLoadsAreWarnedOf loads files whose adapters have no effect.
func TestAdaptersThatNobodyLoadsAreWarnedOf(t *testing.T) {
	t.Parallel()
	for service, want := range map[string]string{
		`adapter: vllm, instances: [{name: m, base-url: "http://h:1"}]`:                             "",
		`adapter: vllm, instances: [{models: discover, base-url: "http://h:1"}]`:                    "",
		`adapter: vllm, instances: [{name: n, base-url: "http://h:1"}]`:                             `loras.adapters["l"].base: no instance serves this model`,
		`adapter: vllm, instances: [{name: m, base-url: "http://h:2"}]`:                             `loras.adapters["l"].base: no engine loads it`,
		`adapter: ollama, instances: [{name: m, base-url: "http://h:1"}]`:                           `loras.adapters["l"].base: no engine loads it`,
		`adapter: vllm, residency: {enabled: true}, instances: [{name: m, base-url: "http://h:1"}]`: `loras.adapters["l"].base: the engines of this model stay awake`,
	} {
		yaml := "services: {chat: {" + service + "}}\n" + `loras: {adapters: {l: {base: m, path: /l, base-urls: ["http://h:1/"]}}}`
		loaded, err := config.Load(config.Source{Content: []byte(yaml), KnownAdapter: kinds.Check})
		if err != nil {
			t.Fatalf("%s: %v", service, err)
		}
		got := strings.Join(lint.Warnings(loaded), "\n")
		if want == "" && got != "" || want != "" && (!strings.Contains(got, want) || strings.Contains(got, "\n")) {
			t.Errorf("%s: warned of %q", service, got)
		}
	}
}
