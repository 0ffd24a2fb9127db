// Package governor keeps the runs of agents within their limits. A request reserves of its run
// before it is sent, as it does of the budgets of its key; package budget has the guarantees.
package governor

import (
	"cmp"
	"container/list"
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/known"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/loops"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/registry"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/turns"
)

// Options are the parts and settings of a Governor.
type Options struct {
	Settings runs.Settings
	// Book returns the book of runs, which asks the governor about the runs in the ledger. Found is to
	// be removed where gateways share no database.
	Book func(*budget.Runs) *budget.Book
	// Most bounds the runs; nil has the usual values.
	Most *Most
	// Data is where the state of runs is kept that the ledger does not have; nil keeps none.
	Data     *durable.Dir
	Currency func() string
	// PublicURL is the address by which people reach the console, empty where it is not known.
	PublicURL string
	// Registry has the runs that gateways publish to each other; nil if they share no database. If IsPolled
	// is true, it is the only way by which they learn of decisions; otherwise these come with the totals.
	Registry *registry.Registry
	IsPolled bool
	// Secret is the same for gateways that know conversations by their beginnings together.
	Secret [32]byte
	Log    *slog.Logger
}

// Governor knows the runs that go on.
type Governor struct {
	options Options
	book    *budget.Book
	known   *known.Book
	reader  *turns.Reader
	seed    maphash.Seed // of the hashes of sub-agents

	mu   sync.Mutex
	runs map[identity]*run
	byID map[string]*run
	// used has the active runs, the one that was used last in front, and bytes is their memory.
	used  list.List
	bytes int
	rooms rooms
	// hasTaken says that the runs of earlier processes were taken over.
	hasTaken bool
	// found are the runs that the ledger has and that go on, until they are taken over.
	finding sync.Mutex // held for found, also while the book is locked
	found   []quota.Row
	// saved are the runs in the file of an earlier process. It is not changed.
	saved map[string]registry.Run
	// isChanged says that decisions about runs are not written yet.
	isChanged atomic.Bool

	refused [refusalCount]atomic.Int64
	looped  [ruleCount][actionCount]atomic.Int64
	others  others
	warned  sync.Map // the models without a price that the log has told of
}

// Most are the bounds of the runs of an owner, of all runs, and of the memory of those that do not rest.
type Most struct{ OfOwner, InAll, Bytes int }

// identity names a run: its owner is the id of a key or of the bearer of a token, and empty where
// no keys are needed.
type identity struct{ owner, name string }

// kept is what is in memory of each run. The governor's mu guards seat, and the mu of the run what
// changes besides.
type kept struct {
	identity
	of                            string // the name of its account
	id, sign, tenant, user, model string
	// seat is the place in the room of its owner, nil before a request was let in.
	seat   *seat
	limits budget.RunLimits
	// grant is the one that limits come from.
	grant *access.Grant
	// stopped is the last refusal for good, nil if a request was let in since.
	stopped *schema.Error
	// isOurs means that a request of the run reached this gateway, and isDecided that the run is published
	// anyhow, because a decision about it was made here. published is its state in the registry, and elsewhere
	// the state that was read there.
	isOurs, isDecided bool
	published         published
	elsewhere         refusedElsewhere
}

// run is one run.
type run struct {
	kept
	element *list.Element // nil while it rests
	pins    int           // the requests that use it; the governor's mu guards them
	rested  budget.Rested // while it rests

	mu sync.Mutex
	*active
}

// New returns a governor that knows the runs which go on.
func New(options Options) *Governor {
	g := &Governor{
		options: options, known: known.NewBook(options.Secret), reader: turns.NewReader(),
		seed: maphash.MakeSeed(), runs: map[identity]*run{}, byID: map[string]*run{},
		rooms: rooms{of: map[string]*room{}}, saved: map[string]registry.Run{},
	}
	most := cmp.Or(options.Most, &Most{mostOfOwner, mostRuns, mostBytes})
	g.options.Most = most
	g.book = options.Book(&budget.Runs{
		Idle: g.idle(), GoesOn: g.goesOn, Found: g.find,
		Bound: quota.Bound{OfOwner: most.OfOwner, InAll: most.InAll, Keeps: g.keeps},
	})
	g.readSaved()
	g.book.Begin()
	g.takeFound(time.Now())
	return g
}

