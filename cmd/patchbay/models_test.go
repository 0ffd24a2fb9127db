package main

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// TestModelsAreMovedFromTheCommandLine lists, loads, pins and puts to sleep a model that two
// hosts have.
func TestModelsAreMovedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	var list []string
	var hosts []*simulator.Backend
	for range 2 {
		b, err := simulator.Start(simulator.Options{Kind: simulator.Ollama, Models: []string{"m"}, Engine: &engine.Spec{Block: 16, Cache: 1600, Room: 1, Load: 0.01}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		hosts = append(hosts, b)
		list = append(list, gatewaytest.Instance("m", b.URL(), "adapter: ollama"))
	}
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("residency: {enabled: true}", list...))
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"list", exitOK, "MODEL  HOST"},
		{"load nobody", exitFailed, `keeps no model "nobody"`},
		{"load m", exitFailed, "name one with --host"},
		{"load m --host " + hosts[0].URL(), exitOK, "loaded m on " + hosts[0].URL()},
		{"load m@" + hosts[1].URL(), exitOK, "loaded m on " + hosts[1].URL()},
		{"pin m --host " + hosts[0].URL(), exitOK, "pinned m on"},
		{"sleep m --host " + hosts[0].URL(), exitFailed, "pinned"},
		{"pin m --off --host " + hosts[0].URL(), exitOK, "not pinned any more: m"},
		{"sleep m --host " + hosts[0].URL(), exitOK, "put to sleep m on"},
		{"pin", exitUsage, "accepts 1 arg"},
	} {
		code, stdout, stderr := runFor(t, append(append([]string{"models"}, strings.Fields(c.args)...), "--url", r.URL)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("models %s: %d %s%s", c.args, code, stdout, stderr)
		}
	}
	_, stdout, _ := runFor(t, "models", "list", "--json", "--url", r.URL)
	var lines []residentLine
	if err := json.Unmarshal([]byte(stdout), &lines); err != nil || len(lines) != 2 {
		t.Fatalf("%v %s", err, stdout)
	}
	for _, l := range lines {
		if isFirst := l.Host == hosts[0].URL(); isFirst == (l.State == "loaded") || l.Loads != 1 {
			t.Errorf("%+v", l)
		}
	}
}

// TestWhoMayMoveModels lists, loads, puts to sleep and pins with each role, and looks for the
// lines of audit.
func TestWhoMayMoveModels(t *testing.T) {
	t.Parallel()
	b, err := simulator.Start(simulator.Options{Kind: simulator.Ollama, Models: []string{"m"}, Engine: &engine.Spec{Block: 16, Cache: 1600, Room: 1, Load: 0.01}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	var tokens []string
	for _, role := range []string{"VIEWER", "OPERATOR", "ADMIN"} {
		tokens = append(tokens, "{name: "+role+", role: "+role+", token-sha256: "+gatewaytest.HashOf("token of "+role)+"}")
	}
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("residency: {enabled: true}", gatewaytest.Instance("m", b.URL(), "adapter: ollama"))+
		"security: {enabled: true, tokens: ["+strings.Join(tokens, ", ")+"]}\n")
	for _, c := range []struct {
		args   string
		wants  string // what those see who may
		viewer bool
	}{
		{"list", "m", true},
		{"load m", "loaded m on", false},
		{"pin m", "pinned m on", false},
		{"pin m --off", "not pinned any more: m", false},
		{"sleep m", "put to sleep m on", false},
	} {
		for role, may := range map[string]bool{"VIEWER": c.viewer, "OPERATOR": true, "ADMIN": true} {
			code, stdout, stderr := runFor(t, append(append([]string{"models"}, strings.Fields(c.args)...), "--url", r.URL, "--token", "token of "+role)...)
			if (code == exitOK) != may || may && !strings.Contains(stdout, c.wants) || !may && !strings.Contains(stderr, "403") && !strings.Contains(stderr, "permission") {
				t.Errorf("%s: models %s: %d %s%s", role, c.args, code, stdout, stderr)
			}
		}
	}
	for _, done := range []string{"/api/config/instance/load/chat", "/api/config/instance/sleep/chat", "/api/config/instance/update/chat"} {
		for _, who := range []string{"OPERATOR", "ADMIN"} {
			if gatewaytest.CountLines(r.Logs.String(), `"logger":"audit"`, done, who) == 0 {
				t.Errorf("the audit log does not say that %s did %s", who, done)
			}
		}
	}
}

// A gateway that keeps no models in memory gets a sentence in place of an empty table.
func TestModelsListWithoutResidency(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", "http://127.0.0.1:1", "")))
	code, stdout, stderr := runFor(t, "models", "list", "--url", r.URL)
	if code != exitOK || strings.Contains(stdout, "HOST") || !strings.Contains(stdout, "GET /v1/models lists") {
		t.Errorf("got code %d, %q, %q, want a sentence", code, stdout, stderr)
	}
}
