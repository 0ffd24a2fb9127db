package governor

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/loops"
)

// The sizes of counts by rule and by action.
const (
	ruleCount   = int(loops.NoOutput) + 1
	actionCount = int(loops.Stop) + 1
)

// watch tells the rules about loops of a call, and returns the broken one, nil for none. Lines of
// batches are no turns of an agent.
func (g *Governor) watch(t *turn, a *account.Account, agent string, now time.Time) *loops.Finding {
	if g.options.Settings.Loops.Repeats == 0 || a.Asks.Uncounted || a.Class == schema.Spare {
		return nil
	}
	if t.step, t.isWatched = g.reader.Read(a.Asks, agent); !t.isWatched {
		return nil
	}
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	broken, isFound := t.run.watch.Next(&g.options.Settings.Loops, t.step)
	if !isFound {
		t.run.loop = nil
		return nil
	}
	if t.run.loop == nil {
		t.run.looped = now
	}
	found := new(loops.Finding) // only a call that breaks a rule takes memory for it
	*found = broken
	t.run.loop = found
	g.looped[found.Rule][found.Action].Add(1)
	return found
}

// waitOf returns how long the call of a finding waits.
func waitOf(found *loops.Finding) time.Duration {
	if found == nil {
		return 0
	}
	return found.Wait
}

// stopForLoop stops a run until people lift it.
func (g *Governor) stopForLoop(r *run) *schema.Error {
	stop := func(t *budget.Terms) bool { t.Looped = t.Lifted + 1; return true }
	if err := r.latest().Decide(stop); err != nil {
		g.options.Log.Warn("the other gateways are not told yet of a run that loops", "run", r.id, "error", err)
	}
	g.isChanged.Store(true)
	return g.loops(r)
}

// loops is the error of a run that is stopped because it goes round in circles.
func (g *Governor) loops(r *run) *schema.Error {
	r.mu.Lock()
	found := r.loop
	r.mu.Unlock()
	if found == nil { // an earlier process or another gateway has found it
		return final(r, codeLoops, say.New("run.loops", "how", g.how(r, "")))
	}
	refusal := final(r, codeLoops, say.New("run.loops_rule", "rule", say.New(ruleCodes[found.Rule]),
		"count", found.Count, "how", g.how(r, "")))
	refusal.Details = loopDetails{r.id, *found}
	return refusal
}

// loopDetails are the details of the error of a run that goes round in circles.
type loopDetails struct {
	Run  string        `json:"run"`
	Loop loops.Finding `json:"loop"`
}

// ruleCodes are the sentences about broken rules.
var ruleCodes = [ruleCount]say.Code{"run.same_call", "run.same_result", "run.alternating", "run.errors",
	"run.no_output"}

// loopView is the latest finding about a run as JSON.
type loopView struct {
	loops.Finding
	At time.Time `json:"at" doc:"Since when the run breaks a rule."`
}
