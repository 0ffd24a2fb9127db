package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
)

func TestImportWritesAConfigurationThatCheckAccepts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	output, env := filepath.Join(dir, "patchbay.yaml"), filepath.Join(dir, "secrets.env")
	source := filepath.Join("..", "..", "internal", "importer", "testdata", "litellm.yaml")
	code, stdout, stderr := runFor(t, "import", source, "-o", output, "--env-file", env)
	if code != exitPartly || !strings.Contains(stdout, "not supported") || !strings.Contains(stdout, "litellm.yaml:") {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	values := string(gatewaytest.ReadFile(t, env))
	if info, err := os.Stat(env); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(values, "sk-litellm-secret") {
		t.Errorf("%v %v %s", info, err, values)
	}
	if example := string(gatewaytest.ReadFile(t, filepath.Join(dir, ".env.example"))); strings.Contains(example, "sk-") || !strings.Contains(example, "OPENAI_API_KEY=\n") {
		t.Errorf("%s", example)
	}
	if strings.Contains(stdout, "sk-litellm-secret") || strings.Contains(string(gatewaytest.ReadFile(t, output)), "sk-litellm-secret") {
		t.Error("a secret is in the configuration or was printed")
	}
	var out, errs strings.Builder
	var environment []string
	for line := range strings.Lines(values) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if value == "" {
			value = "set"
		}
		environment = append(environment, name+"="+value)
	}
	if code := run([]string{"check", output}, environment, &out, &errs); code != exitOK {
		t.Errorf("check: %s", errs.String())
	}
	if code, _, stderr := runFor(t, "import", source, "-o", output); code != exitFailed || !strings.Contains(stderr, "--force") {
		t.Errorf("again: %d %s", code, stderr)
	}
	if code, stdout, stderr := runFor(t, "import", source, "--dry-run"); code != exitPartly || !strings.HasPrefix(stdout, "# Made by patchbay import") || !strings.Contains(stderr, "OUTCOME") {
		t.Errorf("dry run: %d %s", code, stderr)
	}
	if code, _, stderr := runFor(t, "import", source, "--from", "nginx"); code != exitUsage || !strings.Contains(stderr, "litellm") {
		t.Errorf("unknown source: %d %s", code, stderr)
	}
}
