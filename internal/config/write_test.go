package config_test

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

// What is written of services reads as the same services.
func TestWrittenServicesAreReadAgain(t *testing.T) {
	t.Parallel()
	sample, err := os.ReadFile("testdata/sample.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"nothing":  "",
		"sample":   string(sample),
		"defaults": "services: {chat: {}, img-gen: {adapter: openai}}\n",
		"own":      "services: {chat: {instances: [{name: m, base-url: 'http://h', max-concurrency: 2, keep-alive: false, timeouts: {idle: 5m}}], rate-limit: {}, circuit-breaker: {enabled: false}}}\n",
		"secrets":  "services: {chat: {instances: [{name: m, base-url: 'http://h', api-key: '${KEY}', headers: {A: 'x$${b}', B: 'Bearer ${KEY}', C: 'true', D: '1'}}]}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			source := config.Source{Content: []byte(content), Env: []string{"KEY=secret"}}
			before := mustLoad(t, source).Services
			text, err := config.WriteServices(before)
			if err != nil {
				t.Fatal(err)
			}
			source.Content = text
			if after := mustLoad(t, source).Services; !settings.Equal(after, before) {
				t.Errorf("%s\nreads as %+v, want %+v", text, after, before)
			}
		})
	}
}

func TestWrittenServicesLeaveDefaultsOut(t *testing.T) {
	t.Parallel()
	source := config.Source{Content: []byte("services: {chat: {load-balancer: random, instances: [{name: m, base-url: 'http://h', weight: 3}]}}\n")}
	text, err := config.WriteServices(mustLoad(t, source).Services)
	const want = `services:
  chat:
    load-balancer: random
    instances:
      - name: m
        base-url: http://h
        weight: 3
`
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestQuotedTextsAreReadAsTexts(t *testing.T) {
	for _, text := range []string{"", "demo", "qwen2.5:7b", "org/name", "No", "null", "1.0", "${KEY}", `a "b" \c`, "a: b # c", "tab\tline\n", "ü", "-"} {
		var read map[string]any
		if err := yaml.Unmarshal([]byte("key: "+config.QuoteYAML(text)), &read); err != nil || read["key"] != text {
			t.Errorf("%q is written as %s and read as %v, %v", text, config.QuoteYAML(text), read, err)
		}
	}
}
