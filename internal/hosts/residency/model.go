package residency

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

const (
	// drainFactor times the time to load is how long a model waits for room that others
	// use. Then the others get no more requests there: every model has its turn, and only
	// a part of the time is spent on loading. leastDrain bounds it from below.
	drainFactor = 4
	leastDrain  = 5 * time.Second
)

// Model is a kept model on a host. The mutex of the keeper guards the fields that
// change.
type Model struct {
	keeper *Keeper
	place  *fleet.Instance
	server Server // nil where the server stays while the model sleeps
	// working has room for the one goroutine that loads the model or puts it to sleep.
	working chan struct{}

	sleeper    Sleeper
	rules      Rules
	isAsked    bool  // requests ask for it
	wake       *wake // the one in progress, else nil
	counts     Counts
	failure    say.Sentence
	awakeUntil time.Time // it is not put to sleep before
	roused     time.Time // when it was last woken up in vain for requests that it has, or begins to be
}

// wake is the loading of a model for all callers that wait for it.
type wake struct {
	waiting.Party
	isBegun bool // there is room, and the model is being loaded
	spare   int  // how many of the waiting callers are of the class Spare
}

// join adds a waiting caller.
func (w *wake) join(isSpare bool) *wake {
	w.Join()
	if isSpare {
		w.spare++
	}
	return w
}

// remove ends the keeping of the model. It needs the mutex.
func (m *Model) remove() {
	if m.wake != nil {
		m.wake.Cancel(ErrRemoved)
	}
	m.place.LetGo()
}

// Place returns where the model is in the fleet.
func (m *Model) Place() *fleet.Instance { return m.place }

// Patience returns how long a request waits for the model by the settings of its service type.
func (m *Model) Patience(s Settings) time.Duration {
	m.keeper.mu.Lock()
	defer m.keeper.mu.Unlock()
	return cmp.Or(s.WakeTimeout.Std(), m.rules.Start, defaultWake)
}

// Missing says that the server answered a call as one without the model does, such as after a
// restart of which nobody has heard yet. A server that can tell is asked: it may have refused
// something else, or have the model again.
func (m *Model) Missing(ctx context.Context) {
	m.keeper.mu.Lock()
	looker, canTell := m.sleeper.(Looker)
	m.keeper.mu.Unlock()
	if !canTell || !looker.IsAwake(ctx) {
		m.place.Found(false, false, time.Now())
	}
}

// Residence returns where the model is.
func (m *Model) Residence(now time.Time) fleet.Residence {
	m.look(now)
	return m.place.Residence(now)
}

// look updates the fleet if the server of the model may have gone or come by itself.
func (m *Model) look(now time.Time) {
	if m.server != nil {
		m.place.Found(m.server.IsRunning(), m.server.IsLoaded(), now)
	}
}

// TryEnter begins a call if the model is in memory. Leave must follow.
func (m *Model) TryEnter() bool { return m.begin(1) }

// begin begins calls if the model is in memory.
func (m *Model) begin(calls int) bool {
	now := time.Now()
	if !m.place.Enter(calls, now) {
		return false
	}
	if m.server == nil || m.server.Enter(calls) {
		return true
	}
	for range calls {
		m.place.Leave(now)
	}
	m.place.Found(false, m.server.IsLoaded(), now) // it has gone, or takes its leave
	return false
}

// Leave ends a call.
func (m *Model) Leave() {
	if m.endCall() {
		m.keeper.mu.Lock()
		m.keeper.changed.Tell()
		m.keeper.mu.Unlock()
	}
}

// endCall ends a call, and reports whether it was the last one.
func (m *Model) endCall() bool {
	if m.server != nil {
		m.server.Leave()
	}
	return m.place.Leave(time.Now())
}

// Enter waits until the model is in memory, and begins a call. The first caller has it
// loaded for all. If the last caller leaves before it is loaded, the load is cancelled.
// The error is the cause with which the context ended, ErrTimeout, or why the model
// cannot be loaded. Leave must follow where there is none.
func (m *Model) Enter(ctx context.Context, timeout time.Duration) error {
	return m.await(ctx, timeout, false)
}

// EnterSpare is Enter for a call of the class Spare: a model that is in use or was used
// lately does not leave for it. It returns ErrNeeded at once where one would have to.
func (m *Model) EnterSpare(ctx context.Context, timeout time.Duration) error {
	return m.await(ctx, timeout, true)
}

