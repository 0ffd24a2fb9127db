package lint_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/lint"
)

// TestWhatRefersToNothingIsWarnedOf loads instances whose credentials or addresses were
// left out of the environment.
func TestWhatRefersToNothingIsWarnedOf(t *testing.T) {
	env := []string{"EMPTY=", "SET=sk-1"}
	for _, c := range []struct{ setting, want string }{
		{`api-key: "${NOPE:}"`, "patchbay.yaml:4:64  services.chat.instances[0].api-key: ${NOPE:} resolves to nothing"},
		{`api-key: "${EMPTY}"`, "api-key: ${EMPTY} resolves to nothing"},
		{`api-key: "${NOPE:-${EMPTY}}"`, "resolves to nothing"},
		{`api-key: "${SET}"`, ""},
		{`api-key: "${NOPE:sk-2}"`, ""},
		{`api-key: sk-3`, ""},
		{`api-key: ""`, ""},
		{`weight: 2`, ""},
		{`headers: {Authorization: "Bearer ${NOPE:}"}`, `headers["Authorization"]: Bearer ${NOPE:} resolves to nothing`},
		{`headers: {X-Team: "${EMPTY}"}`, `headers["X-Team"]: ${EMPTY} resolves to nothing`},
		{`headers: {X-Team: "team ${EMPTY}"}`, ""},
	} {
		loaded, err := config.Load(config.Source{File: "patchbay.yaml", Env: env, Content: []byte(`services:
  chat:
    instances:
      - { name: m, base-url: "http://127.0.0.1:8000", ` + c.setting + " }\n")})
		if err != nil {
			t.Fatalf("%s: %v", c.setting, err)
		}
		if got := strings.Join(lint.Warnings(loaded), "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: warned of %q, want %q", c.setting, got, c.want)
		}
	}
}

func TestAddressesThatLeadNowhereAreWarnedOf(t *testing.T) {
	for address, want := range map[string]bool{
		"http://model.invalid": true, "https://MODEL.INVALID:8443/v1": true, "http://invalid.example": false, "http://127.0.0.1:1": false,
	} {
		loaded, err := config.Load(config.Source{Content: []byte("services: {embedding: {instances: [{name: m, base-url: '" + address + "'}]}}")})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(lint.Warnings(loaded), "\n"), "services.embedding.instances[0].base-url"); got != want {
			t.Errorf("%s: %v", address, lint.Warnings(loaded))
		}
	}
	loaded, err := config.Load(config.Source{Content: []byte("services: {chat: {instances: [{name: m, base-url: 'http://h', proxy: 'http://proxy.invalid:3128'}]}}")})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lint.Warnings(loaded), "\n"); !strings.Contains(got, "services.chat.instances[0].proxy") {
		t.Errorf("a proxy that leads nowhere: %q", got)
	}
}

func TestBaseURLsThatEndInAnEndpointAreWarnedOf(t *testing.T) {
	for settings, want := range map[string]string{
		"base-url: 'https://api.openai.com/v1/chat/completions'":       "write https://api.openai.com",
		"base-url: 'http://h:11434/api/chat', adapter: ollama":         "write http://h:11434",
		"base-url: 'https://api.anthropic.com/v1/messages'":            "ends in the endpoint /v1/messages",
		"base-url: 'http://h/v1'":                                      "",
		"base-url: 'http://h/v1/chat/completions', path: '/forwarded'": "", // somebody thought about it
	} {
		loaded, err := config.Load(config.Source{Content: []byte("services: {chat: {instances: [{name: m, " + settings + "}]}}")})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(lint.Warnings(loaded), "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: warned of %q, want %q", settings, got, want)
		}
	}
}

// TestCredentialsThatReferToNothingLetNobodyIn loads hashes of variables that are not set.
func TestCredentialsThatReferToNothingLetNobodyIn(t *testing.T) {
	const content = `
security:
  enabled: true
  tokens: [{name: a, role: ADMIN, token-sha256: "${sha256:A:}"}, {name: b, role: VIEWER, token-sha256: "${sha256:B:}"}]
  keys: [{id: a, key-sha256: "${sha256:A:}"}, {id: b, key-sha256: "${sha256:B:}"}]
`
	loaded, err := config.Load(config.Source{Content: []byte(content), Env: []string{"B=secret"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(lint.Warnings(loaded), "\n"); len(lint.Warnings(loaded)) != 2 || !strings.Contains(got, "security.tokens[0].token-sha256: refers to nothing") || !strings.Contains(got, "security.keys[0].key-sha256: refers to nothing") {
		t.Errorf("warned of %q", got)
	}
	if _, err := config.Load(config.Source{Content: []byte(content)}); err != nil {
		t.Errorf("with several that refer to nothing: %v", err)
	}
	_, err = config.Load(config.Source{Content: []byte(strings.ReplaceAll(content, ":}", "}"))})
	if err == nil || !strings.Contains(err.Error(), "variable A is not set and has no default") {
		t.Errorf("without a default: %v", err)
	}
}