// costHeader asks for a lower limit of money.
const costHeader = "X-Router-Run-Limit-Cost"

// Memory for runs is bounded.
const (
	// mostBytes bounds the memory of the runs that do not rest; mostRuns and mostOfOwner bound the
	// number of all.
	mostBytes = 64 << 20
	// runBytes is about how much memory a run takes in all tables and in the book, without its name.
	runBytes = 3700
	// mostAgents is how many sub-agents of a run are counted.
	mostAgents = 1000
	// agentBytes is about how much memory each of them takes.
	agentBytes = 40
)

// Enter finds the run of a request and lets it in, or returns nil for a request without a run.
func (g *Governor) Enter(ctx context.Context, a *account.Account) (account.Turn, error) {
	owner := a.Caller.KeyID
	found := g.known.Of(owner, a.Caller.Header, a.Asks, g.options.Settings.By)
	if found.ID == "" {
		return nil, nil //nolint:nilnil // it belongs to no run
	}
	now, who := time.Now(), identity{owner, quota.UserName(found.ID)}
	wish, refusal := wishOf(a.Caller.Header)
	if refusal == nil && wish > 0 {
		refusal = g.refuseWish(who, wish, a.Caller.Grant, now)
	}
	if refusal != nil {
		return nil, refusal
	}
	r := g.open(who, found, a.Caller, now)
	a.Record.Run, a.Asks.Run = r.id, found.ID
	t := &turn{governor: g, run: r, record: a.Record}
	refusal, wait := g.admit(t, a, wish, found.Agent, now)
	if refusal != nil {
		g.note(r, refusal)
		g.unpin(r)
		return nil, refusal
	}
	if wait > 0 {
		if err := waiting.Pause(ctx, wait); err != nil {
			t.isWatched = false // the call was given up before it was made, which proves nothing
			t.Leave(account.End{})
			return nil, err
		}
	}
	return t, nil
}

// open returns a run for a request, which begins if none continues. It stays until unpin. A run that
// begins has no room before the request is let in: see Confirm.
func (g *Governor) open(who identity, found known.Run, caller *access.Caller, now time.Time) *run {
	tenant := quota.UserName(caller.Tenant) // as the ledger has it
	g.mu.Lock()
	r := g.wake(who)
	if r != nil && r.isOver(now, g.idle()) {
		g.forget(r)
		r = nil
	}
	if r == nil {
		who.name = strings.Clone(who.name)
		r = g.begin(who, tenant, now)
		r.sign, r.user = found.Sign.String(), quota.UserName(caller.User)
	}
	r.pins++
	g.used.MoveToFront(r.element)
	g.rooms.use(r.seat)
	g.meet(r, found.Agent)
	g.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grant != caller.Grant || !r.isOurs {
		r.setLimits(g, caller.Grant)
	}
	r.isOurs, r.tenant = true, tenant // the key may have moved
	r.account.Touch(now)
	return r
}

// meet counts a sub-agent of the run that was used last; mu is held.
func (g *Governor) meet(r *run, agent string) {
	hash := maphash.String(g.seed, agent)
	if _, isKnown := r.agents[hash]; isKnown || agent == "" || len(r.agents) >= mostAgents {
		return
	}
	g.makeMemory(agentBytes)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.agents[hash] = struct{}{}
	g.bytes += agentBytes
}

// unpin ends the use of a run by a request. A run in which no request was let in is forgotten.
func (g *Governor) unpin(r *run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.pins--; r.pins == 0 && r.seat == nil && g.runs[r.identity] == r {
		g.forget(r)
	}
}