// rouse wakes the model up if somebody else put it to sleep while it has requests, which some
// engines hold until then. It needs the mutex.
func (m *Model) rouse(now time.Time) {
	if m.wake != nil || now.Sub(m.roused) < rouseAgain || !m.place.IsMissed() {
		return
	}
	m.roused = now
	m.keeper.tasks.Go(func() {
		logs.Contain(m.keeper.options.Log, "waking a model up", func() {
			if m.bring(m.keeper.base, defaultWake) != nil {
				return
			}
			m.keeper.mu.Lock()
			defer m.keeper.mu.Unlock()
			m.roused = time.Time{}
		})
	})
}

// bring loads the model for nobody.
func (m *Model) bring(ctx context.Context, timeout time.Duration) error {
	err := m.Enter(ctx, timeout)
	if err == nil {
		m.Leave()
	}
	return err
}

func (m *Model) await(ctx context.Context, timeout time.Duration, isSpare bool) error {
	began := time.Now()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	defer func() {
		m.keeper.mu.Lock()
		m.counts.Waited += time.Since(began)
		m.keeper.mu.Unlock()
	}()
	w := m.join(timeout, isSpare)
	if w == nil {
		return nil
	}
	err := w.Await(ctx, deadline.C, ErrTimeout)
	if err != nil {
		m.leave(w, isSpare, err)
	}
	return err
}

// join lets the caller wait for the model, and has it loaded if nobody waits. It returns nil
// where the model is in memory, and the call has begun.
func (m *Model) join(timeout time.Duration, isSpare bool) *wake {
	k := m.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.wake == nil && m.begin(1) {
		return nil
	}
	if m.wake != nil {
		return m.wake.join(isSpare)
	}
	bounded, release := k.base, func() {}
	if m.server == nil { // a server would end a hanging start by itself
		bounded, release = context.WithTimeoutCause(k.base, timeout, ErrTimeout)
	}
	ctx, cancel := context.WithCancelCause(bounded)
	w := (&wake{Party: waiting.Party{Cancel: cancel}}).join(isSpare)
	if k.base.Err() != nil || k.models[m.place] != m {
		release()
		w.End(cmp.Or(context.Cause(k.base), ErrRemoved))
		return w
	}
	m.wake = w
	k.tasks.Go(func() {
		defer release()
		defer cancel(nil)
		began := time.Now()
		if !logs.Contain(k.options.Log, "loading a model", func() { m.load(ctx, w) }) {
			logs.Contain(k.options.Log, "giving a model up", func() { m.end(ctx, w, errPanicked, time.Since(began)) })
		}
	})
	return w
}

// leave ends the wait of one caller for a reason. The last one cancels the wake. The start of
// a server goes on for the next caller if the last one has reached its timeout.
func (m *Model) leave(w *wake, isSpare bool, why error) {
	k := m.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	goesOn := m.server != nil && w.isBegun && errors.Is(why, context.DeadlineExceeded)
	if w.Leave(why, goesOn) && m.endCall() {
		k.changed.Tell()
	}
	if isSpare {
		w.spare--
	}
	if w.Size == 0 && !goesOn && m.wake == w {
		m.wake = nil // who comes now begins anew
	}
}

// errCrowded says that a server that shares memory was woken up by somebody else.
var errCrowded = say.Error("model.crowded")

// errUnwanted says that a start without waiting callers gave way to another model.
var errUnwanted = say.Error("model.unwanted")

// errPanicked replaces a panic while the gateway loaded a model.
var errPanicked = say.Error("model.panicked")

// load loads the model for all waiting callers.
func (m *Model) load(ctx context.Context, w *wake) {
	began := time.Now()
	for {
		leave, isThere, err := m.makeRoom(ctx, w)
		if isThere && m.enter(w) {
			return
		}
		if err == nil && !isThere {
			err = m.loadInto(ctx, w, leave)
		}
		if errors.Is(err, errCrowded) {
			m.place.FailLoad(time.Now())
			continue // with the present state
		}
		if (err != nil || !isThere) && m.end(ctx, w, err, time.Since(began)) {
			return
		}
	}
}

// enter lets all callers enter that wait for a model that is there.
func (m *Model) enter(w *wake) bool {
	k := m.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if !m.begin(w.Size) {
		return false
	}
	m.finish(w, nil)
	return true
}

