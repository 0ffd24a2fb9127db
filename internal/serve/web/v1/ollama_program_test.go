package v1_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// The command line of Ollama cuts digests and reads members without asking whether they are there.
// PATCHBAY_OLLAMA is its path, which is looked for in PATH otherwise.
func TestOllamasCommandLine(t *testing.T) {
	t.Parallel()
	binary := os.Getenv("PATCHBAY_OLLAMA")
	if binary == "" {
		binary, _ = exec.LookPath("ollama")
	}
	if binary == "" {
		t.Skip("there is no ollama (PATCHBAY_OLLAMA)")
	}
	r := gatewaytest.Start(t, gatewaytest.EveryService(gatewaytest.StartBackend(t)))
	for _, c := range []struct {
		args, prints string
		fails        bool
	}{
		{args: "ls", prints: `(?m)^m\s+[0-9a-f]{12}\s`},
		{args: "ps", prints: `(?m)^m\s+[0-9a-f]{12}\s`},
		{args: "show m", prints: `(?s)Capabilities.*completion.*tools`},
		{args: "run m hi", prints: `\w`},
		{args: "stop m"}, // prints only what moves the cursor
		{args: "pull m", prints: `Error: .*configured by whoever runs it`, fails: true},
		{args: "run nothing hi", prints: `Error: .*configured by whoever runs it`, fails: true},
	} {
		run := exec.CommandContext(gatewaytest.Deadline(t), binary, strings.Fields(c.args)...)
		run.Env = []string{"OLLAMA_HOST=" + r.URL + "/ollama", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
		out, err := run.CombinedOutput()
		if failed := err != nil; failed != c.fails || !regexp.MustCompile(c.prints).Match(out) {
			t.Errorf("ollama %s: got %v and\n%s\nwant %s, and a failure: %v", c.args, err, out, c.prints, c.fails)
		}
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
	}
}

// What Ollama's command line reads without checking it: names, and the first twelve digits of digests.
// Without the program this shows that it can be read.
func TestOllamasListsHaveDigests(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("other", b.URL())))
	digest := regexp.MustCompile(`^[0-9a-f]{64}$`)
	seen := map[any]any{}
	for _, path := range []string{"/ollama/api/tags", "/ollama/api/ps", "/ollama/api/tags"} {
		list := gatewaytest.DecodeObject(t, r.Do(http.MethodGet, path, "").Succeeds(t).Body)
		models, _ := list["models"].([]any)
		if len(models) != 2 {
			t.Fatalf("%s: got %v, want two models", path, list)
		}
		for _, entry := range models {
			m, _ := entry.(map[string]any)
			text, _ := m["digest"].(string)
			if before, isSeen := seen[m["name"]]; !digest.MatchString(text) || isSeen && before != text {
				t.Errorf("%s: got the digest %q of %v, want 64 digits, the same each time (%v)", path, text, m["name"], before)
			}
			seen[m["name"]] = text
		}
	}
	if seen["m"] == seen["other"] {
		t.Errorf("got one digest for two models: %v", seen)
	}
}
