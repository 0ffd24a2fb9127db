package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

func TestDoctorSaysWhatIsWrongAndHowToMendIt(t *testing.T) {
	t.Parallel()
	b := modelServer(t, "m")
	dir := t.TempDir()
	file := filepath.Join(dir, "patchbay.yaml")
	flags := []string{"doctor", file, "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data")}
	gatewaytest.WriteFile(t, file, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
	if code, stdout, stderr := runFor(t, flags...); code != exitOK || !strings.Contains(stdout, "has 1 models") {
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
