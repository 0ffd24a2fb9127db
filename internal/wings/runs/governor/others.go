package governor

import (
	"context"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/board"
)

// others are the runs of the other gateways. Each gateway shows its own on a board, and reads it when
// somebody asks for a list or for a run that it does not know.
type others struct {
	board board.Board // nil where gateways share nothing
	// isPolled says that decisions about runs are on the board only, so that it is read all the time.
	// They come with the totals of a run where these are shared.
	isPolled bool

	mu   sync.Mutex // held while the board is read
	read time.Time  // when it was read last
	// asked is when it was tried last, and failed the error of that.
	asked  time.Time
	failed error
	// taken is how many decisions of other gateways were taken over, and polled when they were asked
	// for; only the work beside the requests uses them.
	taken  int64
	polled time.Time
	// checked is when the board was last searched for runs of this gateway.
	checked time.Time
	// count is how many runs were shown since began, which is bounded while one may be idle.
	began time.Time
	count int
}

const (
	// boardTime bounds one use of the board, and freshFor is how long what was read is shown.
	boardTime = 2 * time.Second
	freshFor  = time.Second
	// pollEvery is how often a board is read that has decisions. An end by another gateway cuts calls
	// within it and a second more.
	pollEvery = 2 * time.Second
	// checkEvery is how often a gateway looks whether its runs are still on the board.
	checkEvery = 10 * time.Second
	// overlap is how far the clocks of gateways may be apart for all news to be found.
	overlap = time.Minute
	// mostTold is how many runs are shown at a time, and mostShown how often a gateway shows one while
	// one may be idle.
	mostTold, mostShown = 250, 10_000
	// toldParts is how often a run is shown again while one may be idle.
	toldParts = 4
	// keepShown is how long a board of documents has a run that is over.
	keepShown = time.Hour
)

func (g *Governor) idle() time.Duration { return g.options.Settings.Idle.Std() }

// shown is what the others were told of a run.
type shown struct {
	at      time.Time
	version int64 // of its terms
	code    string
	hasName bool // of a model
}

// hasNews reports whether the others do not know the run as it is; mu is held.
func (r *run) hasNews(now time.Time, g *Governor) bool {
	last := &r.told
	code := ""
	if r.stopped != nil {
		code = r.stopped.Code
	}
	switch {
	case !r.isOurs && !r.isTold:
		return false
	case last.at.IsZero(), code != last.code, r.model != "" && !last.hasName:
		return true
	case g.others.isPolled && r.account.Terms().Version > last.version:
		return true
	}
	return now.Sub(last.at) >= g.idle()/toldParts && r.account.Used().After(last.at)
}

// shown returns the run as the others see it; mu is held.
func (r *run) shown(now time.Time) (board.Run, shown) {
	terms := r.account.Terms()
	told := shown{at: now, version: terms.Version, hasName: r.model != ""}
	one := board.Run{
		ID: r.id, Owner: r.owner, Tenant: r.tenant, User: r.user, Name: r.name, Sign: r.sign, Model: r.model,
		Began: r.account.Began(), Used: r.account.Used(), Limits: r.limits, Terms: terms.String(),
	}
	if r.stopped != nil {
		one.Code, one.Reason = r.stopped.Code, r.stopped.Message
		told.code = one.Code
	}
	return one, told
}

// tellOthers shows the others the runs that they do not know as they are.
func (g *Governor) tellOthers(ctx context.Context, now time.Time) {
	o := &g.others
	if o.board == nil {
		return
	}
	if now.Sub(o.began) >= g.idle() {
		o.began, o.count = now, 0
	}
	var list []board.Run
	var runs []*run
	var told []shown
	for _, r := range g.all() {
		if len(list) == min(mostTold, mostShown-o.count) {
			break
		}
		r.mu.Lock()
		if r.hasNews(now, g) {
			one, as := r.shown(now)
			list, runs, told = append(list, one), append(runs, r), append(told, as)
		}
		r.mu.Unlock()
	}
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, boardTime)
	defer cancel()
	n, _ := o.board.Tell(ctx, list) // the rest is told with the next beat; health shows the store
	o.count += n
	for i, r := range runs[:n] {
		r.mu.Lock()
		r.told = told[i]
		r.mu.Unlock()
	}
}