// begin adds a run without a room; mu is held. The idlest ones rest.
func (g *Governor) begin(who identity, tenant string, began time.Time) *run {
	size := runBytes + 4*len(who.name)
	g.makeMemory(size)
	r := &run{kept: kept{identity: who, tenant: tenant, limits: g.options.Settings.Limits}}
	g.activate(r, g.book.OpenRun(budget.RunSubject(who.owner, tenant, who.name), began, r.limits.Amounts()))
	return r
}

// activate adds an active run with its account to the tables; mu is held.
func (g *Governor) activate(r *run, account *budget.Account) {
	r.active = &active{account: account, underWay: map[*turn]struct{}{}, agents: map[uint64]struct{}{}}
	r.of, r.id = account.Name(), publicID(account.Name())
	r.element = g.used.PushFront(r)
	g.bytes += runBytes + 4*len(r.name)
	g.put(r)
}

// put adds a run to the maps; mu is held.
func (g *Governor) put(r *run) { g.runs[r.identity], g.byID[r.id] = r, r }

// publicID returns the id of a run that people see, by the name of its account.
func publicID(account string) string { return strings.Replace(account, "/", "_", 1) }

// forget removes a run; mu is held.
func (g *Governor) forget(r *run) {
	g.take(r)
	if r.active != nil {
		g.book.Forget(r.latest())
	}
	g.rooms.leave(r.seat)
}

// take removes a run from the tables; mu is held.
func (g *Governor) take(r *run) {
	delete(g.runs, r.identity)
	delete(g.byID, r.id)
	if r.active != nil {
		g.used.Remove(r.element)
		g.bytes -= runBytes + 4*len(r.name) + agentBytes*len(r.agents)
	}
}

// setLimits sets the strictest limits of the gateway, the tenant and the key; mu is held.
func (r *run) setLimits(g *Governor, grant *access.Grant) {
	r.grant, r.limits = grant, g.limitsOf(grant)
	r.account = g.book.OpenRun(budget.RunSubject(r.owner, r.tenant, r.name), r.account.Began(), r.limits.Amounts())
}

// limitsOf returns the strictest limits of the gateway, the tenant and the key.
func (g *Governor) limitsOf(grant *access.Grant) budget.RunLimits {
	if grant == nil {
		return g.options.Settings.Limits
	}
	return g.options.Settings.Limits.Lesser(grant.Runs)
}

// admit lets a request into its run after a wait, or returns why it is refused.
func (g *Governor) admit(
	t *turn, a *account.Account, wish prices.Amount, agent string, now time.Time,
) (*schema.Error, time.Duration) {
	r := t.run
	if a.IsOwed() { // it is made already
		r.mu.Lock()
		defer r.mu.Unlock()
		r.underWay[t] = struct{}{}
		return nil, 0
	}
	if refusal := g.askLess(r, wish); refusal != nil {
		return refusal, 0
	}
	if refusal := g.refuseEnded(r, now); refusal != nil {
		return refusal, 0
	}
	if refusal := g.refuseUnpriced(t, a); refusal != nil {
		return refusal, 0
	}
	if refusal := r.enter(t); refusal != nil {
		return refusal, 0
	}
	finding := g.watch(t, a, agent, now)
	if finding == nil || finding.Action != loops.Stop {
		return nil, waitOf(finding)
	}
	r.leave(t)
	return g.stopForLoop(r), 0
}

// enter counts a request among those under way, unless there are too many.
func (r *run) enter(t *turn) *schema.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if most := r.limits.Concurrency; most > 0 && int64(len(r.underWay)) >= most {
		return held(r, say.New("run.parallel", "limit", most))
	}
	r.underWay[t] = struct{}{}
	return nil
}

func (r *run) leave(t *turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.underWay, t)
	r.account.Touch(time.Now())
}

