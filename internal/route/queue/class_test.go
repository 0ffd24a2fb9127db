package queue

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestUrgentClassesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(100)
		h.enterAs(schema.Spare, "s1", false)
		h.enterAs(schema.Batch, "b1", false)
		h.enterAs(schema.NoClass, "n1", false)
		h.enterAs(schema.Normal, "n2", false)
		h.enterAs(schema.Normal, "m1", false)
		h.enterAs(schema.Interactive, "i1", false)
		for range 6 {
			h.wake()
		}
		if got := h.order(); got != "i1, n1, m1, n2, b1" {
			t.Errorf("turns %s", got)
		}
		for _, name := range []string{"i1", "n1", "m1", "n2", "b1"} {
			h.q.Done(h.standing[name], never)
		}
		h.wake()
		if got := h.order(); got != "i1, n1, m1, n2, b1, s1" {
			t.Errorf("turns %s: Spare waits until nobody has a turn", got)
		}
	})
}

// While a more urgent class always waits, each of the others has one turn in twenty.
func TestEachClassKeepsAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(1000)
		const turns = 400
		for n := range turns {
			h.enterAs(schema.Interactive, fmt.Sprintf("i%d", n), false)
		}
		for n := range 30 {
			h.enterAs(schema.Normal, fmt.Sprintf("n%d", n), false)
			h.enterAs(schema.Batch, fmt.Sprintf("b%d", n), false)
			h.enterAs(schema.Spare, fmt.Sprintf("s%d", n), false)
		}
		for range turns {
			h.wake()
		}
		order := strings.Split(h.order(), ", ")
		for _, class := range []string{"n", "b"} {
			last, had := -1, 0
			for at, name := range order {
				if !strings.HasPrefix(name, class) {
					continue
				}
				if had++; at-last > oneIn+1 { // both may be due at the same turn
					t.Errorf("%s has waited for %d turns", name, at-last)
				}
				last = at
			}
			if had < turns/oneIn-1 || had > turns/oneIn {
				t.Errorf("%s had %d of %d turns", class, had, turns)
			}
		}
		if strings.Contains(h.order(), "s") {
			t.Error("Spare had a turn while others waited")
		}
		h.empty()
	})
}

// A turn that a class had by its share and could not use comes again.
func TestShareThatFoundNoSlotIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(1000)
		h.enterAs(schema.Normal, "n1", false)
		for n := range 2 * oneIn {
			h.enterAs(schema.Interactive, fmt.Sprintf("i%d", n), false)
		}
		for range oneIn {
			h.wake()
		}
		if !strings.HasSuffix(h.order(), ", n1") {
			t.Fatalf("turns %s", h.order())
		}
		h.enterAs(schema.Normal, "n1", true)
		h.wake()
		if !strings.HasSuffix(h.order(), ", n1, n1") {
			t.Errorf("turns %s", h.order())
		}
		h.empty()
	})
}

// Those of less urgent classes do not fill the queue for the others.
func TestQueueIsFullForEachClassByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(2)
		for _, name := range []string{"b1", "b2", "b3"} {
			h.enterAs(schema.Batch, name, false)
		}
		for _, name := range []string{"n1", "n2", "n3"} {
			h.enterAs(schema.Normal, name, false)
		}
		held := h.q.Hold("h", schema.Interactive, 2, nil)
		if held == nil {
			t.Error("no room for an interactive request")
		}
		h.enterAs(schema.Interactive, "i1", false)
		h.enterAs(schema.Interactive, "i2", false)
		h.enterAs(schema.Spare, "s1", false)
		if got := h.order(); got != "b3 full, n3 full, i2 full" {
			t.Errorf("%s", got)
		}
		for class, want := range map[schema.Class]int{schema.Batch: 6, schema.Normal: 4, schema.NoClass: 4, schema.Interactive: 2} {
			if got := h.q.Before(class); got != want {
				t.Errorf("before %v: %d", class, got)
			}
		}
		h.q.Unhold(held)
		h.empty()
	})
}

// Spare has no turn while a request is held, and one as soon as it is not.
func TestSpareWaitsForThoseWhoAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(10)
		held := h.q.Hold("a", schema.Normal, 10, nil)
		h.enterAs(schema.Spare, "s1", false)
		h.wake()
		if h.order() != "" || h.q.Unwanted() || !h.q.Quiet() || h.q.Spare.Load() == 0 {
			t.Fatalf("turns %s", h.order())
		}
		h.q.Unhold(held)
		synctest.Wait()
		if h.order() != "s1" || h.q.Spare.Load() > 0 {
			t.Errorf("turns %s", h.order())
		}
		h.q.Done(h.standing["s1"], never)
	})
}

// Spare waits without a deadline, and is no reason for others to wait.
func TestSpareWaitsForAsLongAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New()
		began := time.Now()
		var free atomic.Bool
		time.AfterFunc(24*time.Hour, func() { free.Store(true) })
		standing := Standing{Class: schema.Spare}
		if err := q.Wait(context.Background(), "a", &standing, Settings{}, time.Time{}, free.Load); err != nil {
			t.Fatal(err)
		}
		if !q.Quiet() || q.Len() != 0 || time.Since(began) < 24*time.Hour {
			t.Errorf("after %v: %d wait", time.Since(began), q.Len())
		}
		q.Done(&standing, never)
	})
}

