package governor

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/monitor"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// handler answers the operations below /api/runs.
type handler struct {
	core     *wing.Core
	governor *Governor // nil where runs are not governed
}

func (h *handler) routes() []web.Route {
	return web.Group("Runs", readRuns, writeRuns, h.tenantOf, []web.Route{{
		Pattern: "GET /api/runs", Team: access.Member,
		Does:    web.ListWith(h.list),
		Summary: "The runs of agents: their use, limits and state. Members see those of their own keys",
		Says:    "The runs.",
	}, {
		Pattern: "GET /api/runs/{id}", Team: access.Member,
		Does:    web.Do(h.show),
		Summary: "One run of an agent, with its latest calls",
		Says:    "The run.",
	}, {
		Pattern: "POST /api/runs/{id}/raise", Team: access.TeamAdmin,
		Does: web.DoBody(h.raise), BodyOptional: true,
		Summary: "Add amounts to the limits of a run, and let it go on if it was stopped or ended. Administrators of " +
			"a team raise runs within the terms of their tenant",
		Says: "The run was raised.",
	}, {
		Pattern: "POST /api/runs/{id}/end", Team: access.TeamAdmin,
		Takes: web.Always, Does: web.DoWith(h.end),
		Summary: "End a run: its next calls are refused with run_ended. With now=true calls in progress are cut",
		Says:    "The run was ended.",
	}})
}

// State is what a run does.
type State string

// The states.
const (
	Running State = "RUNNING" // it has calls under way
	Waiting State = "WAITING" // it has none now
	Stopped State = "STOPPED" // its calls are refused
	Ended   State = "ENDED"   // somebody ended it
	Over    State = "OVER"    // nothing was asked for in it for too long
)

// Names returns the names of all states.
func (State) Names() []string {
	return []string{string(Running), string(Waiting), string(Stopped), string(Ended), string(Over)}
}

// amountsView are amounts of a run as JSON.
type amountsView struct {
	Cost     prices.Amount `json:"cost"`
	Tokens   int64         `json:"tokens"`
	Requests int64         `json:"requests"`
}

func viewAmounts(a budget.Amounts) amountsView {
	return amountsView{prices.Amount(a[budget.Cost]), a[budget.Tokens], a[budget.Requests]}
}

// limitsView are the limits of a run as JSON; 0 is none.
type limitsView struct {
	amountsView
	Time        schema.Duration `json:"time"`
	Concurrency int64           `json:"concurrency,omitzero"`
}

// RunView is a run as JSON.
type RunView struct {
	ID       string      `json:"id"`
	Name     string      `json:"name" doc:"The id that the client sent; a long one as its hash."`
	Sign     string      `json:"sign,omitzero" doc:"What names the run in its requests."`
	Key      string      `json:"key,omitzero"`
	Tenant   string      `json:"tenant,omitzero"`
	User     string      `json:"user,omitzero"`
	State    State       `json:"state"`
	Reason   string      `json:"reason,omitzero" doc:"Why its calls are refused."`
	Code     string      `json:"code,omitzero" doc:"The code of the error of its calls."`
	Started  time.Time   `json:"started"`
	Last     time.Time   `json:"last" doc:"When something was last asked for in it."`
	Model    string      `json:"model,omitzero" doc:"Of its latest call."`
	UnderWay int         `json:"underWay" doc:"Its calls in progress at the asked gateway."`
	Agents   int         `json:"agents" doc:"How many sub-agents were seen."`
	Currency string      `json:"currency"`
	Used     amountsView `json:"used"`
	Reserved amountsView `json:"reserved"`
	Limits   limitsView  `json:"limits" doc:"As they are now, with raised amounts; 0 is none."`
	Raised   limitsView  `json:"raised"`
	Loop     *loopView   `json:"loop,omitzero" doc:"The rule about loops that its latest call broke."`
}