// wishOf returns the limit of money that the client asks for, 0 for none.
func wishOf(header http.Header) (prices.Amount, *schema.Error) {
	values := header[costHeader]
	if len(values) == 0 {
		return 0, nil
	}
	asked, err := prices.ParseAmount(strings.TrimSpace(values[0]))
	if err != nil || asked <= 0 {
		return 0, schema.CodedError(schema.CodeInvalidValue, "run.asks_amount")
	}
	return asked, nil
}

// refuseWish refuses a request that asks for more than a run may have that would begin with it.
func (g *Governor) refuseWish(who identity, asked prices.Amount, grant *access.Grant, now time.Time) *schema.Error {
	g.mu.Lock()
	r := g.wake(who)
	g.mu.Unlock()
	limit := g.limitsOf(grant).Cost
	if limit <= 0 || asked <= limit || r != nil && !r.isOver(now, g.idle()) {
		return nil
	}
	return schema.CodedError(schema.CodeInvalidValue, "run.asks_less", "most", limit.Money())
}

// askLess takes over the limit of money that the client asks for, 0 for none.
func (g *Governor) askLess(r *run, asked prices.Amount) *schema.Error {
	if asked == 0 {
		return nil
	}
	r.mu.Lock()
	given, acc := r.limits.Cost, r.account
	r.mu.Unlock()
	limit := given
	lower := func(t *budget.Terms) bool {
		limit = given
		if t.MostCost > 0 && (limit <= 0 || t.MostCost < int64(limit)) {
			limit = prices.Amount(t.MostCost)
		}
		if limit > 0 && asked >= limit {
			return false
		}
		t.MostCost = int64(asked)
		return true
	}
	if terms := acc.Terms(); lower(&terms) {
		if err := acc.Decide(lower); err != nil {
			g.options.Log.Warn("the other gateways are not told yet of a limit that a client asked for", "error", err)
		}
		g.isChanged.Store(true)
	}
	if limit > 0 && asked > limit {
		return schema.CodedError(schema.CodeInvalidValue, "run.asks_less", "most", limit.Money())
	}
	return nil
}

// refuseEnded refuses requests of a run that was ended, or that has lasted too long.
func (g *Governor) refuseEnded(r *run, now time.Time) *schema.Error {
	r.mu.Lock()
	limit, acc := r.limits.Time.Std(), r.account
	r.mu.Unlock()
	terms := acc.Terms()
	switch {
	case terms.IsEnded:
		return final(r, codeEnded, say.New("run.ended", "how", g.how(r, "")))
	case terms.Looped > terms.Lifted:
		return g.loops(r)
	}
	if lasted := now.Sub(acc.Began()); limit > 0 && lasted >= limit+terms.Longer {
		limit += terms.Longer
		refusal := final(r, codeLimit, say.New("run.time", "used", lasted, "limit", limit,
			"how", g.how(r, "--time 1h")))
		refusal.Details = runDetails{Run: r.id, Unit: "time", Used: seconds(lasted), Limit: seconds(limit)}
		return refusal
	}
	return nil
}

// refuseUnpriced decides about a model without a price in a run with a limit of money.
func (g *Governor) refuseUnpriced(t *turn, a *account.Account) *schema.Error {
	if g.options.Settings.Unpriced == runs.Allow || !t.run.limitsCost() {
		return nil
	}
	model := a.UnpricedModel()
	if model == "" {
		return nil
	}
	if refusal := t.RefuseUnpriced(model); refusal != nil {
		return refusal
	}
	if _, isTold := g.warned.LoadOrStore(model, true); !isTold { // models are those of the configuration
		g.options.Log.Warn("a model without a price is used in runs with a limit of money; "+
			"set its price in prices.models, or runs.unpriced", "model", model)
	}
	return nil
}

// limitsCost reports whether the run has a limit of money.
func (r *run) limitsCost() bool { return r.latest().Bounds()[budget.Cost] > 0 }