// end ends a wake, and lets the waiting callers enter. It returns false where the model has
// gone again before they could.
func (m *Model) end(ctx context.Context, w *wake, err error, took time.Duration) bool {
	k := m.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, ErrNeeded) {
		err = cause
	}
	switch {
	case err == nil && m.server != nil && !m.server.Enter(w.Size):
		m.place.FailLoad(time.Now())
		return false
	case err == nil:
		m.counts.Loads++
		m.failure = say.Sentence{}
		k.options.Log.LogAttrs(ctx, slog.LevelInfo, "a model was loaded",
			m.attrs(slog.Duration("took", took.Round(time.Millisecond)), slog.Int("waiting", w.Size))...)
		m.place.EndLoad(w.Size, time.Now())
	case errors.Is(err, ErrNeeded): // nothing was begun
	case errors.Is(err, ErrFull):
		m.counts.Refusals++
	case w.Size > 0:
		m.counts.Failures++
		m.failure = say.From(err)
		k.options.Log.LogAttrs(ctx, slog.LevelWarn, "a model could not be loaded",
			m.attrs(slog.String("error", err.Error()))...)
		fallthrough
	default:
		if context.Cause(ctx) != nil {
			m.place.GiveUpLoad(time.Now())
		} else {
			m.place.FailLoad(time.Now())
		}
	}
	m.finish(w, err)
	return true
}

// finish tells all waiting calls how the wake ended. It needs the mutex.
func (m *Model) finish(w *wake, err error) {
	if m.wake == w {
		m.wake = nil
	}
	w.End(err)
	m.keeper.changed.Tell()
}

// loadInto loads the model where others leave for it.
func (m *Model) loadInto(ctx context.Context, w *wake, leave []*fleet.Instance) error {
	select {
	case m.working <- struct{}{}: // it may be on its way to sleep
	case <-ctx.Done():
		for _, other := range leave {
			other.PutBack(time.Now())
		}
		return context.Cause(ctx)
	}
	defer func() { <-m.working }()
	m.keeper.mu.Lock()
	sleeper, isShared := m.sleeper, m.rules.Space != "" && !m.rules.IsAdapter
	w.isBegun = true
	m.keeper.mu.Unlock()
	for n, other := range leave {
		neighbour := m.keeper.at(other)
		if neighbour == nil {
			continue
		}
		// After a failure the load is still tried where one engine has both models, because
		// it makes room by itself. Several servers on one GPU would break.
		err := neighbour.sleepNow(ctx, "another model needs its place", false)
		if err != nil && isShared {
			for _, rest := range leave[n+1:] {
				rest.PutBack(time.Now())
			}
			return say.Wrap(errors.Join(ErrHeld, err), "model.held",
				"model", other.Model(), "host", other.Host().Name(), "why", err)
		}
	}
	if isShared && m.findAwake(ctx) {
		return errCrowded
	}
	return sleeper.Wake(ctx)
}

// findAwake asks the other servers in the same memory for their state, if they are believed
// to sleep: another gateway may have woken one up since the last report. It reports whether
// one is awake, and notes that.
func (m *Model) findAwake(ctx context.Context) bool {
	var looks sync.WaitGroup
	var found atomic.Bool
	for other, looker := range m.sleepers() {
		looks.Go(func() {
			logs.Contain(m.keeper.options.Log, "asking a server whether it sleeps", func() {
				if looker.IsAwake(ctx) {
					found.Store(true)
					other.PutBack(time.Now())
				}
			})
		})
	}
	looks.Wait()
	return found.Load()
}

// sleepers returns one model of each other server that shares memory with the model and is
// believed to sleep.
func (m *Model) sleepers() map[*fleet.Instance]Looker {
	k := m.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	found, hosts := map[*fleet.Instance]Looker{}, map[*fleet.Host]bool{m.place.Host(): true}
	for place, other := range k.models {
		looker, canTell := other.sleeper.(Looker)
		if canTell && other.rules.IsWhole && other.rules.Shares(m.rules) && !hosts[place.Host()] &&
			place.IsOut() {
			hosts[place.Host()], found[place] = true, looker
		}
	}
	return found
}

// makeRoom waits until there is room, and returns the models that leave for this one; isThere
// means that it is in memory already.
func (m *Model) makeRoom(ctx context.Context, w *wake) (leave []*fleet.Instance, isThere bool, err error) {
	began := time.Now()
	patience := max(drainFactor*m.place.Residence(began).Loads, leastDrain)
	for {
		now := time.Now()
		changed := m.keeper.lookAround(m, now)
		if m.isForSpare(w) {
			if leave, begun := m.place.BeginSpareLoad(now); begun != fleet.NoRoom {
				return m.begun(leave, begun)
			}
			if m.forsake(w) {
				m.place.Withdraw() // where others have waited, too
				return nil, false, ErrNeeded
			}
		}
		leave, begun, rest := m.place.BeginLoad(now.Sub(began) >= patience, now)
		if begun != fleet.NoRoom {
			return m.begun(leave, begun)
		}
		again := time.NewTimer(cmp.Or(min(rest, lookEvery), lookEvery))
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		again.Stop()
		if err != nil {
			m.place.Withdraw()
			return nil, false, err
		}
	}
}

