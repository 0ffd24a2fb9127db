package breaker

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"pgregory.net/rapid"
)

// model is a breaker as one would explain it: no atomics, no flags, and every
// permit remembers the period (the stay in one state) that it belongs to.
type model struct {
	settings  Settings
	mode      Mode
	state     State
	period    int
	failures  int
	successes int
	inFlight  int // trials of this period that have no answer yet
	closedBy  int // the half-open period whose trials closed the breaker in this one
	opened    time.Time
	// absent: opened by refused or reset connections; early: half open by a check.
	absent, early bool
	// row is the keys whose calls failed since the last success, by an answer; "" stands for
	// every other failure. won is when calls of each key succeeded last.
	row map[string]bool
	won map[string]time.Time
}

// note takes a success of a key into account, whatever the state.
func (m *model) note(p issued, outcome Outcome, now time.Time) {
	if outcome == Success && p.permit.Key != "" {
		m.won[p.permit.Key] = now
	}
}

// fail counts a failure in a row, and tells whether the row is one key's alone, while another
// one succeeded lately.
func (m *model) fail(p issued, outcome Outcome, now time.Time) (excused bool) {
	if m.failures == 0 {
		clear(m.row)
	}
	m.failures++
	key := p.permit.Key
	if outcome != Errored {
		key = ""
	}
	m.row[key] = true
	if key == "" || len(m.row) > 1 {
		return false
	}
	for other, at := range m.won {
		if other != key && now.Sub(at) <= m.settings.RecoveryTimeout.Std() {
			return true
		}
	}
	return false
}

type issued struct {
	permit   Permit
	period   int
	trial    bool
	answered bool // it was a trial that succeeded when its answer began
}

func (m *model) begin(state State) {
	m.state, m.period, m.successes, m.inFlight, m.closedBy, m.early = state, m.period+1, 0, 0, 0, false
}

func (m *model) clean() { m.begin(Closed); m.failures = 0 }

func (m *model) active() bool { return m.settings.Enabled && m.mode == Auto }

func (m *model) ready(now time.Time) bool {
	switch {
	case m.mode == ForcedOpen:
		return false
	case !m.active() || m.state == Closed:
		return true
	case m.state == Open:
		return now.Sub(m.opened) >= m.settings.RecoveryTimeout.Std()
	}
	return m.inFlight < m.settings.SuccessThreshold
}

func (m *model) acquire() (trial bool) {
	if !m.active() || m.state == Closed {
		return false
	}
	if m.state == Open {
		m.begin(HalfOpen)
	}
	m.inFlight++
	return true
}

// answer makes a trial a success. What becomes of it later counts like any other
// call if the breaker has closed, and only as a failure if it has not.
func (m *model) answer(p *issued, now time.Time) {
	if p.answered || !p.trial || p.period != m.period || !m.active() {
		return
	}
	m.note(*p, Success, now)
	m.done(*p, Success, now)
	p.answered = true
}

func (m *model) doneAfterAnswer(p issued, outcome Outcome, now time.Time) {
	switch {
	case !m.active():
	case m.state == Closed && m.closedBy == p.period:
		p.period, p.trial, p.answered = m.period, false, false
		m.done(p, outcome, now)
	case m.period == p.period && outcome.Failed():
		m.fail(p, outcome, now)
		m.opened = now
		m.absent = outcome == Refused || outcome == Reset && !m.early
		m.begin(Open)
	}
}

func (m *model) done(p issued, outcome Outcome, now time.Time) {
	if p.answered {
		m.doneAfterAnswer(p, outcome, now)
		return
	}
	if p.period != m.period || !m.active() {
		return
	}
	if p.trial {
		m.inFlight--
	}
	switch {
	case outcome.Failed():
		excused := m.fail(p, outcome, now)
		if p.trial || m.failures >= m.settings.FailureThreshold && !excused {
			m.opened = now
			m.absent = outcome == Refused || outcome == Reset && !m.early
			m.begin(Open)
		}
	case outcome == Success && p.trial:
		if m.successes++; m.successes >= m.settings.SuccessThreshold {
			m.clean()
			m.closedBy = p.period
		}
	case outcome == Success:
		m.failures = 0
	}
}

func anySettings(t *rapid.T) Settings {
	return Settings{
		Enabled:          rapid.IntRange(0, 9).Draw(t, "enabled") > 0,
		FailureThreshold: rapid.IntRange(1, 4).Draw(t, "failureThreshold"),
		RecoveryTimeout:  schema.Duration(time.Duration(rapid.IntRange(1, 20).Draw(t, "timeout")) * time.Second),
		SuccessThreshold: rapid.IntRange(1, 4).Draw(t, "successThreshold"),
	}
}

func TestBreakerBehavesLikeItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Now()
		m := &model{settings: anySettings(t), row: map[string]bool{}, won: map[string]time.Time{}}
		b := New(m.settings, now, nil)
		var out []issued

		settleOne := func(t *rapid.T, outcome Outcome) {
			if len(out) == 0 {
				t.Skip("nothing in flight")
			}
			i := rapid.IntRange(0, len(out)-1).Draw(t, "permit")
			b.Done(out[i].permit, outcome, now)
			m.note(out[i], outcome, now)
			m.done(out[i], outcome, now)
			out = append(out[:i], out[i+1:]...)
		}
		acquire := func(t *rapid.T) {
			permit, ok := b.Acquire(now)
			if ok != m.ready(now) {
				t.Fatalf("acquire: %v, model %v", ok, m.ready(now))
			}
			if ok {
				trial := m.acquire()
				permit.Key = rapid.SampledFrom([]string{"", "a", "a", "b", "c"}).Draw(t, "key")
				out = append(out, issued{permit: permit, period: m.period, trial: trial})
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire":      acquire,
			"acquireAgain": acquire, // more calls than edits
			"succeed":      func(t *rapid.T) { settleOne(t, Success) },
			"fail":         func(t *rapid.T) { settleOne(t, Failure) },
			"errored":      func(t *rapid.T) { settleOne(t, Errored) },
			"erroredAgain": func(t *rapid.T) { settleOne(t, Errored) },
			"refused":      func(t *rapid.T) { settleOne(t, Refused) },
			"reset":        func(t *rapid.T) { settleOne(t, Reset) },
			"cancel":       func(t *rapid.T) { settleOne(t, Cancelled) },
			"answer": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing in flight")
				}
				p := &out[rapid.IntRange(0, len(out)-1).Draw(t, "permit")]
				p.permit = b.Answered(p.permit, now)
				m.answer(p, now)
			},
			"check": func(t *rapid.T) {
				began := now.Add(-time.Duration(rapid.IntRange(0, 2000).Draw(t, "took")) * time.Millisecond)
				b.Reachable(began, now)
				if m.active() && m.state == Open && m.absent && began.After(m.opened) {
					m.begin(HalfOpen)
					m.early = true
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 15000).Draw(t, "ms")) * time.Millisecond)
			},
			"update": func(t *rapid.T) {
				settings := anySettings(t)
				switched := settings.Enabled != m.settings.Enabled
				b.Update(settings, now)
				if m.settings = settings; switched {
					m.clean()
				}
			},
			"force": func(t *rapid.T) {
				mode := Mode(rapid.IntRange(0, len(Auto.Names())-1).Draw(t, "mode"))
				b.Force(mode, Hold{}, now)
				if mode != m.mode {
					m.mode = mode
					m.clean()
				}
			},
			"": func(t *rapid.T) { compare(t, b, m, now) },
		})
		recovers(t, b, m.settings, out, now)
	})
}

func compare(t *rapid.T, b *Breaker, m *model, now time.Time) {
	before := b.Snapshot()
	if got, want := b.Ready(now), m.ready(now); got != want {
		t.Fatalf("ready: %v, model %v", got, want)
	}
	if after := b.Snapshot(); after != before {
		t.Fatalf("asking changed %+v to %+v", before, after)
	}
	if got, want := b.Closed(), m.mode != ForcedOpen && (!m.active() || m.state == Closed); got != want {
		t.Fatalf("closed: %v, model %v", got, want)
	}
	if wait := b.RetryAfter(now); (wait == 0) != m.ready(now) {
		t.Fatalf("retry after %v, ready %v", wait, m.ready(now))
	}
	state := m.state
	if m.mode == ForcedOpen {
		state = Open
	}
	if before.State != state || before.FailureCount != m.failures || before.Forced != m.mode {
		t.Fatalf("%+v, model %+v", before, m)
	}
	if b.trials != m.inFlight || b.trials < 0 || b.failures < 0 || b.successes < 0 {
		t.Fatalf("%d trials, model %d; %d failures, %d successes", b.trials, m.inFlight, b.failures, b.successes)
	}
	wantRetry := time.Time{}
	if m.state == Open {
		wantRetry = m.opened.Add(m.settings.RecoveryTimeout.Std())
	}
	if before.NextRetry != wantRetry {
		t.Fatalf("next retry %v, model %v", before.NextRetry, wantRetry)
	}
}

// recovers proves that from any state, once the calls in flight have ended and
// nobody forces the breaker, waiting and succeeding closes it.
func recovers(t *rapid.T, b *Breaker, settings Settings, out []issued, now time.Time) {
	for _, p := range out {
		b.Done(p.permit, Cancelled, now)
	}
	b.Force(Auto, Hold{}, now)
	now = now.Add(settings.RecoveryTimeout.Std())
	for range settings.SuccessThreshold {
		permit, ok := b.Acquire(now)
		if !ok {
			t.Fatalf("refuses after the pause: %+v", b.Snapshot())
		}
		b.Done(permit, Success, now)
	}
	if s := b.Snapshot(); s.State != Closed || s.FailureCount != 0 {
		t.Fatalf("not closed after all trials succeeded: %+v", s)
	}
}
