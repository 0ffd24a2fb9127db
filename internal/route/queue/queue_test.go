package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func never() bool { return false }

// hall is a queue and those who wait in it. It lives in a bubble of synctest, so
// that after each step everybody who can move has moved.
type hall struct {
	q        *Queue
	settings Settings
	mu       sync.Mutex
	ended    []string // "a1" had its turn, "a1 full", "a1 timeout", "a1 left"
	leave    map[string]context.CancelFunc
	standing map[string]*Standing
}

func newHall(size int) *hall {
	return &hall{q: New(), settings: Settings{Size: size, Timeout: schema.Duration(time.Minute)}, leave: map[string]context.CancelFunc{}, standing: map[string]*Standing{}}
}

var errLeft = errors.New("left")

// enter lets a request wait; its caller is the first letter of its name.
func (h *hall) enter(name string, again bool) { h.enterAs(schema.NoClass, name, again) }

// enterAs is enter for a class, which one that waits again keeps.
func (h *hall) enterAs(class schema.Class, name string, again bool) {
	ctx, cancel := context.WithCancelCause(context.Background())
	h.leave[name] = func() { cancel(errLeft) }
	if !again {
		h.standing[name] = &Standing{Class: class}
	}
	standing := h.standing[name]
	deadline := time.Now().Add(h.settings.Timeout.Std())
	go func() {
		err := h.q.Wait(ctx, name[:1], standing, h.settings, deadline, never)
		h.mu.Lock()
		defer h.mu.Unlock()
		switch {
		case err == nil:
			h.ended = append(h.ended, name)
		case errors.Is(err, ErrFull):
			h.ended = append(h.ended, name+" full")
		case errors.Is(err, ErrTimeout):
			h.ended = append(h.ended, name+" timeout")
		case errors.Is(err, errLeft):
			h.ended = append(h.ended, name+" left")
		default:
			h.ended = append(h.ended, name+" "+err.Error())
		}
	}()
	synctest.Wait()
}

func (h *hall) wake() {
	h.q.Wake()
	synctest.Wait()
}

func (h *hall) quit(name string) {
	h.leave[name]()
	synctest.Wait()
}

// order returns what happened so far.
func (h *hall) order() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.ended, ", ")
}

// empty lets everybody go, so that the bubble can end.
func (h *hall) empty() {
	for _, leave := range h.leave {
		leave()
	}
	synctest.Wait()
}

func TestTurnsGoRoundBetweenCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(100)
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "c1", "c2"} {
			h.enter(name, false)
		}
		for range 8 { // one more than there are
			h.wake()
		}
		if got := h.order(); got != "a1, b1, c1, a2, c2, a3, a4" {
			t.Errorf("turns %s", got)
		}
		if h.q.Len() != 0 {
			t.Errorf("%d still wait", h.q.Len())
		}
	})
}

func TestRequestThatLostItsSlotWaitsInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(3)
		h.enter("a1", false)
		h.enter("b1", false)
		h.enter("b2", false)
		h.wake()             // a1 has its turn ...
		h.enter("c1", false) // ... while the queue fills up ...
		h.enter("a1", true)  // ... and finds no place: it is in although the queue is full
		for range 4 {
			h.wake()
		}
		if got := h.order(); got != "a1, a1, b1, c1, b2" {
			t.Errorf("turns %s", got)
		}
	})
}

// Who waits again stands before those of its caller who came later, and behind
// those who came earlier.
func TestRequestsThatWaitAgainKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(10)
		for _, name := range []string{"a1", "a2", "a3"} {
			h.enter(name, false)
		}
		h.wake()
		h.wake()
		h.enter("a2", true)
		h.enter("a1", true)
		for range 3 {
			h.wake()
		}
		if got := h.order(); got != "a1, a2, a1, a2, a3" {
			t.Errorf("turns %s", got)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(2)
		for _, name := range []string{"a1", "a2", "a3"} {
			h.enter(name, false)
		}
		if got := h.order(); got != "a3 full" || h.q.Len() != 2 {
			t.Errorf("%s; %d wait", got, h.q.Len())
		}
		h.wake()
		h.enter("b1", false)
		h.enter("c1", false)
		if got := h.order(); got != "a3 full, a1, c1 full" || h.q.Len() != 2 {
			t.Errorf("%s; %d wait", got, h.q.Len())
		}
		h.empty()
	})
}

func TestWaitEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(10)
		began := time.Now()
		h.enter("a1", false)
		<-time.After(h.settings.Timeout.Std() - time.Nanosecond)
		synctest.Wait()
		if h.order() != "" {
			t.Errorf("%s before the deadline", h.order())
		}
		<-time.After(time.Nanosecond)
		synctest.Wait()
		if h.order() != "a1 timeout" || h.q.Len() != 0 {
			t.Errorf("%s after %v; %d wait", h.order(), time.Since(began), h.q.Len())
		}
	})
}

// No time passes on the fake clock between the leaving and its effect: what is
// left of the 50 ms that the outside promises is the scheduler's.
func TestAbandonedWaiterIsGoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(10)
		h.enter("a1", false)
		h.enter("b1", false)
		began := time.Now()
		h.quit("a1")
		if h.order() != "a1 left" || h.q.Len() != 1 || time.Since(began) > 0 {
			t.Errorf("%s; %d wait after %v", h.order(), h.q.Len(), time.Since(began))
		}
		h.wake()
		if h.order() != "a1 left, b1" {
			t.Errorf("the turn of the one that left is lost: %s", h.order())
		}
	})
}

// A turn that comes at the moment of leaving is handed on. Real goroutines race
// for it here, over and over; the fake clock shows a turn that was lost.
func TestTurnOfALeavingWaiterIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New()
		settings := Settings{Size: 10, Timeout: schema.Duration(time.Minute)}
		began := time.Now()
		for range 2000 {
			ctx, cancel := context.WithCancel(context.Background())
			var got atomic.Int64
			var all sync.WaitGroup
			for _, wait := range []context.Context{ctx, context.Background()} {
				all.Go(func() {
					if q.Wait(wait, "a", new(Standing), settings, time.Now().Add(time.Minute), never) == nil {
						got.Add(1)
						q.Done(new(Standing), never)
					}
				})
			}
			synctest.Wait()
			all.Go(cancel)
			all.Go(q.Wake)
			synctest.Wait()
			if got.Load() == 0 && q.Len() > 0 {
				t.Fatal("a turn was given and nobody had it")
			}
			q.Wake() // for the one that stays, where the other one had the turn
			all.Wait()
			cancel()
		}
		if time.Since(began) > 0 {
			t.Errorf("somebody waited for %v", time.Since(began))
		}
	})
}

// A place that became free before the request was in the queue is noticed, and
// so is one for which nobody is woken.
func TestWaitingRequestsRecheckWithoutAWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := Settings{Size: 10, Timeout: schema.Duration(time.Minute)}
		var free atomic.Bool
		wait := func() time.Duration {
			began := time.Now()
			if err := New().Wait(context.Background(), "a", new(Standing), settings, began.Add(time.Minute), free.Load); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		free.Store(true)
		if took := wait(); took > 0 {
			t.Errorf("a place that was free was noticed after %v", took)
		}
		free.Store(false)
		time.AfterFunc(10*time.Second, func() { free.Store(true) })
		if took := wait(); took < 10*time.Second || took > 10*time.Second+recheckEvery {
			t.Errorf("a place that became free after 10 s was noticed after %v", took)
		}
	})
}

// model is the queue in slow motion: the callers in the order of their turns and
// what each has waiting.
type model struct {
	ring  []string
	lines map[string][]string
	count int
}

