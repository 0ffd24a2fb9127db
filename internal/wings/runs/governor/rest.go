package governor

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
)

// rest is a run that takes little memory: nothing was asked for in it for longer than in others. Its
// rules about loops and its sub-agents begin anew with its next request.
type rest struct {
	kept
	account budget.Rested
}

// restBytes is about how much memory a run takes while it rests, with a name of 36 bytes.
const restBytes = 1000

// makeMemory lets the idlest runs rest until more bytes fit; mu is held. The run that was used last
// stays, and so does one with requests under way.
func (g *Governor) makeMemory(bytes int) {
	for oldest := g.used.Back(); oldest != g.used.Front() && g.bytes+bytes > g.options.Most.Bytes; {
		next := oldest.Prev()
		if r, _ := oldest.Value.(*run); r.pins == 0 && r.seat != nil {
			g.rest(r)
		}
		oldest = next
	}
}

// rest lets a run rest; mu is held.
func (g *Governor) rest(r *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	account, isQuiet := g.book.Rest(r.account)
	if isQuiet {
		g.take(r)
		g.resting[r.identity] = &rest{r.kept, account}
	}
}

// wake returns the run of a name, whether it rests or not, and nil if there is none; mu is held.
func (g *Governor) wake(who identity) *run {
	if r := g.runs[who]; r != nil {
		return r
	}
	k := g.resting[who]
	if k == nil {
		return nil
	}
	delete(g.resting, who)
	g.makeMemory(runBytes + 4*len(who.name))
	r := &run{kept: k.kept}
	g.add(r, g.book.Wake(budget.RunSubject(k.owner, k.tenant, k.name), k.account, k.limits.Amounts()))
	r.followed = r.account.Terms()
	return r
}

// atRest returns the runs that rest.
func (g *Governor) atRest() []*rest {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*rest, 0, len(g.resting))
	for _, k := range g.resting {
		all = append(all, k)
	}
	return all
}

// isOver reports whether nothing was asked for in a run for too long.
func (k *rest) isOver(now time.Time, idle time.Duration) bool {
	return now.Sub(k.account.Used()) >= idle
}

// usage is the account of a run, whether it rests or not.
type usage interface {
	Terms() budget.Terms
	IsUsedUp(limits budget.Amounts) bool
	Began() time.Time
	Used() time.Time
}

// holds reports whether a run holds its room: it was ended, or is at a limit.
func (k *kept) holds(a usage, now time.Time) bool {
	terms, lasts := a.Terms(), k.limits.Time.Std()
	return terms.IsEnded || terms.Looped > terms.Lifted || k.stopped != nil || a.IsUsedUp(k.limits.Amounts()) ||
		lasts > 0 && now.Sub(a.Began()) >= lasts+terms.Longer
}
