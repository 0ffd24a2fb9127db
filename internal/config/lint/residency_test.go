package lint_test

import (
	"os"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/lint"
)

// TestResidencyThatDoesNothingIsWarnedOf loads services whose models nobody puts to sleep.
func TestResidencyThatDoesNothingIsWarnedOf(t *testing.T) {
	const one, two = `name: m, base-url: "http://h:1"`, `name: m, base-url: "http://h:2"`
	for _, c := range []struct {
		service   string
		instances []string
		want      []string
	}{
		{`residency: {sleep-after: 10m}, adapter: ollama`, []string{one}, []string{"services.chat.residency.sleep-after: has no effect: set residency.enabled"}},
		{`residency: {room: 1, wake-timeout: 1m, hold-notice: 5s}, adapter: ollama`, []string{one}, []string{"residency.wake-timeout", "residency.hold-notice", "residency.room"}},
		{`residency: {hold-notice: 5s, wake-timeout: 1m}`, []string{`name: m, process: p`}, nil},
		{`residency: {enabled: true}`, []string{one}, []string{"services.chat.residency.enabled: has no effect: no instance"}},
		{`residency: {enabled: true, sleep-after: 10m}`, []string{one, two + ", adapter: vllm"}, nil},
		{`residency: {enabled: true}`, []string{`name: m, process: p`}, nil},
		{`residency: {enabled: true}`, nil, nil},
		{`adapter: vllm`, []string{one + ", pinned: true, residency: {group: g}"}, []string{
			"services.chat.instances[0].pinned: has no effect: set residency.enabled of the service type", "services.chat.instances[0].residency.group: has no effect",
		}},
		{`residency: {enabled: true}`, []string{one + ", adapter: vllm", two + ", pinned: true"}, []string{"services.chat.instances[1].pinned: has no effect: the adapter"}},
		{`adapter: vllm`, []string{`name: m, process: p, pinned: true`}, nil},
		{`residency: {enabled: true}, adapter: ollama`, []string{one + ", pinned: true"}, []string{"services.chat.instances[0].pinned: the engine may throw out the model"}},
		{`residency: {enabled: true, room: 2}, adapter: ollama`, []string{one + ", pinned: true"}, nil},
		{`residency: {enabled: true}, adapter: ollama`, []string{one + ", pinned: true", two}, nil},
		{`residency: {enabled: true}, adapter: llamacpp`, []string{one + ", pinned: true"}, nil},
		{`residency: {enabled: true}, adapter: vllm`, []string{one + ", pinned: true, residency: {group: g}"}, nil},
	} {
		instances := strings.Join(c.instances, "}, {")
		yaml := "services: {chat: {" + c.service + ", instances: [{" + instances + "}]}}"
		if strings.Contains(instances, "process: p") {
			if _, err := os.Stat("../../wings/processes"); err != nil {
				continue // a tree without the wing (make without)
			}
			yaml = "processes: {p: {command: [sh, -c, 'exec sleep 1'], ready: 'http://127.0.0.1:1/health'}}\n" + yaml
		}
		yaml = strings.Replace(yaml, "[{}]", "[]", 1)
		loaded, err := config.Load(config.Source{File: "patchbay.yaml", Content: []byte(yaml)})
		if err != nil {
			t.Fatalf("%s: %v", yaml, err)
		}
		got := lint.Warnings(loaded)
		if len(got) != len(c.want) {
			t.Errorf("%s %s: warned of %q, want %q", c.service, c.instances, got, c.want)
			continue
		}
		for n, want := range c.want {
			if !strings.Contains(got[n], want) {
				t.Errorf("%s %s: warned of %q, want %q", c.service, c.instances, got[n], want)
			}
		}
	}
}