func (m *model) enter(name string, again bool) {
	caller := name[:1]
	if again {
		m.ring = slices.DeleteFunc(m.ring, func(c string) bool { return c == caller })
		m.ring = append([]string{caller}, m.ring...)
		m.lines[caller] = append(m.lines[caller], name)
		number := func(name string) int { n, _ := strconv.Atoi(name[1:]); return n }
		slices.SortFunc(m.lines[caller], func(a, b string) int { return number(a) - number(b) })
	} else {
		if !slices.Contains(m.ring, caller) {
			m.ring = append(m.ring, caller)
		}
		m.lines[caller] = append(m.lines[caller], name)
	}
	m.count++
}

func (m *model) wake() string {
	if len(m.ring) == 0 {
		return ""
	}
	caller := m.ring[0]
	name := m.lines[caller][0]
	m.ring = append(m.ring[1:], caller)
	m.remove(name)
	return name
}

func (m *model) remove(name string) {
	caller := name[:1]
	m.lines[caller] = slices.DeleteFunc(m.lines[caller], func(n string) bool { return n == name })
	if len(m.lines[caller]) == 0 {
		m.ring = slices.DeleteFunc(m.ring, func(c string) bool { return c == caller })
	}
	m.count--
}

// yielding returns the requests of which one gives way to one of the caller in a full queue:
// the newest of each that has the most places, if those are more than the caller will have.
func (m *model) yielding(caller string) (names []string) {
	most := 0
	for _, line := range m.lines {
		most = max(most, len(line))
	}
	for other, line := range m.lines {
		if len(line) == most && most > len(m.lines[caller])+1 && other != caller {
			names = append(names, line[len(line)-1])
		}
	}
	return names
}

func (m *model) names() (all []string) {
	for _, caller := range m.ring {
		all = append(all, m.lines[caller]...)
	}
	return all
}

// act is one step of a story: what is done, and a number that says by whom.
type act struct {
	what string
	who  int
}

