package backend

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

const (
	// refreshEvery is how often the checker reads the current instances. It bounds
	// how late the checker notices an edit, or that traffic marked an instance.
	refreshEvery = 500 * time.Millisecond
	// maxProbes is the limit of probes at a time. maxSlow limits the probes of backends
	// that timed out last time; they must not delay the probes of backends that answer.
	maxProbes = 16
	maxSlow   = 12
	// stagger is the distance between the first probes of instances that
	// appear together.
	stagger = 10 * time.Millisecond
)

// CheckerOptions configure a Checker. Connect and Log may be nil.
type CheckerOptions struct {
	// Source returns the current instances. It is called periodically, so the checker
	// need not be notified of edits.
	Source func() []*Instance
	// Settings returns how an instance is checked, and Health where the results are
	// kept. An instance has the same Health before and after an edit.
	Settings func(*Instance) HealthSettings
	Health   func(*Instance) *Health
	Client   *transport.Client
	// Connect opens a connection and closes it again, for kinds without a health
	// path; nil means Client.Connect.
	Connect func(ctx context.Context, to transport.Origin) error
	Log     *slog.Logger
}

// Checker watches the health of the current instances.
type Checker struct{ options CheckerOptions }

// NewChecker returns a checker; Run starts it.
func NewChecker(options CheckerOptions) *Checker {
	if options.Connect == nil {
		options.Connect = options.Client.Connect
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &Checker{options}
}

// Run probes the instances until ctx ends, and returns when all probes have ended.
// Then every instance counts as unchecked and gets traffic, so a gateway that stops
// ends its last requests before it ends Run.
func (c *Checker) Run(ctx context.Context) {
	w := &checkerRun{
		CheckerOptions: c.options,
		prober:         prober{c.options.Client, c.options.Connect},
		members:        make(map[*Health]*member),
		groups:         make(map[target]*group),
		models:         make(map[*fleet.Host]subjects),
		// There is room for all probes: they can end after Run stops reading.
		results: make(chan result, maxProbes),
		told:    make(chan told, maxInquiries),
	}
	defer w.end()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case r := <-w.results:
			w.handleResult(r)
		case t := <-w.told:
			w.handleTold(t, time.Now())
		}
		now := time.Now()
		if !now.Before(w.nextRefresh) {
			w.refresh(now)
			w.nextRefresh = now.Add(refreshEvery)
		}
		w.launch(ctx, now)
		w.inquire(ctx, now)
		timer.Reset(w.nextWake(now).Sub(now))
	}
}

// checkerRun is the state of one Run; one goroutine owns it.
type checkerRun struct {
	CheckerOptions
	prober      prober
	members     map[*Health]*member
	groups      map[target]*group
	round       uint64 // counts the refreshes
	nextRefresh time.Time
	results     chan result
	probes      sync.WaitGroup
	running     int
	slow        int // of the running, those of backends that were silent

	told      chan told
	inquiries int                      // that are running
	tellers   int                      // groups with an engine that is asked and in use
	models    map[*fleet.Host]subjects // of all instances, by the names of their engines
}

// member is one instance that is watched.
type member struct {
	health   *Health
	instance *Instance
	settings HealthSettings
	group    *group
	key      string // the headers that a probe sends, to notice a change of them
	logged   Status // the status in the log
	round    uint64 // the latest refresh that found the instance
	served   int64  // how many calls had succeeded at the latest probe
}

// result is how a probe ended.
type result struct {
	group *group
	probeResult
	ended time.Time
	took  time.Duration
	slow  bool
}

// refresh reads the current instances: it adds new ones, removes the missing ones,
// and schedules probes of instances that traffic has marked.
func (w *checkerRun) refresh(now time.Time) {
	w.round++
	for _, g := range w.groups {
		g.members = g.members[:0]
	}
	fresh := 0
	clear(w.models)
	for _, i := range w.Source() {
		settings := w.Settings(i)
		if engine := i.Engine(); engine != nil {
			about := w.models[engine.Host()]
			about.add(engine.Model(), i.Settings.LoRA)
			w.models[engine.Host()] = about
		}
		if !i.Settings.Enabled || !settings.Enabled || i.Fault.Is() || i.isAsleep() {
			continue
		}
		m := w.member(i)
		m.settings = settings
		m.round = w.round
		if m.instance != i && m.retarget(w, i) {
			m.group.probeBy(now.Add(min(time.Duration(fresh)*stagger, settings.Interval.Std())))
			m.group.inquiry.forget()
			fresh++
		}
		m.group.members = append(m.group.members, m)
		// A breaker that waits for a successful check is treated like a mark. It may
		// wait without one, because broken connections do not mark an instance.
		if m.health.takeSuspicion() || m.group.pause == 0 && i.Breaker.AwaitsCheck() {
			m.group.pause = firstPause
			m.group.probeBy(now)
		}
		w.logChange(m)
	}
	w.removeGone()
	w.tellers = 0
	for _, g := range w.groups {
		if g.inquiry.follow(g.members); len(g.inquiry.questions) > 0 && g.inquiry.isInUse(g.members) {
			w.tellers++
		}
		g.mergeSettings(now)
		g.publishDue()
	}
}