// view shows a run.
func (g *Governor) view(r *run) RunView {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.usage()
	terms := a.Terms()
	v := RunView{
		ID: r.id, Name: r.name, Sign: r.sign, Key: r.owner, Tenant: r.tenant, User: r.user, State: Waiting,
		Started: a.Began(), Last: a.Used(), Model: r.model, Currency: g.options.Currency(),
		Used:   viewAmounts(r.rested.Spent()),
		Limits: limitsView{viewAmounts(terms.Bounds(r.limits.Amounts())), r.limits.Time, r.limits.Concurrency},
		Raised: limitsView{amountsView: viewAmounts(terms.Raised), Time: schema.Duration(terms.Longer)},
	}
	if r.limits.Time > 0 {
		v.Limits.Time += schema.Duration(terms.Longer)
	}
	if r.active != nil {
		spent, reserved := r.account.Figures()
		v.Used, v.Reserved = viewAmounts(spent), viewAmounts(reserved)
		v.UnderWay, v.Agents = len(r.underWay), len(r.agents)
		if r.loop != nil {
			v.Loop = &loopView{*r.loop, r.looped}
		}
	}
	v.Code, v.Reason = r.stoppedBy()
	switch {
	case terms.IsEnded:
		v.State, v.Code, v.Reason = Ended, codeEnded, ""
	case v.Code != "" || terms.Looped > terms.Lifted:
		v.State = Stopped
	case v.UnderWay > 0 || v.Reserved.Requests > 0: // here, or at another gateway
		v.State = Running
	}
	return v
}

// eachView calls visit with all runs that are not over, and whether requests of each reached this gateway.
func (g *Governor) eachView(visit func(v *RunView, isOurs bool)) {
	now := time.Now()
	for _, r := range g.every() {
		if !r.isOver(now, g.idle()) { // otherwise it is forgotten in a moment
			v := g.view(r)
			visit(&v, r.reachedUs())
		}
	}
}

// reachedUs reports whether a request of the run reached this gateway.
func (r *run) reachedUs() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isOurs
}

// listQuery chooses runs.
type listQuery struct {
	web.PageQuery
	State  State     `json:"state" empty:"true"`
	Key    string    `json:"key"`
	Tenant string    `json:"tenant"`
	Search string    `json:"search" doc:"A part of the id, name, key, tenant, user or model, in any case."`
	Since  time.Time `json:"since" empty:"true" doc:"Adds runs that are over, of the last 8 days, that began since."`
	Sort   sorting   `json:"sort" empty:"true" doc:"The greatest first; last where it is left out."`
}

// sorting is an order of runs.
type sorting string

// Names returns the names of all orders.
func (sorting) Names() []string { return []string{"last", "started", "cost", "tokens", "requests"} }

func (s sorting) compare(a, b *RunView) int {
	switch s {
	case "started":
		return b.Started.Compare(a.Started)
	case "cost":
		return cmp.Compare(b.Used.Cost, a.Used.Cost)
	case "tokens":
		return cmp.Compare(b.Used.Tokens, a.Used.Tokens)
	case "requests":
		return cmp.Compare(b.Used.Requests, a.Used.Requests)
	}
	return b.Last.Compare(a.Last)
}

func (q *listQuery) includes(v *RunView) bool {
	if q.State != "" && q.State != v.State || q.Key != "" && q.Key != v.Key || q.Tenant != "" && q.Tenant != v.Tenant {
		return false
	}
	text := strings.ToLower(strings.Join([]string{v.ID, v.Name, v.Key, v.Tenant, v.User, v.Model}, "\n"))
	return strings.Contains(text, strings.ToLower(q.Search))
}

// check reports an unknown state or order.
func (q *listQuery) check() error {
	for _, one := range [...]struct {
		path, name string
		known      []string
	}{{"state", string(q.State), q.State.Names()}, {"sort", string(q.Sort), q.Sort.Names()}} {
		if one.name != "" && !slices.Contains(one.known, one.name) {
			return web.BadInput(one.path, "field.unknown_name", "noun", one.path, "name", web.Shorten(one.name),
				"known", strings.Join(one.known, ", "))
		}
	}
	return nil
}

