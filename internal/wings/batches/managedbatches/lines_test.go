package managedbatches_test

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The content of a file comes whole, under its name, and one that is not there is a plain 404,
// also where batches are off.
func TestTheContentOfAFile(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "batches: {enabled: true}\nservices: {chat: {}}\n")
	const content = "{\"custom_id\":\"a\"}\n"
	var form strings.Builder
	kind := gatewaytest.WriteForm(t, &form, gatewaytest.Field("purpose", "batch"), gatewaytest.Upload("file", "in.jsonl", "application/jsonl", content))
	made := r.Do(http.MethodPost, "/v1/files", form.String(), "Content-Type", kind).Succeeds(t)
	_, id, _ := strings.Cut(made.Body, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	got := r.Do(http.MethodGet, "/api/files/"+id+"/content", "")
	if got.Status != http.StatusOK || got.Body != content ||
		!strings.Contains(got.Header.Get("Content-Disposition"), "in.jsonl") {
		t.Errorf("%d %v %q", got.Status, got.Header, got.Body)
	}
	off := gatewaytest.Start(t, "services: {chat: {}}\n")
	for _, gateway := range []*gatewaytest.Gateway{r, off} {
		for _, path := range []string{"/api/files/file-none/content", "/api/batches/batch_none", "/api/batches/batch_none/lines"} {
			gateway.API(http.MethodGet, path, "").Is(t, http.StatusNotFound, "not found")
		}
	}
}