// Whatever is done to it, the queue does what the model does: nobody is lost,
// nobody has two turns, and between two turns of a caller every other caller
// that waits has one.
func TestQueueBehavesLikeItsModel(t *testing.T) {
	acts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
		what := rapid.SampledFrom([]string{"enter", "enter", "enter", "wake", "wake", "leave", "again"}).Draw(t, "what")
		return act{what, rapid.IntRange(0, 99).Draw(t, "who")}
	}), 1, 60)
	rapid.Check(t, func(rt *rapid.T) {
		size, story := rapid.IntRange(1, 8).Draw(rt, "size"), acts.Draw(rt, "story")
		fault := ""
		synctest.Test(t, func(*testing.T) { fault = tell(size, story) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// tell plays a story to a queue and its model, and returns where they part.
func tell(size int, story []act) string {
	h := newHall(size)
	defer h.empty()
	m := &model{lines: map[string][]string{}}
	var want, had []string
	for step, a := range story {
		switch {
		case a.what == "enter":
			name := fmt.Sprintf("%c%d", 'a'+a.who%4, step)
			h.enter(name, false)
			switch yielding := m.yielding(name[:1]); {
			case m.count < size:
				m.enter(name, false)
			case len(yielding) == 0:
				want = append(want, name+" full")
			default:
				ended := strings.Split(h.order(), ", ")
				gone := strings.TrimSuffix(ended[len(ended)-1], " full")
				if !slices.Contains(yielding, gone) {
					return fmt.Sprintf("at step %d %s gives way to %s, want one of %v", step, gone, name, yielding)
				}
				m.remove(gone)
				m.enter(name, false)
				want = append(want, gone+" full")
			}
		case a.what == "wake":
			h.wake()
			if name := m.wake(); name != "" {
				want, had = append(want, name), append(had, name)
			}
		case a.what == "leave" && m.count > 0:
			names := m.names()
			name := names[a.who%len(names)]
			h.quit(name)
			m.remove(name)
			want = append(want, name+" left")
		case a.what == "again" && len(had) > 0:
			name := had[len(had)-1]
			had = had[:len(had)-1]
			h.enter(name, true)
			m.enter(name, true)
		}
		if quiet := m.count == 0 && len(had) == 0; h.q.Quiet() != quiet {
			return fmt.Sprintf("after step %d %v the queue is quiet: %v; %d wait, %d have a turn", step, a, !quiet, m.count, len(had))
		}
		if got := h.order(); got != strings.Join(want, ", ") || h.q.Len() != m.count {
			return fmt.Sprintf("after step %d %v the queue says %s, %d wait\nthe model says %s, %d wait", step, a, got, h.q.Len(), strings.Join(want, ", "), m.count)
		}
	}
	h.empty()
	for range had {
		h.q.Done(new(Standing), never)
	}
	if h.q.Len() != 0 || !h.q.Quiet() {
		return fmt.Sprintf("something is left: %d", h.q.Len())
	}
	for class := range h.q.lanes {
		if l := &h.q.lanes[class]; l.next != nil || len(l.callers) != 0 {
			return fmt.Sprintf("something is left in a lane: %v", l.callers)
		}
	}
	return ""
}

// Places are handed out by many goroutines at full speed, in the way the proxy
// does it, and some guests leave at any moment. Nobody sleeps, so on the fake
// clock time passes only if a place is free while somebody waits.
func TestEveryFreePlaceIsUsedWhileSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, guests, rounds = 4, 50, 100
		q := New()
		settings := Settings{Size: guests, Timeout: schema.Duration(time.Minute)}
		var taken, served, left atomic.Int64
		free := func() bool { return taken.Load() < places }
		take := func() bool {
			if taken.Add(1) <= places {
				return true
			}
			taken.Add(-1)
			return false
		}
		visit := func(ctx context.Context, caller string) error {
			if !q.Quiet() || !take() {
				var standing Standing
				for standing.number == 0 || !take() {
					if err := q.Wait(ctx, caller, &standing, settings, time.Now().Add(time.Minute), free); err != nil {
						return err
					}
				}
				q.Done(&standing, free)
			}
			served.Add(1)
			runtime.Gosched()
			taken.Add(-1)
			q.Wake()
			return nil
		}
		began := time.Now()
		var all sync.WaitGroup
		for g := range guests {
			all.Go(func() {
				for range rounds {
					ctx, cancel := context.WithCancel(context.Background())
					if rand.IntN(5) == 0 {
						all.Go(cancel)
					}
					if err := visit(ctx, fmt.Sprint(g%7)); errors.Is(err, context.Canceled) {
						left.Add(1)
					} else if err != nil {
						t.Error(err)
					}
					cancel()
				}
			})
		}
		all.Wait()
		if idle := time.Since(began); idle > 0 {
			t.Errorf("for %v a place was free while somebody waited", idle)
		}
		if served.Load()+left.Load() != guests*rounds || served.Load() < guests*rounds/2 || taken.Load() != 0 || q.Len() != 0 {
			t.Errorf("%d served, %d left, %d places taken and %d waiting at the end", served.Load(), left.Load(), taken.Load(), q.Len())
		}
	})
}

func TestSettingsOfTheQueue(t *testing.T) {
	var faults []string
	report := func(path string, fault say.Sentence) { faults = append(faults, path+" "+fault.String()) }
	DefaultSettings().Check(report)
	if faults != nil || DefaultSettings().Size != 0 || DefaultSettings().Timeout.Std() != 30*time.Second {
		t.Errorf("defaults %+v: %v", DefaultSettings(), faults)
	}
	Settings{Size: 0, Timeout: 1}.Check(report)
	Settings{Size: 1_000_000, Timeout: 1}.Check(report)
	if faults != nil {
		t.Errorf("at the bounds: %v", faults)
	}
	Settings{Size: -1}.Check(report)
	Settings{Size: 1_000_001, Timeout: 1}.Check(report)
	want := []string{"size must be between 0 and 1000000", "timeout must be longer than 0", "size must be between 0 and 1000000"}
	if !slices.Equal(faults, want) {
		t.Errorf("faults %q", faults)
	}
}