// member returns the record of an instance, new where its living state is.
func (w *checkerRun) member(i *Instance) *member {
	health := w.Health(i)
	m := w.members[health]
	if m == nil {
		health.watch()
		m = &member{health: health, served: i.Ended(breaker.Success)}
		w.members[health] = m
	}
	return m
}

// retarget directs a member to the current target of its instance, and reports
// whether the target has changed since the last probe.
func (m *member) retarget(w *checkerRun, i *Instance) bool {
	at := targetOf(i)
	key := joinHeaders(i.Target.Header) + i.key
	same := m.group != nil && m.group.target == at && m.key == key
	m.instance, m.key = i, key
	if same {
		return false
	}
	g := w.groups[at]
	if g == nil {
		g = &group{target: at}
		w.groups[at] = g
	}
	m.group = g
	return true
}

// removeGone removes the instances that the latest refresh did not find, and cancels
// their probes.
func (w *checkerRun) removeGone() {
	for health, m := range w.members {
		if m.round != w.round {
			health.unwatch()
			w.logChange(m)
			delete(w.members, health)
		}
	}
	for at, g := range w.groups {
		if len(g.members) > 0 {
			continue
		}
		if g.running {
			g.cancel()
		}
		delete(w.groups, at)
	}
}

// launch starts the probes that are due, the longest waiting first.
func (w *checkerRun) launch(ctx context.Context, now time.Time) {
	var due []*group
	for _, g := range w.groups {
		if !g.running && !g.due.After(now) {
			due = append(due, g)
		}
	}
	slices.SortFunc(due, func(a, b *group) int { return cmp.Compare(a.due.UnixNano(), b.due.UnixNano()) })
	for _, g := range due {
		if w.running == maxProbes {
			return
		}
		if g.silent && w.slow == maxSlow {
			continue
		}
		w.start(ctx, g)
	}
}

func (w *checkerRun) start(ctx context.Context, g *group) {
	bounded, cancel := context.WithTimeout(ctx, g.timeout)
	g.running, g.cancel = true, cancel
	w.running++
	if g.silent {
		w.slow++
	}
	r := result{group: g, slow: g.silent}
	to, path, instance := g.origin, g.path, g.members[0].instance
	w.probes.Go(func() {
		defer cancel()
		began := time.Now()
		logs.Contain(w.Log, "a health check",
			func() { r.probeResult = w.prober.probe(bounded, to, path, instance.Target) })
		r.ended = time.Now()
		r.took = r.ended.Sub(began)
		w.results <- r
	})
}

// handleResult shares the result of a probe among the members and plans the next one.
// A group that was forgotten meanwhile has no members left.
func (w *checkerRun) handleResult(r result) {
	g := r.group
	g.running = false
	w.running--
	if r.slow {
		w.slow--
	}
	g.silent = r.finding == dead && r.took >= g.timeout
	if g.servedCalls() && r.finding == dead && isStatus(r.cause) {
		r.finding = contradicted
	}
	g.inquiry.check(r.probeResult)
	for _, m := range g.members {
		w.logChange(m) // a change that traffic made meanwhile
		m.applyResult(r)
		w.logChange(m)
	}
	g.plan(r.finding, r.cause, r.ended)
	g.publishDue()
}

func (m *member) applyResult(r result) {
	switch {
	case r.finding == alive && r.took > m.settings.Timeout.Std():
		// Another member has a longer timeout.
		m.health.Failed(r.ended, r.took, transport.CauseTimeout, m.settings)
	case r.finding == alive:
		m.health.Succeeded(r.ended, r.took, m.settings)
		m.instance.Breaker.Reachable(r.ended.Add(-r.took), r.ended)
	case r.finding == loading:
		m.health.Warming(r.ended, r.took)
	case r.finding == contradicted:
		m.health.Contradicted(r.ended, r.took, r.cause)
	case r.finding == dead && isDoubtful(r.group.path, r.cause):
		m.health.Doubted(r.ended, r.took, r.cause, m.settings)
	case r.finding == dead:
		m.health.Failed(r.ended, r.took, r.cause, m.settings)
	}
}

// nextWake returns when Run must continue even if no result comes. Probes that are
// due already wait for a running probe to end, which sends a result.
func (w *checkerRun) nextWake(now time.Time) time.Time {
	next := w.nextRefresh
	for _, g := range w.groups {
		if !g.running && g.due.After(now) && g.due.Before(next) {
			next = g.due
		}
	}
	return next
}

// logChange logs a change of status, whether a check or traffic caused it.
func (w *checkerRun) logChange(m *member) {
	s := m.health.Snapshot()
	if s.Status == m.logged {
		return
	}
	level := slog.LevelInfo
	switch {
	case s.Status == StatusUnhealthy:
		level = slog.LevelWarn
	case s.Status == StatusUnknown, m.logged == StatusUnknown && s.Status == StatusHealthy:
		level = slog.LevelDebug // it happens at every start, and when checks end
	}
	w.Log.LogAttrs(context.Background(), level, "health changed",
		slog.String("instance", m.instance.ID), slog.String("service", m.instance.Service.String()),
		slog.String("from", m.logged.String()), slog.String("to", s.Status.String()),
		slog.String("cause", string(s.Cause)))
	m.logged = s.Status
}

// end waits for the probes and stops watching every instance.
func (w *checkerRun) end() {
	w.probes.Wait()
	for health := range w.members {
		health.unwatch()
	}
}
