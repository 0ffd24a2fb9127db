package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
)

// What cannot be stored or opened later is refused where it is written.
func TestTextThatIsNotUTF8IsRefusedWhereItIsUsed(t *testing.T) {
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "key"), []byte("sk-\xff\xfe"), 0o600); err != nil {
		t.Fatal(err)
	}
	instance := func(key string) string {
		return "services:\n  chat:\n    instances:\n      - {name: m, base-url: 'http://h', api-key: '" + key + "'}\n"
	}
	for name, test := range map[string]struct {
		src  config.Source
		says string
	}{
		"a variable":          {config.Source{Content: []byte(instance("${KEY}")), Env: []string{"KEY=sk-\xff"}}, "patchbay.yaml:4:50  services.chat.instances[0].api-key: variable KEY is not UTF-8 text"},
		"part of a text":      {config.Source{Content: []byte(instance("a${NOPE:${KEY}}b")), Env: []string{"KEY=\xc3"}}, "variable KEY is not UTF-8 text"},
		"a file":              {config.Source{Content: []byte(instance("${file:key}"))}, "4:50  services.chat.instances[0].api-key: the file "},
		"the environment":     {config.Source{Env: []string{"PATCHBAY_SERVICES_CHAT_ADAPTER=\xff"}}, "environment PATCHBAY_SERVICES_CHAT_ADAPTER  services.chat.adapter: is not UTF-8 text"},
		"the command line":    {config.Source{Content: []byte(instance("k")), Set: []string{"services.chat.instances[0].api-key=\xff"}}, "--set services.chat.instances[0].api-key  services.chat.instances[0].api-key: is not UTF-8 text"},
		"quoted":              {config.Source{Content: []byte(instance("k")), Set: []string{"services.chat.instances[0].name='\xff'"}}, "is not UTF-8 text"},
		"the file on the way": {config.Source{Content: []byte(instance("\xff"))}, "patchbay.yaml:"},
	} {
		test.src.File = filepath.Join(directory, "patchbay.yaml")
		if got := problemsOf(t, test.src); !strings.Contains(got, test.says) || strings.Contains(got, "sk-") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestStoresThatCannotBeOpenedAreRefused(t *testing.T) {
	for _, address := range []string{"postgres://u:hunter2@h:bad/db", "postgres://u:hunter2%zz@h/db", "postgres://u:hunter2@h/db?sslmode=x", "sqlite:"} {
		got := problemsOf(t, config.Source{File: "patchbay.yaml", Content: []byte("store:\n  url: '" + address + "'\n  config: '" + address + "'\n")})
		if !strings.Contains(got, "patchbay.yaml:2:8  store.url: ") || !strings.Contains(got, "patchbay.yaml:3:11  store.config: ") || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %s", address, got)
		}
	}
}

func TestLengthsOfTimeThatCannotBeStoredAreRefused(t *testing.T) {
	got := problemsOf(t, config.Source{File: "patchbay.yaml", Content: []byte(`
limits: {idle-timeout: 1.5ms}
services:
  chat:
    circuit-breaker: {recovery-timeout: 500us}
    health-check: {timeout: 100us}
    queue: {timeout: 1ns}
    rate-limit: {warm-up-period: 0.9ms}
    timeouts: {total: 10ns}
`)})
	for _, setting := range []string{
		"2:24  limits.idle-timeout", "5:41  services.chat.circuit-breaker.recovery-timeout", "6:29  services.chat.health-check.timeout",
		"7:22  services.chat.queue.timeout", "8:34  services.chat.rate-limit.warm-up-period", "9:23  services.chat.timeouts.total",
	} {
		if !strings.Contains(got, "patchbay.yaml:"+setting+": must be a whole number of milliseconds") {
			t.Errorf("no %s in\n%s", setting, got)
		}
	}
}
