package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// What an older gateway stored is read: versions, credentials, ledger.
func TestAnOlderDataDirectoryIsRead(t *testing.T) {
	t.Parallel()
	const fixture = "testdata/upgrade"
	data := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(data, os.DirFS(filepath.Join(fixture, "data"))); err != nil {
		t.Fatal(err)
	}
	file, err := filepath.Abs(filepath.Join(fixture, "patchbay.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	issued := func(name string) string {
		fields := strings.Fields(string(gatewaytest.ReadFile(t, filepath.Join(fixture, name))))
		return fields[len(fields)-1]
	}
	c := serving(t, "--config", file, "--data-dir", data)
	ask := func(path, bearer string) gatewaytest.Reply {
		request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), http.MethodGet, c.url()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+bearer)
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return gatewaytest.ReadReply(response)
	}
	const admin = "admin-token"
	for _, test := range []struct{ path, bearer, want string }{
		{"/api/config/version/current", admin, `"data":2`},
		{"/api/config/version", admin, `[1,2,3]`},
		{"/api/config/instance/type/chat", admin, `"instanceId":"added@http://127.0.0.1:18974"`},
		{"/api/config/instance/type/chat", admin, `"apiKey":"sk-stored"`},
		{"/api/config/instance/type/chat", admin, "${BACKEND_KEY:none}"},
		{"/api/config/type/services/chat", issued("token.txt"), `"loadBalancer":"round_robin"`},
		{"/v1/models", issued("key.txt"), `"id":"added"`},
		{"/api/monitoring/quota/usage?window=MONTH&from=2026-11-01T00:00:00Z&to=2026-12-01T00:00:00Z", admin, `"requestCount":3,"tokenCount":21`},
	} {
		if answer := ask(test.path, test.bearer); answer.Status != 200 || !strings.Contains(answer.Body, test.want) {
			t.Errorf("%s has no %s: %d %s", test.path, test.want, answer.Status, answer.Body)
		}
	}
	if got := ask("/v1/models", "nobody").Status; got != 401 {
		t.Errorf("a wrong key: %d", got)
	}
}

// A version that a newer gateway stored, with settings that this one does not know, is
// not taken for something else: the gateway says what it cannot read, and takes the
// newest version that it can.
func TestWhatANewerGatewayStoredIsNotMisread(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(data, os.DirFS("testdata/upgrade/data")); err != nil {
		t.Fatal(err)
	}
	version := filepath.Join(data, "versions", "00000002.json")
	content := string(gatewaytest.ReadFile(t, version))
	changed := strings.Replace(content, `"loadBalancer": `, `"settingOfTheFuture": 1, "loadBalancer": `, 1)
	if changed == content {
		t.Fatal("the fixture has another shape")
	}
	gatewaytest.WriteFile(t, version, changed)
	file, err := filepath.Abs("testdata/upgrade/patchbay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := serving(t, "--config", file, "--data-dir", data)
	for _, parts := range [][]string{{"a stored version cannot be used", `"version":2`, "settingOfTheFuture"}, {"another version takes its place", `"version":3`}} {
		if gatewaytest.CountLines(c.stderr.String(), parts...) != 1 {
			t.Errorf("it does not say %q", parts)
		}
	}
}