func (h *handler) list(c *web.Call, q *listQuery) ([]RunView, error) {
	views := []RunView{}
	if err := q.check(); err != nil || h.governor == nil {
		return views, err
	}
	sees, known := h.sees(c), map[string]bool{}
	add := func(v *RunView) {
		if sees(v) && q.includes(v) {
			views = append(views, *v)
		}
	}
	if h.governor.meetOthers(c.Context(), time.Now()) != nil {
		c.Say("The store of runs does not answer: runs of other gateways may be missing.")
	}
	h.governor.eachView(func(v *RunView, _ bool) {
		known[v.ID+v.Started.UTC().Truncate(time.Second).String()], known[v.ID] = true, true
		add(v)
	})
	if !q.Since.IsZero() {
		past, err := h.governor.past(c.Context(), q.Since, known)
		if err != nil {
			c.Say("The store of runs does not answer: runs that are over may be missing.")
		}
		for i := range past {
			add(&past[i])
		}
	}
	slices.SortStableFunc(views, func(a, b RunView) int { return q.Sort.compare(&a, &b) })
	return views, nil
}

// past returns the runs that the ledger has and that are not known any more.
func (g *Governor) past(ctx context.Context, since time.Time, known map[string]bool) ([]RunView, error) {
	type life struct {
		id    string
		start int64
	}
	sums := map[life]*RunView{}
	err := g.book.EachRun(ctx, since, func(row *quota.Row) {
		id := publicID(budget.RunName(&row.Key))
		if row.Key.User == quota.Overflow || known[id+row.Start.UTC().String()] {
			return
		}
		v := sums[life{id, row.Start.Unix()}]
		if v == nil {
			v = &RunView{
				ID: id, Name: row.Key.User, Key: row.Key.APIKey, Tenant: row.Key.Tenant, State: Over,
				Started: row.Start, Last: row.Start, Currency: g.options.Currency(),
			}
			sums[life{id, row.Start.Unix()}] = v
		}
		v.Used.Cost = v.Used.Cost.Plus(prices.Amount(row.Cost))
		v.Used.Tokens += row.Tokens
		v.Used.Requests += row.Requests
	})
	views := make([]RunView, 0, len(sums))
	for _, v := range sums {
		views = append(views, *v)
	}
	return views, err
}

// sees returns whether the caller may see a run. People without a role in the whole gateway see the
// runs of the tenants that they lead, and of their own keys.
func (h *handler) sees(c *web.Call) func(*RunView) bool {
	if c.Scope.All {
		return func(*RunView) bool { return true }
	}
	own, me := map[string]bool{}, c.Who.Owner().ID()
	for _, key := range h.core.Credentials.Keys.List() {
		own[key.ID] = key.Owner.IsSet() && key.Owner.ID() == me
	}
	return func(v *RunView) bool {
		return c.Scope.Includes(v.Tenant) && (own[v.Key] || c.Who.In(v.Tenant).Role >= access.TeamAdmin)
	}
}

// find returns the run in the path.
func (h *handler) find(c *web.Call) (*run, error) {
	id := c.PathValue("id")
	unknown := web.NotFound(say.New("run.unknown", "id", web.Shorten(id)).About("id"))
	if h.governor == nil {
		return nil, unknown
	}
	r := h.governor.byPublicID(id)
	if r == nil { // another gateway may know it; if that cannot be found out, nobody knows it here
		_ = h.governor.meetOthers(c.Context(), time.Now())
		r = h.governor.byPublicID(id)
	}
	if r == nil {
		return nil, unknown
	}
	_ = r.latest().Refresh() // the figures of this gateway are shown otherwise
	if v := h.governor.view(r); !h.sees(c)(&v) {
		return nil, unknown
	}
	return r, nil
}

