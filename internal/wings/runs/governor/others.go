package governor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/registry"
)

// others are the runs of the other gateways. Each gateway publishes its own in a registry, and reads it for
// a list or for a run that it does not know.
type others struct {
	mu   sync.Mutex // held while the registry is read
	read time.Time  // when it was read last
	// asked is when it was tried last, and failed the error of that.
	asked  time.Time
	failed error
	// taken is how many decisions of other gateways were taken over, and polled when they were asked
	// for; only the work beside the requests uses them.
	taken  int64
	polled time.Time
	// count is how many runs were published since began, which is bounded while one may be idle.
	began time.Time
	count atomic.Int64
}

const (
	// registryTime bounds one use of the registry, and freshFor is how long what was read is valid.
	registryTime = 2 * time.Second
	freshFor     = time.Second
	// pollEvery is how often a registry is read that has decisions. An end by another gateway cuts calls
	// within it and a second more.
	pollEvery = 2 * time.Second
	// overlap is how far the clocks of gateways may be apart for all news to be found.
	overlap = time.Minute
	// mostAtOnce is how many runs are published at a time, and mostPublished how many while one may be idle.
	mostAtOnce, mostPublished = 250, 10_000
	// publishParts is how often a run is published again while one may be idle.
	publishParts = 4
	// keepPublished is how long the registry has a run that is over.
	keepPublished = time.Hour
)

func (g *Governor) idle() time.Duration { return g.options.Settings.Idle.Std() }

// published is the state of a run that the registry has.
type published struct {
	at      time.Time
	version int64 // of its terms
	code    string
	hasName bool // of a model
}

// isStale reports whether the registry lacks the present state of a run; mu is held.
func (r *run) isStale(now time.Time, g *Governor) bool {
	last := &r.published
	code := ""
	if r.stopped != nil {
		code = r.stopped.Code
	}
	switch {
	case !r.isOurs && !r.isDecided:
		return false
	case last.at.IsZero(), code != last.code, r.model != "" && !last.hasName:
		return true
	case g.options.IsPolled && r.account.Terms().Version > last.version:
		return true
	}
	return now.Sub(last.at) >= g.idle()/publishParts && r.account.Used().After(last.at)
}

// entry returns the run as the registry and the file have it; mu is held.
func (r *run) entry() registry.Run {
	a := r.usage()
	one := registry.Run{
		ID: r.id, Owner: r.owner, Tenant: r.tenant, User: r.user, Name: r.name, Sign: r.sign, Model: r.model,
		Began: a.Began(), Used: a.Used(), Limits: r.limits, Terms: a.Terms().String(),
	}
	if r.stopped != nil {
		one.Code, one.Reason = r.stopped.Code, r.stopped.Message
	}
	return one
}

// publish publishes runs, and notes those that the registry has then. It returns why it lacks one.
func (g *Governor) publish(ctx context.Context, now time.Time, runs ...*run) error {
	list, states := make([]registry.Run, len(runs)), make([]published, len(runs))
	for i, r := range runs {
		r.mu.Lock()
		list[i] = r.entry()
		states[i] = published{now, r.account.Terms().Version, list[i].Code, r.model != ""}
		r.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, registryTime)
	defer cancel()
	n, err := g.options.Registry.Publish(ctx, list)
	for i, r := range runs[:n] {
		r.mu.Lock()
		r.published = states[i]
		r.mu.Unlock()
	}
	g.others.count.Add(int64(n))
	return err
}

// publishStale publishes the runs of which the registry lacks the present state.
func (g *Governor) publishStale(ctx context.Context, now time.Time) {
	o := &g.others
	if now.Sub(o.began) >= g.idle() {
		o.began = now
		o.count.Store(0)
	}
	var stale []*run
	for _, r := range g.all() {
		if int64(len(stale)) >= min(mostAtOnce, mostPublished-o.count.Load()) {
			break
		}
		r.mu.Lock()
		if r.isStale(now, g) {
			stale = append(stale, r)
		}
		r.mu.Unlock()
	}
	if len(stale) > 0 {
		_ = g.publish(ctx, now, stale...) // the rest is published in a second; health shows the store
	}
}

