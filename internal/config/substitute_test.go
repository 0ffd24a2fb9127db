package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestReferencesAreReplaced(t *testing.T) {
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "key"), []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"NAME=alpha", "EMPTY=", "DOTTED.NAME=d", "PRICE=5$", "REF=${NAME}"}
	for written, want := range map[string]string{
		"${NAME}":                  "alpha",
		"a-${NAME}-z":              "a-alpha-z",
		"${NAME}${NAME}":           "alphaalpha",
		"${NOPE:beta}":             "beta",
		"${NOPE:-beta}":            "beta",
		"${NOPE:a:b}":              "a:b",
		"${EMPTY:beta}":            "",
		"${EMPTY:-beta}":           "beta",
		"${NOPE:${NAME}}":          "alpha",
		"${NOPE:${NOPE:c}}d":       "cd",
		"${DOTTED.NAME}":           "d",
		"$$NAME":                   "$NAME",
		"$${NAME}":                 "${NAME}",
		"$NAME costs 3$":           "$NAME costs 3$",
		"${PRICE}":                 "5$",
		"${REF}":                   "${NAME}",
		"${file:key}":              "from-file",
		"${sha256:NAME}":           "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8",
		"${sha256:file:key}":       access.HashOf("from-file"),
		"${sha256:NOPE:a:b}":       access.HashOf("a:b"),
		"${sha256:NOPE:}":          access.NobodysHash,
		"${sha256:EMPTY}":          access.NobodysHash,
		"${sha256:EMPTY:-${NAME}}": access.HashOf("alpha"),
		"<${file:" + filepath.Join(directory, "key") + "}>": "<from-file>",
	} {
		src := config.Source{
			File:    filepath.Join(directory, "patchbay.yaml"),
			Content: []byte("services: {chat: {instances: [{name: m, base-url: http://h, api-key: '" + written + "'}]}}"),
			Env:     env,
		}
		doc := mustLoad(t, src)
		got, err := doc.Services[schema.Chat].Instances[0].Resolved(doc.Resolve)
		if err != nil || got.APIKey.Reveal() != want {
			t.Errorf("%s became %q, want %q, %v", written, got.APIKey.Reveal(), want, err)
		}
	}
}

func TestAWholeReferenceTakesTheTypeOfItsSetting(t *testing.T) {
	src := source(`
server:
  trusted-proxies: ${PROXIES:10.0.0.0/8, 192.0.2.0/24}
limits:
  max-attempts: ${TRIES:4}
quota:
  enabled: ${QUOTA:true}
  fail-open: ${UNSET_BUT_PLAIN:}
  windows: ${WINDOWS}
services:
  chat:
    instances:
      - name: m
        base-url: http://h
        weight: ${WEIGHT:2}
`)
	src.Env = []string{"WEIGHT=0.5", "WINDOWS=day,month"}
	got := mustLoad(t, src)
	if len(got.Server.TrustedProxies) != 2 || got.Limits.MaxAttempts != 4 || !got.Quota.Enabled || !got.Quota.FailOpen {
		t.Errorf("got %+v", got)
	}
	if len(got.Quota.Windows) != 2 || got.Services[schema.Chat].Instances[0].Weight != 0.5 {
		t.Errorf("windows %v, instances %+v", got.Quota.Windows, got.Services[schema.Chat].Instances)
	}
}

func TestReferencesThatLeadNowhere(t *testing.T) {
	for written, want := range map[string]string{
		"${NOPE}":           "variable NOPE is not set and has no default",
		"a ${NOPE} b":       "variable NOPE is not set and has no default",
		"${A:${NOPE}}":      "variable NOPE is not set and has no default",
		"${NAME":            "has a ${ without its }",
		"${}":               `"" is not a variable name`,
		"${a b}":            `"a b" is not a variable name`,
		"${file:/no/such}":  `cannot read the file "/no/such": no such file or directory`,
		"${file:/dev/null}": `cannot read the file "/dev/null": it is not a regular file`,
	} {
		got := problemsOf(t, source("server:\n  data-dir: '"+written+"'\n"))
		if got != "patchbay.yaml:2:13  server.data-dir: "+want {
			t.Errorf("%s: %s", written, got)
		}
	}
}

func TestKeysAreNotReplaced(t *testing.T) {
	src := source("services: {chat: {instances: [{name: m, base-url: http://h, headers: {'$x': a}}]}}")
	if got := mustLoad(t, src).Services[schema.Chat].Instances[0].Headers["$x"]; got.Reveal() != "a" {
		t.Errorf("header is %q", got)
	}
}

