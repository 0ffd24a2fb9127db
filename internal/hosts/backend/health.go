package backend

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// wakeAgain is the time without traffic for an instance after its model could not be woken
// up. Each attempt may put another model to sleep for it.
const wakeAgain = 30 * time.Second

// Status is the result of the checks of an instance.
type Status uint8

// The statuses. Instances of the first two get traffic; the others do not, except
// for a merely marked instance: see Health.Marked.
const (
	StatusUnknown   Status = iota // no check has decided yet
	StatusHealthy                 // it answers
	StatusUnhealthy               // checks or traffic failed
	StatusWarming                 // it answers, but only that it is loading a model

	statusCount = int(StatusWarming) + 1
)

var statusNames = [statusCount]string{"UNKNOWN", "HEALTHY", "UNHEALTHY", "WARMING"}

// Names returns the name of every status.
func (Status) Names() []string { return slices.Clone(statusNames[:]) }

// String returns the name in capitals.
func (s Status) String() string { return schema.NameOf(s, statusNames[:]) }

// MarshalText writes the name in capitals.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Health is the health of one instance by its checks and its traffic. The zero
// value is an instance that was never checked and gets traffic. It holds nothing
// but health: no check ever touches the counters of live calls. It must not be
// copied.
type Health struct {
	// out and marked are all that requests read. Checks set out: the instance gets no
	// traffic. Traffic sets marked, and so do checks without a clear result: the instance
	// is only avoided. They are never set both.
	out, marked atomic.Bool

	mu sync.Mutex
	// watched means that a checker is there to take a mark back.
	watched bool
	// suspect means that traffic marked the instance and the checker has not
	// noticed that yet; see takeSuspicion.
	suspect bool
	// stuck is the time when the model of the instance could not be woken up, zero where it
	// could. While it is set, the server's own word about its health is no news.
	stuck     time.Time
	status    Status
	checked   time.Time
	took      time.Duration
	refused   time.Time
	cause     transport.Cause
	good, bad int       // checks in a row
	failing   time.Time // when the first of the failures was, zero where there are none
	next      time.Time
	// changed is told about every change of the status; nil tells nobody.
	changed func(HealthChange)
	// changes counts the changes of the flags.
	changes *Changes
}

// Healthy reports whether the instance is neither out nor marked.
func (h *Health) Healthy() bool { return !h.out.Load() && !h.marked.Load() }

// Out reports whether the checks failed: the instance gets no traffic then.
func (h *Health) Out() bool { return h.out.Load() }

// Marked reports whether a call could not connect to the instance and no check has
// confirmed that yet, or the instance is in doubt: see Doubted. A marked instance is used only
// if no other one is healthy.
func (h *Health) Marked() bool { return h.marked.Load() }

// Succeeded notes a check that ended now and found the instance well.
func (h *Health) Succeeded(now time.Time, took time.Duration, settings HealthSettings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.recordCheck(now, took) {
		return
	}
	h.good++
	h.bad = 0
	if !h.stuck.IsZero() {
		h.setFlags(now.Sub(h.stuck) < wakeAgain, now.Sub(h.stuck) >= wakeAgain)
		return
	}
	// The threshold applies only after failures; an instance that was warming up has
	// not failed.
	if h.status != StatusUnhealthy || h.good >= settings.HealthyThreshold {
		h.setStatus(StatusHealthy, "")
		h.setFlags(false, false)
	}
}

// Failed notes a check that ended now without success.
func (h *Health) Failed(now time.Time, took time.Duration, cause transport.Cause, settings HealthSettings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cause == transport.CauseRefused {
		h.stuck = time.Time{} // the next one is another process
	}
	if h.countFailure(now, took, cause, settings) {
		h.setFlags(true, false)
	}
}

// Doubted notes a check that ended now and failed in a way that says little about calls. The
// calls decide: the instance is marked and not out. They still reach it where there is no
// other, and one success takes the mark back.
func (h *Health) Doubted(now time.Time, took time.Duration, cause transport.Cause, settings HealthSettings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.countFailure(now, took, cause, settings) {
		h.setFlags(false, true)
	}
}

// countFailure notes a check without success, and reports whether the instance is unhealthy now.
func (h *Health) countFailure(now time.Time, took time.Duration, cause transport.Cause, settings HealthSettings) bool {
	h.recordCheck(now, took)
	h.fail(now)
	h.good = 0
	h.bad++
	h.cause = cause
	if h.bad < settings.UnhealthyThreshold {
		return false
	}
	h.setStatus(StatusUnhealthy, cause)
	return true
}

// Contradicted notes a check that ended now with a status of failure, while calls of the
// backend succeed. They count for more: some engines serve requests and cannot list their
// models. The cause is kept for people who look.
func (h *Health) Contradicted(now time.Time, took time.Duration, cause transport.Cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.recordCheck(now, took) || !h.stuck.IsZero() {
		return
	}
	h.good, h.bad = 0, 0
	h.setStatus(StatusHealthy, cause)
	h.setFlags(false, false)
}

// Warming notes a check that ended now and found the instance loading a model. It
// gets no traffic at once, because the server itself says that it can serve none;
// the first success brings it back.
func (h *Health) Warming(now time.Time, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.recordCheck(now, took) {
		return
	}
	h.good, h.bad, h.stuck = 0, 0, time.Time{}
	h.setStatus(StatusWarming, "")
	h.setFlags(true, false)
}

// Refused records that a call could not connect to the instance. That marks the
// instance without waiting for a threshold, and the checker probes it soon. Where
// checks are off there is no mark, because nothing might remove it.
func (h *Health) Refused(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.watched {
		return
	}
	h.suspect = h.suspect || h.status != StatusUnhealthy
	h.refused = now
	h.good = 0
	h.fail(now)
	h.setStatus(StatusUnhealthy, transport.CauseRefused)
	if !h.out.Load() {
		h.setFlags(false, true)
	}
}