// lookAround asks servers of this gateway for their state, and returns a channel that is
// closed when there may be room for a model. A start without waiting callers gives way to it.
func (k *Keeper) lookAround(m *Model, now time.Time) (changed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, other := range k.models {
		other.look(now)
		if w := other.wake; w != nil && w.Size == 0 && other.rules.Shares(m.rules) {
			w.Cancel(errUnwanted)
			other.wake = nil // who comes now begins anew
		}
	}
	return k.changed.Changed()
}

// begun returns from makeRoom where there is no more to wait for.
func (m *Model) begun(leave []*fleet.Instance, what fleet.Begun) ([]*fleet.Instance, bool, error) {
	switch what {
	case fleet.Present:
		return nil, true, nil
	case fleet.Full:
		return nil, false, ErrFull
	case fleet.Began, fleet.NoRoom:
	}
	m.keeper.mu.Lock()
	defer m.keeper.mu.Unlock()
	m.keeper.changed.Tell() // the next one may have room as well
	return leave, false, nil
}

// isForSpare reports whether all waiting callers of a wake are of the class Spare.
func (m *Model) isForSpare(w *wake) bool {
	m.keeper.mu.Lock()
	defer m.keeper.mu.Unlock()
	return w.spare == w.Size
}

// forsake closes a wake to further callers if all waiting ones are of the class Spare, and
// reports whether they are. Otherwise nothing changes.
func (m *Model) forsake(w *wake) bool {
	m.keeper.mu.Lock()
	defer m.keeper.mu.Unlock()
	isSpare := w.spare == w.Size
	if isSpare && m.wake == w {
		m.wake = nil
	}
	return isSpare
}

// sleepNow frees the memory of a model that the fleet does not count as loaded any more.
func (m *Model) sleepNow(ctx context.Context, why string, isIdle bool) error {
	select {
	case m.working <- struct{}{}:
	case <-ctx.Done():
		m.place.PutBack(time.Now())
		return context.Cause(ctx)
	}
	defer func() { <-m.working }()
	if !m.place.IsOut() {
		return nil // it was asked for meanwhile, and there was room
	}
	k := m.keeper
	k.mu.Lock()
	sleeper := m.sleeper
	k.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, sleepTime)
	defer cancel()
	err := sleeper.Sleep(bounded)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		m.place.PutBack(time.Now())
		m.failure = say.New("model.stays", "why", err)
		return err
	}
	if isIdle {
		m.counts.Sleeps++
	} else {
		m.counts.Evictions++
	}
	k.options.Log.LogAttrs(ctx, slog.LevelInfo, "a model was put to sleep", m.attrs(slog.String("reason", why))...)
	k.changed.Tell()
	return nil
}

// putToSleep begins to free the memory of a model that the fleet does not count as loaded any
// more.
func (m *Model) putToSleep(why string, isIdle bool) {
	k := m.keeper
	k.tasks.Go(func() {
		err := errPanicked
		logs.Contain(k.options.Log, "putting a model to sleep", func() { err = m.sleepNow(k.base, why, isIdle) })
		if errors.Is(err, ErrUnable) {
			k.mu.Lock()
			m.awakeUntil = time.Now().Add(unableTime)
			k.mu.Unlock()
		}
		if err != nil && k.base.Err() == nil {
			k.options.Log.LogAttrs(k.base, slog.LevelWarn, "a model could not be put to sleep",
				m.attrs(slog.String("error", err.Error()))...)
		}
	})
}

func (m *Model) attrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("host", m.place.Host().Name()), slog.String("model", m.place.Model())},
		more...)
}

// state returns the state of the model. It needs the mutex.
func (m *Model) state(now time.Time) State {
	m.look(now)
	s := State{
		Host: m.place.Host().Name(), Model: m.place.Model(), Group: groupOf(m.rules), Residence: m.place.Residence(now),
		SleepAfter: m.rules.SleepAfter,
		Counts:     m.counts, Failure: m.failure,
	}
	if m.wake != nil {
		s.Waiting = m.wake.Size
	} else if m.server != nil {
		if fault := m.server.Fault(); fault.Why.Is() {
			s.State, s.Since, s.Failure, s.Line = Failed, fault.Since, fault.Why, fault.Line
		}
	}
	return s
}
