package batching_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestOperatorsDeleteTheFilesAndBatchesOfAnOwner(t *testing.T) {
	t.Parallel()
	held := startHeld(t)
	backend := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, twoTenants()+on+gatewaytest.ChatYAML(gatewaytest.Instance("m", backend.URL()), gatewaytest.Instance("slow", held.URL)))
	admin := func(method, path string, want int) gatewaytest.ManagementReply {
		t.Helper()
		return r.API(method, path, "", as("admin-token")...).Is(t, want)
	}
	for _, key := range []string{"bob-key", "alice-key"} {
		id := submit(t, r, upload(t, r, line("a", "m"), as(key)...), "/v1/chat/completions", as(key)...)
		ended(t, r, "/v1/batches/"+id, as(key)...)
	}
	running := submit(t, r, upload(t, r, line("a", "slow"), as("bob-key")...), "/v1/chat/completions", as("bob-key")...)
	<-held.Entered
	defer close(held.Open)
	for path, want := range map[string][]string{
		"/api/files":              {`"tenant":"red"`, `"tenant":"blue"`, `"purpose":"batch_output"`},
		"/api/files?tenant=blue":  {`"keyId":"alice"`},
		"/api/files?key=bob":      {`"keyId":"bob"`},
		"/api/batches?tenant=red": {running},
		"/api/batches?key=alice":  {`"keyId":"alice"`},
	} {
		body := admin("GET", path, 200).Body
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s has no %s: %s", path, text, body)
			}
		}
		if strings.Contains(path, "?") && strings.Contains(body, "alice") && strings.Contains(body, "bob") {
			t.Errorf("%s has those of others: %s", path, body)
		}
	}
	for _, path := range []string{"/api/files", "/api/batches", "/api/files?tenant=red&key=bob"} {
		admin("DELETE", path, 400)
	}
	admin("DELETE", "/api/files/file-none", 404)
	admin("DELETE", "/api/batches/batch_none", 404)
	r.API("DELETE", "/api/files?tenant=red", "", as("bob-key")...).Is(t, 401)
	if body := admin("DELETE", "/api/files?tenant=red&dryRun=true", 200).Body; !strings.Contains(body, `"files":2`) || !strings.Contains(body, `"inUse":1`) {
		t.Errorf("a dry run tells %s", body)
	}
	if body := admin("DELETE", "/api/batches?tenant=red&dryRun=true", 200).Body; !strings.Contains(body, `"batches":2`) {
		t.Errorf("a dry run tells %s", body)
	}
	admin("DELETE", "/api/batches/"+running+"?dryRun=true", 200)
	admin("DELETE", "/api/batches/"+running, 200)
	admin("DELETE", "/api/batches?tenant=red", 200)
	admin("DELETE", "/api/files?key=bob", 200)
	for _, path := range []string{"/v1/files", "/v1/batches"} {
		if body := r.Do("GET", path, "", as("bob-key")...).Succeeds(t).Body; !strings.Contains(body, `"data":[]`) {
			t.Errorf("%s has %s", path, body)
		}
		if body := r.Do("GET", path, "", as("alice-key")...).Succeeds(t).Body; strings.Contains(body, `"data":[]`) {
			t.Errorf("%s of another tenant has %s", path, body)
		}
	}
	if list := admin("GET", "/api/batches?tenant=red", 200).Body; strings.Contains(list, running) {
		t.Errorf("a batch that ran is left: %s", list)
	}
}

// Operators see how each line ended, and administrators have the files.
func TestOperatorsLookIntoABatch(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	tokens := strings.Replace(twoTenants(), "tokens: [", "tokens: [{name: v, role: VIEWER, token-sha256: "+gatewaytest.HashOf("viewer-token")+"}, ", 1)
	r := gatewaytest.Start(t, tokens+on+gatewaytest.ChatYAML(gatewaytest.Instance("m", backend.URL())))
	lines := line("good", "m") + "\n" + strings.Replace(line("bad", "m"), `"messages":`, `"messages":7,"x":`, 1)
	id := submit(t, r, upload(t, r, lines, as("bob-key")...), "/v1/chat/completions", as("bob-key")...)
	ended(t, r, "/v1/batches/"+id, as("bob-key")...)
	detail := r.API("GET", "/api/batches/"+id, "", as("admin-token")...).Is(t, 200, `"models":["m"]`, `"outputFile":"file-`, `"errorFile":"file-`, `"startedAt":"`)
	all := r.API("GET", "/api/batches/"+id+"/lines", "", as("admin-token")...).Is(t, 200, `"line":1,"customId":"good","status":200`, `"model":"m"`, `"line":2,"customId":"bad","status":4`, `"error":"`)
	if strings.Index(all.Body, `"bad"`) > strings.Index(all.Body, `"good"`) {
		t.Errorf("the failed line is not the first: %s", all.Body)
	}
	failed := r.API("GET", "/api/batches/"+id+"/lines?failed=true&page=1&size=1", "", as("admin-token")...).Is(t, 200, `"customId":"bad"`)
	if strings.Contains(failed.Body, `"good"`) {
		t.Errorf("an answered line is among the failed ones: %s", failed.Body)
	}
	if viewer := r.API("GET", "/api/batches/"+id+"/lines?failed=true", "", as("viewer-token")...); !strings.Contains(viewer.Body, "the line failed with status 4") || !strings.Contains(viewer.Body, "batch.line_failed") {
		t.Errorf("VIEWER is not told how the line failed: %s", viewer.Body)
	}
	_, file, _ := strings.Cut(detail.Body, `"outputFile":"`)
	file, _, _ = strings.Cut(file, `"`)
	content := r.Do("GET", "/api/files/"+file+"/content", "", as("admin-token")...)
	if content.Status != 200 || !strings.Contains(content.Body, `"custom_id":"good"`) || strings.Contains(content.Body, `"bad"`) {
		t.Errorf("%d %s", content.Status, content.Body)
	}
	for _, path := range []string{"/api/batches/batch_none", "/api/batches/batch_none/lines", "/api/files/file-none/content"} {
		r.API("GET", path, "", as("admin-token")...).Is(t, 404, "not found")
	}
	for _, path := range []string{"/api/batches/" + id, "/api/files/" + file + "/content"} {
		r.API("GET", path, "", as("alice-key")...).Is(t, 401)
	}
}
