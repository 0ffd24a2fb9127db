package governor

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/loops"
)

// active is what is in memory of a run unless it rests. A run rests if requests of others came later and
// need the memory. Its rules about loops and its sub-agents begin anew with its next request. The mu of the
// run guards it.
type active struct {
	account  *budget.Account
	underWay map[*turn]struct{}
	answers  *account.Answers // nil before the first one
	// agents are hashes of the sub-agents that were seen, as many as are counted. It is changed while
	// the governor's mu is held, too.
	agents map[uint64]struct{}
	watch  loops.Watch
	// loop is the latest finding about loops, and looped its time; nil if the latest call broke
	// no rule.
	loop     *loops.Finding
	looped   time.Time
	followed budget.Terms // the terms that were applied last
}

// restBytes is about how much memory a run takes while it rests, with a name of 36 bytes.
const restBytes = 1000

// makeMemory lets the idlest runs rest until more bytes fit; mu is held. The run that was used last
// stays active, and so does one with requests under way.
func (g *Governor) makeMemory(bytes int) {
	for oldest := g.used.Back(); oldest != g.used.Front() && g.bytes+bytes > g.options.Most.Bytes; {
		next := oldest.Prev()
		if r, _ := oldest.Value.(*run); r.pins == 0 && r.seat != nil {
			g.rest(r)
		}
		oldest = next
	}
}

// rest replaces an active run by one that rests; mu is held.
func (g *Governor) rest(r *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rested, isQuiet := g.book.Rest(r.account); isQuiet {
		g.take(r)
		g.put(&run{kept: r.kept, rested: rested})
	}
}

// wake returns the active run of a name, nil if there is none; mu is held.
func (g *Governor) wake(who identity) *run {
	r := g.runs[who]
	if r == nil || r.active != nil {
		return r
	}
	g.take(r)
	g.makeMemory(runBytes + 4*len(who.name))
	awake := &run{kept: r.kept}
	g.activate(awake, g.book.Wake(budget.RunSubject(r.owner, r.tenant, r.name), r.rested, r.limits.Amounts()))
	awake.followed = awake.account.Terms()
	return awake
}

// every returns all runs, active or not.
func (g *Governor) every() []*run {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*run, 0, len(g.runs))
	for _, r := range g.runs {
		all = append(all, r)
	}
	return all
}

// usage is the account of a run, active or not.
type usage interface {
	Terms() budget.Terms
	IsUsedUp(limits budget.Amounts) bool
	Began() time.Time
	Used() time.Time
}

// usage returns the account of the run; mu is held.
func (r *run) usage() usage {
	if r.active == nil {
		return &r.rested
	}
	return r.account
}

// isUnderWay reports whether requests of the run are under way here; mu is held.
func (r *run) isUnderWay() bool { return r.active != nil && len(r.underWay) > 0 }

// isOver reports whether nothing was asked for in a run for too long.
func (r *run) isOver(now time.Time, idle time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.isUnderWay() && now.Sub(r.usage().Used()) >= idle
}

// holds reports whether a run holds its room: it was ended or is at a limit, and is not over.
func (r *run) holds(now time.Time, idle time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.usage()
	terms, lasts := a.Terms(), r.limits.Time.Std()
	isStopped := terms.IsEnded || terms.Looped > terms.Lifted || r.stopped != nil || a.IsUsedUp(r.limits.Amounts()) ||
		lasts > 0 && now.Sub(a.Began()) >= lasts+terms.Longer
	return isStopped && now.Sub(a.Used()) < idle
}