// tenantOf is the web.Route.Concerns of the operations on a run.
func (h *handler) tenantOf(r *http.Request, reply any) string {
	if view, ok := reply.(RunView); ok {
		return view.Tenant
	}
	if h.governor == nil {
		return ""
	}
	if found := h.governor.byPublicID(r.PathValue("id")); found != nil {
		return h.governor.view(found).Tenant
	}
	return ""
}

func (g *Governor) byPublicID(id string) *run {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.byID[id]; r != nil {
		return g.wake(r.identity)
	}
	return nil
}

// latest returns the account of an active run.
func (r *run) latest() *budget.Account {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.account
}

// runDetail is a run with its calls.
type runDetail struct {
	RunView
	Calls []monitor.CallView `json:"calls" doc:"The latest, the newest first."`
}

// mostCalls is how many calls of a run are shown.
const mostCalls = 500

func (h *handler) show(c *web.Call) (runDetail, error) {
	r, err := h.find(c)
	if err != nil {
		return runDetail{}, err
	}
	page, err := monitor.Search(c, h.core.Recorder, &monitor.CallsQuery{Limit: mostCalls, Run: r.id}, nil)
	if !c.Scope.All {
		for i := range page.Calls {
			page.Calls[i].HideHosts()
		}
	}
	return runDetail{h.governor.view(r), web.NotNil(page.Calls)}, err
}

// mostLonger bounds the time that all raises of a run together add, so that the sum can be kept.
const mostLonger = 100 * 366 * 24 * time.Hour

// raiseRequest has the amounts that a run gets in addition.
type raiseRequest struct {
	Cost     prices.Amount   `json:"cost,omitzero"`
	Tokens   int64           `json:"tokens,omitzero" minimum:"0" maximum:"1000000000000000"`
	Requests int64           `json:"requests,omitzero" minimum:"0" maximum:"1000000000000000"`
	Time     schema.Duration `json:"time,omitzero"`
}

// Docs says more about some members than a tag has room for.
func (raiseRequest) Docs() map[string]string {
	return map[string]string{
		"cost": "An amount of money to add, in the currency of prices. Without any amount only a stop is lifted.",
	}
}

func (h *handler) raise(c *web.Call, by *raiseRequest) (RunView, error) {
	r, err := h.find(c)
	if err != nil {
		return RunView{}, err
	}
	limits := budget.RunLimits{Cost: by.Cost, Tokens: by.Tokens, Requests: by.Requests, Time: by.Time}
	limits.Check(func(path string, why say.Sentence) { err = web.Invalid(path, why) })
	if err != nil {
		return RunView{}, err
	}
	refuse := func(*budget.Terms) error { return nil }
	if !c.Scope.All {
		refuse = h.refuseRaise(r, limits)
	}
	if c.DryRun {
		terms := r.latest().Terms()
		return h.governor.view(r), refuse(&terms)
	}
	var refusal error
	err = h.governor.decide(r, func(t *budget.Terms) bool {
		if refusal = refuse(t); refusal != nil {
			return false
		}
		t.Raised = t.Raised.Plus(limits.Amounts())
		t.Longer = min(t.Longer, mostLonger) + limits.Time.Std()
		t.IsEnded, t.IsCut, t.IsByOperator = false, false, false
		t.Lifted = t.Looped
		return true
	})
	if refusal != nil {
		return RunView{}, refusal
	}
	c.Done("run %s raised by %s", r.id, c.Who.String())
	h.report(c, err)
	return h.governor.view(r), nil
}

