package config_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
)

func writtenOf(t *testing.T, src config.Source) string {
	t.Helper()
	document := mustLoad(t, src)
	if document.Written == "" || document.Clone().Written != document.Written {
		t.Fatalf("the mark of what was written is %q", document.Written)
	}
	return document.Written
}

// What identifies the services of a file is what it says about them: not how
// that is spelled, not what it leaves out, and nothing else.
func TestWhatWasWrittenIsKnownByItsMeaning(t *testing.T) {
	yaml := func(content string) config.Source { return config.Source{Content: []byte(content)} }
	const plain = "services: {chat: {load-balancer: round-robin, queue: {timeout: 30s}, instances: [{name: m, base-url: 'http://h', api-key: k}]}}\n"
	want := writtenOf(t, yaml(plain))
	for name, same := range map[string]config.Source{
		"another spelling": yaml("patchbay: {services: {CHAT: {loadBalancer: ROUND_ROBIN, queue: {timeout: 30000}, instances: [{base_url: 'http://h', apiKey: k, name: m}]}}}\n"),
		"other sections":   yaml("# comment\nlimits: {max-attempts: 3}\nlog: {level: debug}\n" + plain),
		"a variable":       {Content: []byte("services: {chat: {load-balancer: '${B}', queue: {timeout: 30s}, instances: [{name: m, base-url: 'http://h', api-key: k}]}}\n"), Env: []string{"B=round-robin"}},
		"elsewhere":        {Content: []byte("services: {chat: {load-balancer: round-robin, instances: [{name: m, base-url: 'http://h'}]}}\n"), Set: []string{"services.chat.queue.timeout=30s", "services.chat.instances[0].api-key=k"}},
		"a null":           yaml("services: {tts: , chat: {adapter: ~, load-balancer: round-robin, queue: {timeout: 30s}, instances: [{name: m, base-url: 'http://h', api-key: k}]}}\n"),
	} {
		if got := writtenOf(t, same); got != want {
			t.Errorf("%s is another one", name)
		}
	}
	seen := map[string]string{want: "plain"}
	for name, other := range map[string]config.Source{
		"nothing":            yaml(""),
		"a default":          yaml("services: {chat: {load-balancer: round-robin, adapter: openai, queue: {timeout: 30s}, instances: [{name: m, base-url: 'http://h', api-key: k}]}}\n"),
		"another key":        {Content: []byte(plain), Set: []string{"services.chat.instances[0].api-key=k2"}},
		"another variable":   {Content: []byte(plain), Env: []string{"PATCHBAY_SERVICES_CHAT_QUEUE_TIMEOUT=31s"}},
		"a referred key":     {Content: []byte("services: {chat: {load-balancer: round-robin, queue: {timeout: 30s}, instances: [{name: m, base-url: 'http://h', api-key: '${K}'}]}}\n"), Env: []string{"K=k"}},
		"a limiter":          yaml(plain[:len(plain)-3] + ", rate-limit: {}}}\n"),
		"a type":             yaml(plain[:len(plain)-2] + ", tts: {}}\n"),
		"an empty list":      yaml(plain[:len(plain)-2] + ", tts: {instances: []}}\n"),
		"a header":           yaml("services: {chat: {instances: [{name: m, base-url: 'http://h', headers: {A: b}}]}}\n"),
		"a header's value":   yaml("services: {chat: {instances: [{name: m, base-url: 'http://h', headers: {A: c}}]}}\n"),
		"a header's own key": yaml("services: {chat: {instances: [{name: m, base-url: 'http://h', headers: {a: b}}]}}\n"),
	} {
		got := writtenOf(t, other)
		if first, taken := seen[got]; taken {
			t.Errorf("%s is the same as %s", name, first)
		}
		seen[got] = name
	}
}

// A key that was rotated is the same reference: it is no change of the file.
func TestARotatedSecretIsTheSameFile(t *testing.T) {
	written := func(key string) string {
		return writtenOf(t, config.Source{
			Content: []byte("services:\n  chat:\n    instances:\n    - name: m\n      base-url: http://h\n      api-key: ${K:}\n      headers: {A: 'Bearer ${K:}'}\n"),
			Env:     []string{"K=" + key},
		})
	}
	if written("old") != written("new") || written("old") != written("") {
		t.Error("another key makes another file")
	}
}
