package proxy

import (
	"testing"
	"time"
)

// Requests that are suspected are known for a minute, and the latest of them.
func TestSuspectedRequestsAreForgotten(t *testing.T) {
	t.Parallel()
	var e enders
	begin := time.Unix(1, 0)
	knows := func(digest uint64, at time.Duration) bool {
		_, found := e.find(digest, begin.Add(at))
		return found
	}
	e.keep(ender{digest: 1}, begin)
	e.keep(ender{digest: 2}, begin.Add(time.Second))
	e.keep(ender{digest: 1, isCertain: true}, begin.Add(30*time.Second))
	if known, _ := e.find(1, begin.Add(30*time.Second)); !known.isCertain || e.kept.Load() != 2 {
		t.Errorf("%+v of %d", known, e.kept.Load())
	}
	if !knows(2, time.Minute) || knows(2, 61*time.Second) || !knows(1, 89*time.Second) {
		t.Error("the times are wrong")
	}
	if knows(1, 90*time.Second) || e.kept.Load() != 0 {
		t.Errorf("%d are known after all", e.kept.Load())
	}
	for digest := range uint64(mostEnders + 10) {
		e.keep(ender{digest: digest}, begin)
	}
	if e.kept.Load() != mostEnders || knows(9, 0) || !knows(10, 0) || !knows(mostEnders+9, 0) {
		t.Errorf("%d are known", e.kept.Load())
	}
	e.drop(10)
	if knows(10, 0) || e.kept.Load() != mostEnders-1 {
		t.Error("one that was dropped is known")
	}
}
