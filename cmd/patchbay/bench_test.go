package main

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/wings/measure"
)

func TestBenchComparesTheGatewayWithItsBackend(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "api-key: backend-key", "upstream-model: theirs")))
	code, stdout, stderr := runFor(t, "bench", "--url", r.URL, "-n", "10", "--concurrency", "2")
	if code != exitOK || !strings.Contains(stdout, "first token p99") {
		t.Fatalf("%d %s%s", code, stdout, stderr)
	}
	for _, request := range b.Requests() {
		if request.Header.Get("Authorization") != "Bearer backend-key" || !strings.Contains(string(request.Body), "theirs") {
			t.Fatalf("%v %s", request.Header, request.Body)
		}
	}
	for _, args := range [][]string{{"--model", "nobody"}, {"--direct", "http://127.0.0.1:1"}} {
		if code, _, stderr := runFor(t, append([]string{"bench", "--url", r.URL, "-n", "1"}, args...)...); code != exitFailed {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	if code, _, _ := runFor(t, "bench", "--url", r.URL, "-n", "0"); code != exitUsage {
		t.Errorf("no requests: %d", code)
	}
}

func TestBenchOfTheDemoNeedsNothing(t *testing.T) {
	t.Parallel()
	c := startChild(t, "bench", "--demo", "-n", "10", "--concurrency", "2", "--json")
	c.exits(exitOK)
	var result measure.Result
	if err := json.Unmarshal([]byte(c.stdout.String()), &result); err != nil || len(result.Kinds) != 2 || result.Kinds[0].Gateway.Failed != 0 {
		t.Errorf("%v %s", err, c.stdout.String())
	}
}
