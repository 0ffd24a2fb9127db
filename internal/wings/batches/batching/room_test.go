package batching_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Lines of batches leave a tenth of limits.max-in-flight to other requests, and the last place; a
// batch ends all the same, with any bound.
func TestLinesLeaveOthersRoomAmongAllRequests(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]int{1: 1, 2: 1, 3: 2, 6: 5, 20: 18} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			held, other := startHeld(t), gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, on+fmt.Sprintf("limits: {max-in-flight: %d}\n", most)+
				gatewaytest.ChatYAML(gatewaytest.Instance("m", held.URL, "batch-concurrency: 100"), gatewaytest.Instance("n", other.URL())))
			id := submit(t, r, upload(t, r, linesTo("m", 40)), "/v1/chat/completions")
			for range want {
				<-held.Entered
			}
			if most > 1 {
				for range 3 {
					r.Chat(`{"model":"n","messages":[{"role":"user","content":"hi"}]}`).Succeeds(t)
				}
			}
			select {
			case <-held.Entered:
				t.Errorf("got more than %d lines at a time", want)
			default:
			}
			close(held.Open)
			if got := ended(t, r, "/v1/batches/"+id); got.Status != "completed" || got.Counts.Completed != 40 {
				t.Errorf("got the batch %+v, want 40 lines completed", got)
			}
		})
	}
}

// A batch has no credential of its owner: its lines go to instances with a credential of their own,
// and fail where there are none.
func TestLinesHaveNoCredentialToForward(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		settings, other string
		sent            bool
	}{
		"the caller's alone":              {"forward-authorization: true", "", false},
		"one of the gateway in its place": {"forward-authorization: true, api-key: own", "", true},
		"a header of the gateway":         {"forward-authorization: true, headers: {X-Key: own}", "", true},
		"another instance without a need": {"forward-authorization: true", "weight: 1", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, other := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			instances := []string{gatewaytest.Instance("m", b.URL(), row.settings)}
			if row.other != "" {
				instances = append(instances, gatewaytest.Instance("m", other.URL(), row.other))
			}
			r := gatewaytest.Start(t, on+gatewaytest.ChatYAML(instances...))
			got := ended(t, r, "/v1/batches/"+submit(t, r, upload(t, r, linesTo("m", 4)), "/v1/chat/completions"))
			if row.sent {
				if got.Counts.Completed != 4 || row.other != "" && len(b.Requests()) > 0 {
					t.Errorf("got the batch %+v and %d requests without a credential, want 4 lines completed", got, len(b.Requests()))
				}
				return
			}
			failed := content(t, r, got.Errors)
			if got.Counts.Failed != 4 || len(b.Requests()) > 0 || strings.Count(failed, `"status_code":400`) != 4 ||
				!strings.Contains(failed, "forward-authorization") {
				t.Errorf("got the batch %+v, %d requests, and %s, want 4 lines with status 400", got, len(b.Requests()), failed)
			}
		})
	}
}