func TestMessagesDoNotShowSecrets(t *testing.T) {
	const secret = "s3cr3t-value"
	directory := t.TempDir()
	path := filepath.Join(directory, "secret")
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string]config.Source{
		"variable":          source("log: {level: '${S}', access: '${S}', format: 'x-${S}'}\nlimits: {json-body: '${S}', connect-timeout: '${S}'}"),
		"file":              source("server: {listen: '${file:" + path + "}'}\nquota: {windows: ['${file:" + path + "}']}"),
		"port of variable":  source("server: {listen: '127.0.0.1:${S}'}"),
		"base url":          source("services: {chat: {instances: [{name: m, base-url: 'http://u:" + secret + "@h'}, {name: n, base-url: 'http://u:" + secret + "@h'}, {name: n, base-url: 'http://u:" + secret + "@h'}]}}"),
		"broken base url":   source("services: {chat: {instances: [{name: m, base-url: 'http://" + secret + "%zz'}]}}"),
		"key":               source("services: {chat: {instances: [{name: m, base-url: 'http://h', api-key: \"" + secret + "\\n\", headers: {a: \"" + secret + "\\n\"}}]}}"),
		"hash":              source("security: {tokens: [{token-sha256: " + secret + "}], keys: [{key-sha256: " + secret + "}]}"),
		"store":             source("store: {url: 'mysql://u:" + secret + "@h'}\nredis: {url: '" + secret + "'}"),
		"no assignment":     {Set: []string{"api-key:" + secret}},
		"set of a list":     {Set: []string{"services.chat.instances=[" + secret}},
		"set of a base url": {Set: []string{"services.chat.instances=[{name: a, base-url: 'http://u:" + secret + "@h'}]"}},
		"environment":       {Env: []string{"PATCHBAY_REDIS_URL=" + secret, "PATCHBAY_SECURITY_TOKENS_0_TOKEN_SHA256=" + secret}},
	} {
		src.Env = append(src.Env, "S="+secret)
		if got := problemsOf(t, src); strings.Contains(got, secret) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Secrets are kept as they were written wherever a reference stands in them, also
// where only its default is used today; anything else is a literal.
func TestSecretsOfTheFileAreKeptAsReferences(t *testing.T) {
	for written, want := range map[string]backend.Secret{
		`'${SET}'`:             backend.Reference("${SET}"),
		`'Bearer ${SET}'`:      backend.Reference("Bearer ${SET}"),
		`'${UNSET:fallback}'`:  backend.Reference("${UNSET:fallback}"),
		`${UNSET:}`:            backend.Reference("${UNSET:}"),
		`'a $$b ${SET}'`:       backend.Reference("a $$b ${SET}"),
		`'sk-literal'`:         backend.Literal("sk-literal"),
		`'costs 3$$'`:          backend.Literal("costs 3$"),
		`'$${file:/etc/host}'`: backend.Literal("${file:/etc/host}"),
	} {
		src := source("services:\n  chat:\n    instances:\n    - name: m\n      base-url: http://h\n      api-key: " + written + "\n      headers:\n        B: " + written + "\n")
		src.Env = []string{"SET=s"}
		instance := mustLoad(t, src).Services[schema.Chat].Instances[0]
		if instance.APIKey != want {
			t.Errorf("%s: the key is %#v", written, instance.APIKey)
		}
		if header, given := instance.Headers["B"]; given && header != want {
			t.Errorf("%s: the header is %#v", written, header)
		}
	}
	var edited struct {
		Key backend.Secret `json:"key"`
	}
	for _, text := range []string{"${SET}", "${file:/etc/passwd}"} {
		if _, err := config.DecodeJSON([]byte(`{"key": "`+text+`"}`), &edited); err != nil || edited.Key != backend.Literal(text) {
			t.Errorf("text of the API became %#v, %v", edited.Key, err)
		}
	}
	for _, value := range []string{`{"reference": "${SET}"}`, "1", "true"} {
		if _, err := config.DecodeJSON([]byte(`{"key": `+value+`}`), &edited); err == nil {
			t.Errorf("%s is taken for a secret", value)
		}
	}
}

// What a reference stands for is checked like a literal, and not repeated.
func TestTextOfAReferenceIsChecked(t *testing.T) {
	src := source("services: {chat: {instances: [{name: m, base-url: http://h, api-key: '${KEY}'}]}}")
	src.Env = []string{"KEY=two\nlines"}
	if got := problemsOf(t, src); !strings.Contains(got, "control characters") || strings.Contains(got, "lines\n") {
		t.Errorf("%s", got)
	}
}
