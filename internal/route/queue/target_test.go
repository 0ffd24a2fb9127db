package queue

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// enterWithin is enter for a request that wants its first token within a time.
func (h *hall) enterWithin(name string, target time.Duration) {
	h.standing[name] = &Standing{Target: time.Now().Add(target)}
	h.enterAs(schema.NoClass, name, true)
}

// Of requests of one class the one with the nearest target goes first, also of one caller's own.
// Those without a target count as due when half of their minute is over.
func TestNearestTargetGoesFirst(t *testing.T) {
	for _, c := range []struct {
		name, want string
		come       func(h *hall)
	}{
		{"of one caller", "a3, a2, a1, a4", func(h *hall) {
			h.enter("a1", false)
			h.enterWithin("a2", 20*time.Second)
			h.enterWithin("a3", 5*time.Second)
			h.enterWithin("a4", 40*time.Second)
		}},
		{"of several", "c1, b1, a1, d1", func(h *hall) {
			h.enter("a1", false)
			h.enterWithin("b1", 20*time.Second)
			h.enterWithin("c1", 5*time.Second)
			h.enterWithin("d1", 40*time.Second)
		}},
		{"nobody has two turns in a round", "b1, a1, c1, b2, a2, b3", func(h *hall) {
			h.enter("a1", false)
			h.enter("a2", false)
			h.enterWithin("b1", time.Second)
			h.enterWithin("b2", time.Second)
			h.enterWithin("b3", time.Second)
			h.enter("c1", false)
		}},
		{"one that has waited long is not overtaken", "a1, a2", func(h *hall) {
			h.enter("a1", false)
			time.Sleep(29 * time.Second) //nolint:forbidigo // the time of a synctest bubble
			h.enterWithin("a2", 10*time.Second)
		}},
		{"a class is more than a target", "i1, a1", func(h *hall) {
			h.enterWithin("a1", time.Second)
			h.enterAs(schema.Interactive, "i1", false)
		}},
		{"one that lost its slot keeps its target", "b1, b1, a1", func(h *hall) {
			h.enter("a1", false)
			h.enterWithin("b1", time.Second)
			h.wake()
			h.enter("b1", true)
		}},
		{"one that leaves is no target any more", "b1 left, a1, c1", func(h *hall) {
			h.enter("a1", false)
			h.enterWithin("b1", time.Second)
			h.quit("b1")
			h.enter("c1", false)
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHall(100)
			c.come(h)
			for range 8 {
				h.wake()
			}
			if got := h.order(); got != c.want {
				t.Errorf("%s: turns %s, want %s", c.name, got, c.want)
			}
			for class := range h.q.lanes {
				if l := &h.q.lanes[class]; l.aimed != 0 || l.next != nil {
					t.Errorf("%s: %d targets are left", c.name, l.aimed)
				}
			}
			h.empty()
		})
	}
}
