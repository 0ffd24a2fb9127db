// This file belongs to the wing doctor.

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestDoctorSaysWhatIsWrongAndHowToMendIt(t *testing.T) {
	t.Parallel()
	b := modelServer(t, "m")
	dir := t.TempDir()
	file := filepath.Join(dir, "patchbay.yaml")
	flags := []string{"doctor", file, "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data")}
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
	if code, stdout, stderr := runFor(t, flags...); code != exitOK || !strings.Contains(stdout, "has 1 model") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL)))
	if code, stdout, stderr := runFor(t, flags...); code != exitFailed || !strings.Contains(stdout, "fix: start the backend") || !strings.Contains(stderr, "1 of ") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	gatewaytest.WriteFile(t, file, "sevrices: {}\n")
	code, stdout, stderr := runFor(t, append(flags, "--json")...)
	if code != exitFailed || !strings.Contains(stdout, `"ok": false`) || !strings.Contains(stdout, "did you mean") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
}

// TestAnAPIKeyThatRefersToNothingIsAWarning looks at a key that the environment does not
// have, as check and doctor show it. Nothing is wrong with the file itself.
func TestAnAPIKeyThatRefersToNothingIsAWarning(t *testing.T) {
	t.Parallel()
	b := modelServer(t, "m")
	dir := t.TempDir()
	file := filepath.Join(dir, "patchbay.yaml")
	gatewaytest.WriteFile(t, file, "services: {chat: {instances: [{name: m, base-url: \""+b.URL()+"\", api-key: \"${SOME_KEY:}\"}]}}\n")
	const want = "services.chat.instances[0].api-key: ${SOME_KEY:} resolves to nothing"
	check, doctor := []string{"check", file}, []string{"doctor", file, "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data")}
	for _, c := range []struct {
		args, env []string
		line      string
	}{
		{check, nil, "warning: "}, {check, []string{"SOME_KEY="}, "warning: "}, {check, []string{"SOME_KEY=sk-1"}, ""},
		{doctor, nil, "warn "}, {doctor, []string{"SOME_KEY=sk-1"}, ""},
	} {
		var stdout, stderr strings.Builder
		code := run(c.args, c.env, &stdout, &stderr)
		found := ""
		for line := range strings.Lines(stdout.String()) {
			if strings.Contains(line, want) {
				found = line
			}
		}
		if code != exitOK || c.line == "" && found != "" || !strings.HasPrefix(found, c.line) {
			t.Errorf("%s with %q: %d %q\n%s%s", c.args[0], c.env, code, found, stdout.String(), stderr.String())
		}
	}
}
