package residency_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
)

// useSpare uses a model as a line of a batch does.
func (r *rig) useSpare(m *residency.Model, takes time.Duration) error {
	if !m.TryEnter() {
		if err := m.EnterSpare(r.Context(), 10*time.Minute); err != nil {
			return err
		}
	}
	<-time.After(takes)
	m.Leave()
	return nil
}

func TestAModelThatWasUsedLatelyDoesNotLeaveForALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(5 * time.Second)
		used, m := r.add("h", "used", e, residency.Rules{Room: 1}), r.add("h", "m", e, residency.Rules{Room: 1})
		var all sync.WaitGroup
		all.Go(func() { _ = r.use(used, 10*time.Minute) })
		for range 65 {
			<-time.After(10 * time.Second)
			if err := r.useSpare(m, 0); !errors.Is(err, residency.ErrNeeded) {
				t.Fatalf("a line got %v", err)
			}
		}
		all.Wait()
		if loads, sleeps := e.count("used"); loads != 1 || sleeps != 0 {
			t.Errorf("the model that was used was loaded %d times and thrown out %d times", loads, sleeps)
		}
		<-time.After(2 * time.Minute)
		if err := r.useSpare(m, time.Second); err != nil {
			t.Errorf("nobody has used another model for long, and a line got %v", err)
		}
		if s := r.state(m); s.Counts.Failures != 0 || s.Counts.Loads != 1 {
			t.Errorf("%+v", s.Counts)
		}
	})
}

// A request that comes while a line is refused has its model loaded as ever.
func TestARequestBesideALineIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(5 * time.Second)
		used, m := r.add("h", "used", e, residency.Rules{Room: 1}), r.add("h", "m", e, residency.Rules{Room: 1})
		if err := r.use(used, time.Minute); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := r.useSpare(m, time.Second); err != nil && !errors.Is(err, residency.ErrNeeded) {
					t.Error(err)
				}
			})
			all.Go(func() {
				if err := r.use(m, time.Second); err != nil {
					t.Errorf("a request beside lines got %v", err)
				}
			})
		}
		all.Wait()
	})
}

// A line that waits beside a request does not go on waiting for room when that leaves, and
// drains no model.
func TestALineDoesNotWaitForRoomInThePlaceOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, residency.Options{})
		defer r.end()
		e := newEngine(5 * time.Second)
		used, m := r.add("h", "used", e, residency.Rules{Room: 1}), r.add("h", "m", e, residency.Rules{Room: 1})
		var all sync.WaitGroup
		all.Go(func() { _ = r.use(used, 10*time.Minute) })
		<-time.After(time.Minute)
		ctx, leave := context.WithCancel(t.Context())
		all.Go(func() { _ = m.Enter(ctx, time.Hour) })
		synctest.Wait()
		got := make(chan error, 1)
		all.Go(func() { got <- m.EnterSpare(t.Context(), time.Hour) })
		<-time.After(3 * time.Second)
		leave()
		if err := <-got; !errors.Is(err, residency.ErrNeeded) {
			t.Errorf("the line got %v", err)
		}
		if !used.TryEnter() {
			t.Error("a model in use has to leave for a line")
		} else {
			used.Leave()
		}
		all.Wait()
	})
}