// tellDisplaced has the runs told again that others have removed from the board or replaced by what
// no gateway has told.
func (g *Governor) tellDisplaced(ctx context.Context, now time.Time) {
	o := &g.others
	if o.board == nil || now.Sub(o.checked) < checkEvery {
		return
	}
	o.checked = now
	ctx, cancel := context.WithTimeout(ctx, boardTime)
	defer cancel()
	ids, _ := o.board.Displaced(ctx) // health shows the store
	for _, id := range ids {
		g.mu.Lock()
		if r := g.byID[id]; r != nil { // one that rests is told again with its next request
			r.mu.Lock()
			r.told.at = time.Time{}
			r.mu.Unlock()
			o.count-- // or others would use up the number that may be told
		}
		g.mu.Unlock()
	}
}

// tellOf shows the others one run at once, where they learn of decisions by the board.
func (g *Governor) tellOf(r *run) error {
	if g.others.board == nil || !g.others.isPolled {
		return nil
	}
	r.mu.Lock()
	r.isTold = true // with the next beat, if it cannot be told now
	one, told := r.shown(time.Now())
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), boardTime)
	defer cancel()
	_, err := g.others.board.Tell(ctx, []board.Run{one})
	if err == nil {
		r.mu.Lock()
		r.told = told
		r.mu.Unlock()
	}
	return err
}

// meetOthers reads the runs of the other gateways, unless that was done a moment ago.
func (g *Governor) meetOthers(ctx context.Context, now time.Time) error {
	o := &g.others
	if o.board == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.asked) < freshFor { // those who have waited do not ask one after the other
		return o.failed
	}
	since := now.Add(-g.idle() - g.idle()/toldParts)
	if o.isPolled && !o.read.IsZero() { // it is read all the time
		since = o.read
	}
	ctx, cancel := context.WithTimeout(ctx, boardTime)
	defer cancel()
	found, err := o.board.Since(ctx, since.Add(-overlap))
	o.asked, o.failed = time.Now(), err
	var accounts []*budget.Account
	for i := range found {
		if r := g.meetRun(&found[i], now); r != nil {
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

// meetRun takes over what another gateway tells of a run, and returns it where it was not known.
func (g *Governor) meetRun(told *board.Run, now time.Time) *run {
	terms, isRead := budget.ReadTerms(told.Terms)
	if !isRead || now.Sub(told.Used) >= g.idle() {
		return nil
	}
	who := identity{told.Owner, told.Name}
	g.mu.Lock()
	r, isNew := g.wake(who), false
	if r != nil && r.isOver(now, g.idle()) { // another one has begun since
		g.forget(r)
		r = nil
	}
	if r == nil {
		if r, isNew = g.beginKnown(who, told.Tenant, told.Began, now), true; r != nil {
			g.used.MoveToBack(r.element)
		}
	}
	g.mu.Unlock()
	if r == nil || r.id != told.ID {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if isNew {
		r.account.Meet(earlier(told.Used, now))
		r.followed = terms
	}
	if isNew || !r.isOurs {
		r.user, r.sign, r.limits = told.User, told.Sign, told.Limits
		r.account = g.book.OpenRun(budget.RunSubject(r.owner, r.tenant, r.name), told.Began, r.limits.Amounts())
	}
	if r.model == "" || !r.isOurs {
		r.model = told.Model
	}
	r.elsewhere = refusedElsewhere{told.Code, told.Reason}
	r.account.Restore(terms, told.Began)
	r.told.version = max(r.told.version, terms.Version)
	r.account.Touch(earlier(told.Used, now))
	if !isNew {
		return nil
	}
	return r
}

// earlier returns a time that another gateway tells, or now where its clock is ahead.
func earlier(told, now time.Time) time.Time {
	if told.After(now) {
		return now
	}
	return told
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

// stoppedBy returns the code and the words with which requests of the run are refused, here or, where
// nothing was asked for here, elsewhere; mu is held.
func (r *run) stoppedBy() (code, reason string) {
	switch {
	case r.stopped != nil:
		return r.stopped.Code, r.stopped.Message
	case !r.isOurs:
		return r.elsewhere.code, r.elsewhere.reason
	}
	return "", ""
}

// isRunning reports whether calls of the run are under way at any gateway; mu is held.
func (r *run) isRunning() bool {
	if len(r.underWay) > 0 {
		return true
	}
	_, reserved := r.account.Figures()
	return reserved[budget.Requests] > 0
}