// publishDecision publishes a run at once if other gateways learn of decisions by the registry.
func (g *Governor) publishDecision(r *run) error {
	if !g.options.IsPolled {
		return nil
	}
	r.mu.Lock()
	r.isDecided = true // it is published in a second if it cannot be now
	r.mu.Unlock()
	return g.publish(context.Background(), time.Now(), r)
}

// meetOthers reads the runs of the other gateways, unless that was done a moment ago.
func (g *Governor) meetOthers(ctx context.Context, now time.Time) error {
	if g.options.Registry == nil {
		return nil
	}
	o := &g.others
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.asked) < freshFor { // callers that have waited do not ask one after the other
		return o.failed
	}
	since := now.Add(-g.idle() - g.idle()/publishParts)
	if g.options.IsPolled && !o.read.IsZero() { // it is read all the time
		since = o.read
	}
	ctx, cancel := context.WithTimeout(ctx, registryTime)
	defer cancel()
	found, err := g.options.Registry.Since(ctx, since.Add(-overlap))
	o.asked, o.failed = time.Now(), err
	var accounts []*budget.Account
	for i := range found {
		if r := g.learn(&found[i], now); r != nil {
			accounts = append(accounts, r.latest())
		}
	}
	if err != nil {
		return err // what was read until then is known
	}
	o.read = now
	g.book.Learn(ctx, accounts)
	return nil
}

// learn takes over a run of another gateway or of an earlier process, and returns it if it was not known.
func (g *Governor) learn(found *registry.Run, now time.Time) *run {
	terms, isRead := budget.ReadTerms(found.Terms)
	if !isRead || now.Sub(found.Used) >= g.idle() {
		return nil
	}
	who := identity{found.Owner, found.Name}
	g.mu.Lock()
	r, isNew := g.wake(who), false
	if r != nil && r.isOver(now, g.idle()) { // another one has begun since
		g.forget(r)
		r = nil
	}
	if r == nil {
		if r, isNew = g.beginKnown(who, found.Tenant, found.Began, now), true; r != nil {
			g.used.MoveToBack(r.element)
		}
	}
	g.mu.Unlock()
	if r == nil || r.id != found.ID {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if isNew {
		r.account.Meet(earlier(found.Used, now))
		r.followed = terms
	}
	if isNew || !r.isOurs {
		r.user, r.sign, r.limits = found.User, found.Sign, found.Limits
		r.account = g.book.OpenRun(budget.RunSubject(r.owner, r.tenant, r.name), found.Began, r.limits.Amounts())
	}
	if r.model == "" || !r.isOurs {
		r.model = found.Model
	}
	r.elsewhere = refusedElsewhere{found.Code, found.Reason}
	r.account.Restore(terms, found.Began)
	r.published.version = max(r.published.version, terms.Version)
	r.account.Touch(earlier(found.Used, now))
	if !isNew {
		return nil
	}
	return r
}

// earlier returns a time of another gateway, or now if its clock is ahead.
func earlier(at, now time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}

// refusedElsewhere says why another gateway refuses the requests of a run.
type refusedElsewhere struct{ code, reason string }

// follow puts the decisions of other gateways into force.
func (g *Governor) follow() {
	taken := g.book.Decisions()
	if taken == g.others.taken {
		return
	}
	g.others.taken = taken
	for _, r := range g.all() {
		r.mu.Lock()
		before, terms := r.followed, r.account.Terms()
		r.followed = terms
		isEnded := terms.IsEnded && terms.IsCut && before.Version < terms.Version && len(r.underWay) > 0
		isRaised := terms.Raised != before.Raised || terms.Longer > before.Longer || terms.Lifted > before.Lifted ||
			before.IsEnded && !terms.IsEnded
		if isRaised && !terms.IsEnded {
			r.letGoOn()
		}
		r.mu.Unlock()
		if isEnded {
			g.cut(r)
		}
	}
}

// letGoOn forgets why the run was refused; mu is held.
func (r *run) letGoOn() {
	r.stopped, r.loop, r.elsewhere = nil, nil, refusedElsewhere{}
	r.watch.Clear()
}

// stoppedBy returns the code and the words with which requests of the run are refused, here or, if no request
// of it reached this gateway, elsewhere.
func (k *kept) stoppedBy() (code, reason string) {
	switch {
	case k.stopped != nil:
		return k.stopped.Code, k.stopped.Message
	case !k.isOurs:
		return k.elsewhere.code, k.elsewhere.reason
	}
	return "", ""
}
