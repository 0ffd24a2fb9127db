package v1

import (
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// waitTold returns the wait in the two headers, which must agree.
func waitTold(t *testing.T, e *schema.Error) time.Duration {
	t.Helper()
	w := httptest.NewRecorder()
	writeError(w, e, nil)
	ms, err := strconv.Atoi(w.Header().Get("Retry-After-Ms"))
	seconds, err2 := strconv.Atoi(w.Header().Get("Retry-After"))
	if err != nil || err2 != nil || seconds != (ms+999)/1000 {
		t.Fatalf("headers %v", w.Header())
	}
	return time.Duration(ms) * time.Millisecond
}

// Callers who are refused together are told different waits, none of them too
// short and none beyond the cap.
func TestWaitsOfManyAreSpreadUpward(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{time.Millisecond, time.Second, 10 * time.Second, 29 * time.Second} {
		e := &schema.Error{Code: schema.CodeRateLimitExceeded, RetryAfter: wait, Spread: true}
		told := map[time.Duration]bool{}
		for range 100 {
			got := waitTold(t, e)
			if got < wait || got > min(longestWait, wait+max(wait/5, 200*time.Millisecond)+time.Millisecond) {
				t.Fatalf("%v became %v", wait, got)
			}
			told[got] = true
		}
		if len(told) < 20 {
			t.Errorf("%v: 100 callers were told %d different waits", wait, len(told))
		}
	}
	if got := waitTold(t, &schema.Error{RetryAfter: 7 * time.Second}); got != 7*time.Second {
		t.Errorf("what a backend told one caller became %v", got)
	}
}

// The doors say of themselves whether their requests reach backends that do not have them.
func TestTranslatedDoorsAreThoseWithATranslation(t *testing.T) {
	for _, d := range doors {
		if got, want := d.id.IsTranslated(), d.client != nil || d.open != nil || d.choose != nil || d.estimate != nil; got != want {
			t.Errorf("%s: %v, want %v", d.id, got, want)
		}
	}
}

// The endpoint of a service type is its first door.
func TestServiceTypesHaveDoors(t *testing.T) {
	t.Parallel()
	for _, serviceType := range schema.ServiceTypes() {
		for _, d := range doors {
			if d.id == schema.Door(serviceType) && d.path != serviceType.Path() {
				t.Errorf("%s: got the path %s, want %s", serviceType, serviceType.Path(), d.path)
			}
		}
	}
}