// office is a queue in front of slots, with visitors of all classes whose visits take a
// time, in virtual time.
type office struct {
	q        *Queue
	slots    int64
	taken    atomic.Int64
	settings Settings
}

func (o *office) free() bool { return o.taken.Load() < o.slots }

func (o *office) take(class schema.Class) bool {
	if class == schema.Spare && !o.q.Unwanted() {
		return false
	}
	if o.taken.Add(1) <= o.slots {
		return true
	}
	o.taken.Add(-1)
	return false
}

// visit waits for a slot, uses it and leaves, and returns how long it waited; -1 where it
// waited in vain.
func (o *office) visit(class schema.Class, caller string, takes time.Duration) time.Duration {
	began := time.Now()
	if !o.q.Quiet() || class == schema.Spare && o.q.Spare.Load() > 0 || !o.take(class) {
		standing, deadline := Standing{Class: class}, began.Add(o.settings.Timeout.Std())
		due := o.free
		if class == schema.Spare {
			deadline = time.Time{}
			due = func() bool { return o.free() && o.q.Unwanted() }
		}
		for standing.number == 0 || !o.take(class) {
			if o.q.Wait(context.Background(), caller, &standing, o.settings, deadline, due) != nil {
				return -1
			}
		}
		o.q.Done(&standing, o.free)
	}
	waited := time.Since(began)
	time.Sleep(takes) //nolint:forbidigo // the visit, on the clock of the bubble
	o.taken.Add(-1)
	o.q.Wake()
	return waited
}

// visitor comes at a time, and stays for a time.
type visitor struct {
	class  schema.Class
	caller int
	at     int
	takes  int
}

// Whoever comes when: no slot is free while somebody waits, nobody of another class than
// Spare waits for longer than the work that was there and its class's share need, and every
// visit ends.
func TestSchedulerLeavesNoSlotIdleAndNoClassBehind(t *testing.T) {
	visitors := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) visitor {
		return visitor{
			class:  rapid.SampledFrom([]schema.Class{schema.Spare, schema.Batch, schema.Normal, schema.Interactive}).Draw(t, "class"),
			caller: rapid.IntRange(0, 3).Draw(t, "caller"),
			at:     rapid.IntRange(0, 200).Draw(t, "at"),
			takes:  rapid.IntRange(1, 20).Draw(t, "takes"),
		}
	}), 1, 80)
	rapid.Check(t, func(rt *rapid.T) {
		slots, all := rapid.IntRange(1, 4).Draw(rt, "slots"), visitors.Draw(rt, "visitors")
		fault := ""
		synctest.Test(t, func(*testing.T) { fault = receive(slots, all) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// receive lets visitors come, and returns what went wrong.
func receive(slots int, all []visitor) string {
	o := &office{q: New(), slots: int64(slots), settings: Settings{Size: len(all), Timeout: schema.Duration(time.Hour)}}
	began := time.Now()
	waits := make([]time.Duration, len(all))
	ends := make([]time.Duration, len(all))
	done := make(chan struct{})
	for n, v := range all {
		go func() {
			// Each at a moment of its own, so that what happens first is not left to chance.
			time.Sleep(time.Duration(v.at)*time.Second + time.Duration(n)*time.Microsecond) //nolint:forbidigo // on the clock of the bubble
			waits[n] = o.visit(v.class, fmt.Sprint(v.caller), time.Duration(v.takes)*time.Second)
			ends[n] = time.Since(began)
			done <- struct{}{}
		}()
	}
	for range all {
		<-done
	}
	for n, v := range all {
		if waits[n] < 0 {
			return fmt.Sprintf("visitor %d %+v waited in vain", n, v)
		}
	}
	return idleWhileWaiting(slots, all, waits, ends)
}

// idleWhileWaiting returns where a slot was idle for longer than a moment while somebody
// waited, or where Spare began while others waited.
func idleWhileWaiting(slots int, all []visitor, waits, ends []time.Duration) string {
	begins := func(n int) time.Duration { return ends[n] - time.Duration(all[n].takes)*time.Second }
	for n, v := range all {
		if waits[n] <= recheckEvery {
			continue
		}
		// At every moment in which somebody came or left while this one waited:
		for m := range all {
			for _, at := range []time.Duration{begins(m) + time.Nanosecond, ends[m] + time.Nanosecond} {
				if at <= begins(n)-waits[n]+recheckEvery || at >= begins(n)-recheckEvery {
					continue
				}
				busy := 0
				for other := range all {
					if begins(other) <= at+recheckEvery && at < ends[other] {
						busy++
					}
				}
				if busy < slots {
					return fmt.Sprintf("at %v only %d of %d slots are used while %+v waits", at, busy, slots, v)
				}
			}
			if v.class != schema.Spare && all[m].class == schema.Spare && begins(m) > begins(n)-waits[n] && begins(m) < begins(n) {
				return fmt.Sprintf("a spare visitor began at %v while %+v waited", begins(m), v)
			}
		}
	}
	return ""
}
