package queue

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The position that a request is told is the number of the turn that it has.
func TestPositionIsTheNumberOfTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(100)
		for _, name := range []string{"a1", "a2", "a3", "b1", "c1", "c2"} {
			h.enterAs(schema.Normal, name, false)
		}
		h.enterAs(schema.Interactive, "i1", false)
		h.enterAs(schema.Interactive, "i2", false)
		h.enterAs(schema.Batch, "x1", false)
		for caller, want := range map[string]int{"a": 9, "b": 7, "c": 9, "d": 6} {
			if got := h.q.Outlook(caller, schema.NoClass); got.Position != want || got.Wait != 0 || got.Class != schema.Normal {
				t.Errorf("a request of %s would have turn %+v, want %d", caller, got, want)
			}
		}
		if got := h.q.Outlook("j", schema.Interactive).Position; got != 2 {
			t.Errorf("an interactive request would have turn %d", got)
		}
		if got := h.q.Outlook("x", schema.Batch).Position; got != 10 {
			t.Errorf("a batch request would have turn %d", got)
		}
		h.enterAs(schema.Normal, "b2", false) // the one that was asked about
		for range 6 {
			h.wake()
		}
		if got := h.order(); got != "i1, i2, a1, b1, c1, a2" {
			t.Fatalf("turns %s", got)
		}
		h.wake()
		if got := h.order(); got != "i1, i2, a1, b1, c1, a2, b2" {
			t.Errorf("turns %s", got)
		}
		h.empty()
	})
}

// Turns that come every two seconds make who has the fifth expect ten seconds, and a class
// that has only a share of them expects what its last turns took.
func TestExpectedWaitFollowsThePaceOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &office{q: New(), slots: 1, settings: Settings{Size: 1000, Timeout: schema.Duration(time.Hour)}}
		const takes = 2 * time.Second
		done := make(chan time.Duration, 200)
		for n := range 60 {
			go func() { done <- o.visit(schema.Normal, fmt.Sprint("a", n%3), takes) }()
			synctest.Wait()
		}
		<-time.After(10*takes + time.Second)
		if got := o.q.Outlook("new", schema.Interactive); got.Position != 1 || got.Wait < takes*9/10 || got.Wait > takes*11/10 {
			t.Errorf("who comes first expects %+v", got)
		}
		got := o.q.Outlook("new", schema.Normal)
		if want := time.Duration(got.Position) * takes; got.Position < 3 || got.Wait < want*9/10 || got.Wait > want*11/10 {
			t.Errorf("who comes last in its class expects %+v", got)
		}
		// From now on urgent ones always wait, so that one turn in twenty is left.
		for n := range 100 {
			go func() { done <- o.visit(schema.Interactive, fmt.Sprint("i", n%3), takes) }()
			synctest.Wait()
		}
		<-time.After(70 * takes)
		if later := o.q.Outlook("new", schema.Normal); later.Wait < 2*got.Wait {
			t.Errorf("with urgent requests before it, it expects %+v, before that %+v", later, got)
		}
		for range 160 {
			<-done
		}
	})
}

// A request that waited in vain is told its position at that time.
func TestWaitInVainTellsThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New()
		first := Standing{Class: schema.Normal}
		settings := Settings{Size: 10, Timeout: schema.Duration(time.Minute)}
		ctx, leave := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- q.Wait(ctx, "a", &first, settings, time.Now().Add(time.Hour), never) }()
		synctest.Wait()
		second := Standing{Class: schema.Normal}
		if err := q.Wait(context.Background(), "b", &second, settings, time.Now().Add(time.Minute), never); err == nil || second.Left().Position != 2 {
			t.Errorf("%v, %+v", err, second.Left())
		}
		leave()
		<-ended
	})
}
