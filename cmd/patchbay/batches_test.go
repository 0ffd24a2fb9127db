// This file belongs to the wing batches.

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// docs/batches.md works from an empty folder with a configuration, with a model server where
// the page has an Ollama.
func TestANightsWork(t *testing.T) {
	t.Parallel()
	ollama := modelServer(t, "qwen2.5:7b")
	address := storetest.FreeAddress(t)
	s := newShell(t)
	gatewaytest.WriteFile(t, filepath.Join(s.dir, "patchbay.yaml"), "server: {listen: '"+address+"', data-dir: data}\nservices: {chat: {instances: [{name: 'qwen2.5:7b', base-url: '"+ollama.URL()+"'}]}}\n")
	gatewaytest.WriteFile(t, filepath.Join(s.dir, "prompts.txt"), "What is one?\n\nWhat is two?\r\nWhat is \"three\"?")
	commands := commandsOf(t, "docs/batches.md", "test=TestANightsWork")
	if len(commands) != 1 {
		t.Fatalf("the page has %d blocks", len(commands))
	}
	// What runs in the background writes elsewhere and ends with the script; it is waited for.
	script := strings.Replace(commands[0], "batches.enabled=true &", `batches.enabled=true 2>serve.log &
trap "kill $!; wait $!" EXIT
until curl http://`+address+`/actuator/health >/dev/null 2>&1; do :; done`, 1)
	output := s.run(script)
	for _, want := range []string{"batch_", "is completed: 3 of 3", "the results are in answers.jsonl"} {
		if !strings.Contains(output, want) {
			t.Errorf("the commands did not write %s:\n%s", want, output)
		}
	}
	var ids []string
	for line := range strings.Lines(string(gatewaytest.ReadFile(t, filepath.Join(s.dir, "answers.jsonl")))) {
		var answer struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Status int `json:"status_code"`
			} `json:"response"`
		}
		if err := json.Unmarshal([]byte(line), &answer); err != nil || answer.Response.Status != 200 {
			t.Errorf("an answer is %s: %v", line, err)
		}
		ids = append(ids, answer.CustomID)
	}
	if !slices.Equal(ids, []string{"line-1", "line-3", "line-4"}) {
		t.Errorf("there are answers to %v", ids)
	}
}

// TestBatchesSurviveKill kills the gateway again and again while a batch runs. In the end every
// line has one answer, and no line was sent again whose answer had been counted before a kill.
func TestBatchesSurviveKill(t *testing.T) {
	t.Parallel()
	const lines = 60
	backend := gatewaytest.StartBackend(t)
	args := []string{
		"--data-dir", t.TempDir(), "--set", "batches.enabled=true", "--set", "log.access=false",
		"--set", "services.chat.instances=[{name: m, base-url: '" + backend.URL() + "'}]",
	}
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, "prompt number %d.\n", i)
	}
	file := filepath.Join(t.TempDir(), "prompts.txt")
	gatewaytest.WriteFile(t, file, text.String())
	c := serving(t, args...)
	id := batchesVerb(t, c, "submit", file, "--model", "m")
	for round := range killRounds(5) {
		gatewaytest.Eventually(t, "lines end", func() bool { return countOf(t, c, id) >= min(8*(round+1), lines) })
		c.kill()
		c = serving(t, args...)
	}
	if ended := batchesVerb(t, c, "follow", id); !strings.Contains(ended, fmt.Sprintf("completed: %d of %d", lines, lines)) {
		t.Fatal(ended)
	}
	results := batchesVerb(t, c, "results", id)
	for i := range lines {
		if n := strings.Count(results, fmt.Sprintf(`"custom_id":"line-%d",`, i+1)); n != 1 {
			t.Errorf("line %d has %d answers", i+1, n)
		}
	}
	// At each kill two lines ran at most, and two had answers that were not synced. They
	// alone may run again.
	if sent := len(backend.Requests()); sent > lines+4*killRounds(5) {
		t.Errorf("the backend got %d requests for %d lines and %d kills", sent, lines, killRounds(5))
	}
}

func TestVerbsOfBatchesSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	c := serving(t, "--data-dir", t.TempDir(), "--set", "batches.enabled=true", "--set", "log.access=false",
		"--set", "services.chat.instances=[{name: m, base-url: '"+backend.URL()+"'}]")
	verb := func(args ...string) (code int, out string) {
		var stdout, stderr strings.Builder
		code = run(append(append([]string{"batches"}, args...), "--url", c.url()), nil, &stdout, &stderr)
		return code, stdout.String() + stderr.String()
	}
	file := filepath.Join(t.TempDir(), "prompts.txt")
	gatewaytest.WriteFile(t, file, "What is one?\nWhat is two?\n")
	if code, out := verb("submit", file); code != exitFailed || !strings.Contains(out, "--model") {
		t.Errorf("a file of prompts without a model gives %d: %s", code, out)
	}
	if files := c.ask("GET", "/v1/files", "").Succeeds(t).Body; strings.Contains(files, "prompts.txt") {
		t.Errorf("it was uploaded: %s", files)
	}
	batchesVerb(t, c, "submit", file, "--model", "nobody")
	if code, out := verb("follow"); code != exitFailed || !strings.Contains(out, "2 of 2 requests failed") {
		t.Errorf("a batch whose requests failed gives %d: %s", code, out)
	}
	if code, out := verb("cancel"); code != exitFailed || !strings.Contains(out, "has ended") {
		t.Errorf("cancelling the newest batch gives %d: %s", code, out)
	}
	backend.ScriptForever(simulator.Step{Status: 503}) // so that it waits
	id := batchesVerb(t, c, "submit", file, "--model", "m")
	if out := batchesVerb(t, c, "cancel"); !strings.HasPrefix(out, id) {
		t.Errorf("cancelling the newest batch says %s", out)
	}
}

// countOf returns how many lines of a batch have ended.
func countOf(t *testing.T, c *child, id string) int {
	t.Helper()
	var b submitted
	if err := json.Unmarshal([]byte(c.ask("GET", "/v1/batches/"+id, "").Succeeds(t).Body), &b); err != nil {
		t.Fatal(err)
	}
	return b.Counts.Completed + b.Counts.Failed
}
