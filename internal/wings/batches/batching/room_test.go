package batching_test

import (
	"fmt"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/gatewaytest"
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