// Stuck records that the model of the instance could not be woken up. It answers nothing
// then, whatever the server says of its health. It gets no traffic for wakeAgain, and then
// only if no other one is healthy. Where checks are off there is no such mark, as with
// Refused.
func (h *Health) Stuck(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.watched {
		return
	}
	h.suspect = true
	h.stuck = now
	h.good = 0
	h.fail(now)
	h.setStatus(StatusUnhealthy, transport.CauseAsleep)
	h.setFlags(true, false)
}

// Awake records that the server reports the model of the instance in memory. That ends the
// mark of Stuck.
func (h *Health) Awake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stuck.IsZero() {
		return
	}
	h.stuck = time.Time{}
	h.setStatus(StatusHealthy, "")
	h.setFlags(false, false)
}

// Served records that a call which began at the given time succeeded. It removes a
// mark that is older than the call.
func (h *Health) Served(began time.Time) {
	if !h.marked.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.marked.Load() && began.After(h.refused) && began.After(h.stuck) {
		h.stuck = time.Time{}
		h.setStatus(StatusHealthy, "")
		h.setFlags(false, false)
	}
}

// HealthSnapshot is the health of an instance at one moment.
type HealthSnapshot struct {
	Status Status
	// LastCheck is when the latest check ended, and ResponseTime how long it
	// took; both zero before the first one.
	LastCheck    time.Time
	ResponseTime time.Duration
	// Cause is the cause of the failure that took the instance out, or of the latest
	// check where it is still in.
	Cause transport.Cause
	// FailingSince is the time of the first of the failures that made the instance unhealthy,
	// zero where it is not.
	FailingSince time.Time
	// NextCheck is when the next check is due, zero where nothing is checked. It is
	// in the past while that check runs.
	NextCheck time.Time
}

// Snapshot returns the health as it is now.
func (h *Health) Snapshot() HealthSnapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := HealthSnapshot{
		Status:       h.status,
		LastCheck:    h.checked,
		ResponseTime: h.took,
		Cause:        h.cause,
		NextCheck:    h.next,
	}
	if h.status == StatusUnhealthy {
		s.FailingSince = h.failing
	}
	return s
}

// Reason says in a few words why the instance gets no traffic, for people who
// may not know its address. It says nothing where traffic is allowed.
func (h *Health) Reason() say.Sentence {
	switch s := h.Snapshot(); s.Status {
	case StatusUnhealthy:
		return say.New("instance.unhealthy", "cause", s.Cause.Said())
	case StatusWarming:
		return say.New("instance.warming")
	}
	return say.Sentence{}
}

// recordCheck stores the time of the check, and reports whether its success would
// count: a check that began before a call was refused is out of date.
func (h *Health) recordCheck(now time.Time, took time.Duration) bool {
	h.checked, h.took = now, took
	return !h.refused.After(now.Add(-took))
}

// fail notes since when the instance fails.
func (h *Health) fail(now time.Time) {
	if h.failing.IsZero() {
		h.failing = now
	}
}

func (h *Health) setStatus(status Status, cause transport.Cause) {
	h.cause = cause
	if status != StatusUnhealthy {
		h.failing = time.Time{}
	}
	if h.status == status {
		return
	}
	from := h.status
	h.status = status
	if h.changed != nil {
		h.changed(HealthChange{From: from, To: status, Cause: cause})
	}
}

// setFlags sets the flags that requests read.
func (h *Health) setFlags(out, marked bool) {
	if h.out.Load() == out && h.marked.Load() == marked {
		return
	}
	h.out.Store(out)
	h.marked.Store(marked)
	h.changes.note()
}

// watch records that a checker checks the instance from now on.
func (h *Health) watch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watched = true
}

// setNextCheck notes when the next check is due.
func (h *Health) setNextCheck(due time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = due
}

// expectSoon notes that the next check is due at the checker's next refresh, because a
// breaker waits for a successful one.
func (h *Health) expectSoon(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if soon := now.Add(refreshEvery); h.watched && h.next.After(soon) {
		h.next = soon
	}
}

// unwatch records that no checker watches the instance any more. Earlier failures are
// forgotten, because nothing would notice that they are over.
func (h *Health) unwatch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watched, h.suspect, h.good, h.bad = false, false, 0, 0
	h.checked, h.took, h.refused, h.next, h.stuck = time.Time{}, 0, time.Time{}, time.Time{}, time.Time{}
	h.setStatus(StatusUnknown, "")
	h.setFlags(false, false)
}

// takeSuspicion reports whether traffic marked the instance since the last call.
func (h *Health) takeSuspicion() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	suspect := h.suspect
	h.suspect = false
	return suspect
}

// Changes counts events that may make an instance of a service type unready: a
// change of its health or its breaker, an overload, the last free slot being taken.
// While the count is the same, instances that were found ready still are, and
// nobody needs to ask each of them again.
type Changes struct{ count atomic.Uint64 }

// Count returns the number of changes so far.
func (c *Changes) Count() uint64 { return c.count.Load() }

// note counts a change; a nil Changes counts nothing.
func (c *Changes) note() {
	if c != nil {
		c.count.Add(1)
	}
}

// Steady reports whether an instance without an obstacle stays without one until
// Changes counts a change. It does not while a limit of its own or the time of a
// breaker's next trial decides.
func (i *Instance) Steady(now time.Time) bool {
	return !i.policy.Limit.Enabled && i.Breaker.Closed() && !i.Avoided(now)
}