// refuseRaise returns a function that returns why an administrator of a team may not raise a run that has
// some terms. The function takes no lock.
func (h *handler) refuseRaise(r *run, by budget.RunLimits) func(*budget.Terms) error {
	r.mu.Lock()
	limits, tenant := r.limits, r.tenant
	r.mu.Unlock()
	doc, _ := h.core.Control.Document()
	most := tenantLimits(doc, tenant).Or(h.governor.options.Settings.Limits)
	return func(t *budget.Terms) error {
		if t.IsEnded && t.IsByOperator {
			return &web.RequestError{Status: http.StatusForbidden, Why: say.New("run.kept_ended")}
		}
		now, longest := t.Bounds(limits.Amounts()), time.Duration(0)
		if limits.Time > 0 {
			longest = limits.Time.Std() + t.Longer
		}
		for _, one := range [...]struct {
			path             string
			now, more, bound int64
		}{
			{"cost", now[budget.Cost], int64(by.Cost), int64(most.Cost)},
			{"tokens", now[budget.Tokens], by.Tokens, most.Tokens},
			{"requests", now[budget.Requests], by.Requests, most.Requests},
			{"time", int64(longest), int64(by.Time), int64(most.Time)},
		} {
			if one.more > 0 && one.bound > 0 && one.more > one.bound-one.now {
				return web.BadInput(one.path, "run.beyond_tenant", "tenant", tenant)
			}
		}
		return nil
	}
}

// tenantLimits returns the limits of runs in the terms of a tenant.
func tenantLimits(doc *config.Document, name string) budget.RunLimits {
	for i := range doc.Security.Tenants {
		if doc.Security.Tenants[i].Name == name {
			return doc.Security.Tenants[i].Runs
		}
	}
	return budget.RunLimits{}
}

// endQuery says how a run is ended.
type endQuery struct {
	Now bool `json:"now" doc:"Cuts the calls in progress, too."`
}

func (h *handler) end(c *web.Call, q *endQuery) (RunView, error) {
	r, err := h.find(c)
	if err != nil {
		return RunView{}, err
	}
	if c.DryRun {
		return h.governor.view(r), nil
	}
	err = h.governor.decide(r, func(t *budget.Terms) bool {
		t.IsByOperator = t.IsEnded && t.IsByOperator || c.Scope.All
		t.IsEnded, t.IsCut = true, t.IsCut || q.Now
		return true
	})
	if q.Now {
		h.governor.cut(r)
	}
	c.Done("run %s ended by %s", r.id, c.Who.String())
	h.report(c, err)
	return h.governor.view(r), nil
}

// report adds to the reply that a decision is not kept yet if err is not nil.
func (h *handler) report(c *web.Call, err error) {
	if err != nil {
		h.core.Log.Warn("a decision about a run of an agent is not told to all yet", "error", err)
		c.Say("Done at this gateway. It is not written or told to the other gateways yet; this is tried again.")
	}
}

// decide changes the terms of a run, for this gateway, its next process and the other gateways. If change
// returns false, the run stays as it is.
func (g *Governor) decide(r *run, change func(*budget.Terms) bool) error {
	if g.options.IsPolled { // the latest decision of another gateway
		_ = g.meetOthers(context.Background(), time.Now())
	}
	isMade := false
	err := r.latest().Decide(func(t *budget.Terms) bool { isMade = change(t); return isMade })
	if !isMade {
		return nil
	}
	r.mu.Lock()
	r.letGoOn()
	r.followed = r.account.Terms()
	r.mu.Unlock()
	return cmp.Or(err, g.publishDecision(r), g.save(time.Now()))
}

// cut ends the calls of a run that are in progress here.
func (g *Governor) cut(r *run) {
	cause := final(r, codeEnded, say.New("run.ended", "how", g.how(r, "")))
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.underWay {
		if running := t.record.Running; running != nil {
			running.Stopper.Stop(cause)
		}
	}
}

// visit tells other wings of the runs under way.
func (g *Governor) visit(visit func(wing.Run)) {
	for _, r := range g.all() {
		if !r.reachedUs() { // the gateways that serve it report it
			continue
		}
		spent, _ := r.latest().Figures()
		owner := ""
		if r.owner != "" {
			owner = allowance.KeyName(r.owner)
		}
		told := wing.Run{ID: r.id, Owner: owner, Cost: prices.Amount(spent[budget.Cost])}
		r.mu.Lock()
		if r.loop != nil {
			told.Loop, told.LoopsSince = r.loop.Rule.String(), r.looped
		}
		r.mu.Unlock()
		visit(told)
	}
}
