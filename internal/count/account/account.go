// Package account decides whether a request is let in: who asks, whether the limits of the
// key, the tenant, the service type and the model allow it, whether the budgets have room,
// and what is counted in the end. It reads the compiled table and looks at no instance:
// package proxy routes what was admitted.
//
// A request that is refused later, before a backend or a step answers it, gives everything
// back and costs nothing.
package account

import (
	"context"
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
)

// Lender owns the memory of a request.
type Lender interface {
	// TakeBack is called once, when the request is not read any more.
	TakeBack()
}

// Account is one request on its way through the gateway, with what it took when it was
// let in. Every step of its way shares it. It must not be used concurrently.
type Account struct {
	// Asks is what the client asks for. It is lent: its owner neither changes it nor uses
	// its memory again until Return, after which it is nil.
	Asks  *schema.Request
	Owner Lender
	// Client is the dialect of a client that does not speak the unified one, nil where the
	// request is unified or cannot be translated.
	Client *dialect.Client
	Caller *access.Caller
	// Class is how urgent the request is while it waits; see Classify.
	Class schema.Class
	// NoStore says that the client wants nothing of the answer to be kept.
	NoStore bool
	Record  *calls.Record
	// Table is the configuration in force when the request had been read.
	Table *routing.Table

	// Pool is that of the model that was asked for, nil where no instance serves it. Model
	// is the configured name of the model that serves the request, empty until it is known,
	// and Price is what it costs, nil for nothing. A model that takes over replaces both.
	Pool  *routing.Pool
	Model string
	Price *prices.Price

	limits  limits
	limited bool // the limits have counted the request
	taken   taken
	lost    lost // see Spend
	// barred is why the model that was asked for may not serve the request, although one
	// that takes over from it may.
	barred  func() error
	ticket  quota.Ticket // the request in the quota ledger, if it is counted there
	counted bool
	settled bool // see Settle
}

// Find looks up the model that the request asks for. It is called once, before Admit.
func (r *Account) Find() {
	if r.Pool = r.service().FindBytes(r.Asks.Model); r.Pool != nil {
		r.Model = r.Pool.Model
	}
}

// user returns who the request is made for: the one whom a trusted header names, or else the
// one whom the body names.
func (r *Account) user() []byte {
	if r.Caller.User != "" {
		return []byte(r.Caller.User)
	}
	return r.Asks.User
}

// Classify finds the class of the request, unless whoever made it has set one: that which the
// header asks for, or else the priority of its key and its tenant, or that of the service
// type. The priority is also the most urgent class for which a key may ask. Where callers need
// no key, the header alone decides.
func (r *Account) Classify() error {
	if r.Class != schema.NoClass {
		return nil
	}
	service, grant := r.service(), r.Caller.Grant
	if len(r.Caller.Header[ClassHeader]) > 0 || service != nil && service.Policy.Priority != schema.NoClass || grant != nil && grant.Priority != schema.NoClass {
		return r.classify()
	}
	r.Class = schema.Normal
	return nil
}

// RefuseModel returns an error unless the caller's key is good for the name that the
// request asks for or, if that is an alias, for the model that it stands for. Where a pattern
// leads to the model, the key must be good for the model.
func (r *Account) RefuseModel() error {
	if r.Caller.Grant == nil {
		return nil
	}
	err := r.Caller.Grant.RefuseModel(r.Asks.Service, r.Asks.Model)
	if err == nil && r.service().IsRewritten(string(r.Asks.Model)) {
		pool := r.service().FindBytes(r.Asks.Model)
		err = r.Caller.Grant.RefuseModel(r.Asks.Service, []byte(pool.Model))
	}
	if err == nil {
		return nil
	}
	if pool := r.service().FindBytes(r.Asks.Model); pool != nil && r.Caller.MayUse(r.Asks.Service, pool.Model) {
		return nil
	}
	return err
}

// RefuseServed returns an error unless the caller may use a model that serves the request: the one
// that was asked for, which RefuseModel is about, one that takes over from it, or else one that
// the key is good for by itself.
func (r *Account) RefuseServed(model string) error {
	if r.Pool != nil && r.Pool.Model == model {
		return nil
	}
	for _, to := range r.takeovers() {
		if to.Model == model && r.MayUse(to) {
			return nil
		}
	}
	if err := r.Caller.Grant.RefuseModel(r.Asks.Service, []byte(model)); err != nil {
		return err
	}
	return nil
}

// RefuseUnknown returns an error if there is neither the model that the request asks for nor
// one that takes over from it.
func (r *Account) RefuseUnknown() error {
	if r.Pool == nil && len(r.takeovers()) == 0 {
		return r.unknownModel()
	}
	return nil
}

// Admit counts the request in all limits and reserves what it may use of the budgets. If
// it returns an error, GiveBack gives back what was taken before the refusal.
func (r *Account) Admit(ctx context.Context) error {
	if err := r.RefuseUnknown(); err != nil {
		return err
	}
	now := time.Now()
	if err := r.takeAllowance(ctx, now); err != nil {
		return err
	}
	if err := r.takeLimits(now); err != nil {
		return err
	}
	r.limited = true
	r.Record.Limited = r.Record.At(now)
	return nil
}

// IsBarred reports whether RefuseAsked returns an error.
func (r *Account) IsBarred() bool { return r.barred != nil }

// RefuseAsked returns an error if the model that was asked for may not serve the request,
// although one that takes over from it may: its own limit is reached, or the budgets have
// room only for a cheaper one.
func (r *Account) RefuseAsked() error {
	if r.barred == nil {
		return nil
	}
	return r.barred()
}

// IsRenamed reports whether the model is another one than the caller names: the name is an
// alias, or a fallback took over.
func (r *Account) IsRenamed() bool { return string(r.Asks.Model) != r.Model }

// Asked returns the name of the model that the caller gave.
func (r *Account) Asked() string {
	if !r.IsRenamed() {
		return r.Model
	}
	return string(r.Asks.Model)
}

// MayUse reports whether the caller may use a fallback.
func (r *Account) MayUse(to routing.Fallback) bool {
	return r.Caller.MayUse(r.Asks.Service, to.Name) || r.Caller.MayUse(r.Asks.Service, to.Model)
}

// Count counts the request in the quota ledger for the model that serves it, in the windows
// in which it arrived. It is called once, when it is certain that the request is answered
// or reaches an instance.
func (r *Account) Count(ledger *quota.Ledger) error {
	if r.Asks.Uncounted || ledger == nil || !ledger.On() {
		return nil
	}
	err := ledger.Admit(&r.ticket, quota.Subject{
		Tenant: r.Caller.Tenant, APIKey: r.Caller.KeyID, User: r.user(), Service: r.Asks.Service, Model: r.Model,
	}, r.Record.Started)
	if err != nil {
		return ledgerUnavailable()
	}
	r.counted = true
	return nil
}

// Leaves counts the request in the budgets, because it leaves for a backend now.
func (r *Account) Leaves() { r.taken.charge.Count() }

// Settle ends the accounts of the request; only the first call has an effect. The
// ledger gets what was reported: a complete answer of a service type that reports no
// tokens uses none, and of an incomplete one it is what was reported so far. A request that
// nobody answered cost nothing.
func (r *Account) Settle(reported schema.Usage, complete, answered bool) {
	counted := reported
	counted.Known = counted.Known || complete && !r.Record.Service.ReportsTokens()
	if r.lost.reported.Known {
		counted = addUsage(counted, r.lost.reported)
		counted.Known = true
	}
	if r.settled || !r.taken.counted {
		if r.counted {
			r.ticket.Settle(counted)
		}
		return
	}
	r.settled = true
	spent := r.taken.spent(r.taken.again.lastOf(reported), complete, answered)
	r.Record.Cost = r.taken.costOf(r.Price, spent, answered).Plus(r.lost.cost)
	spent = addUsage(spent, r.lost.used)
	r.ticket.SettleCost(counted, int64(r.Record.Cost))
	r.taken.use.Settle(spent.Total, time.Now())
	r.taken.charge.Settle(spent, int64(r.Record.Cost))
}

// GiveBack gives back what the request took from limits and budgets, because nobody
// answers it. Further calls have no effect.
func (r *Account) GiveBack() {
	now := time.Now()
	r.limits.giveBack(now)
	r.taken.use.GiveBack(now)
	r.taken.charge.GiveBack()
}

// End ends the request, which was settled or given back, and returns what was lent.
func (r *Account) End() {
	if r.Caller.Grant != nil {
		r.taken.use.End()
	}
	r.Return()
}

// Return returns what the client asks for to its owner. Only the first call has an effect.
func (r *Account) Return() {
	owner := r.Owner
	r.Asks, r.Client, r.Owner = nil, nil, nil
	if owner != nil {
		owner.TakeBack()
	}
}

// IsMeasured reports whether the length of the answer matters to a limit or has a price.
func (r *Account) IsMeasured() bool { return r.taken.counted }

// Measure adds a part of the answer to what it is estimated to have used.
func (r *Account) Measure(part []byte) { r.taken.answer.Add(r.taken.door, part) }

// KeyLimits returns the states of the limits of the key and its tenant that have the least
// left.
func (r *Account) KeyLimits() (requests, tokens ratelimit.Decision) {
	return r.taken.use.Requests, r.taken.use.Tokens
}

// Limit returns the state of the limit of the service type or the model, if one applies.
func (r *Account) Limit() ratelimit.Decision { return r.limits.decision }

// service returns the service type of the request, nil where it is not configured.
func (r *Account) service() *routing.Service { return r.Table.Service(r.Asks.Service) }

// takeovers returns the models that may take over from the one that was asked for.
func (r *Account) takeovers() []routing.Fallback {
	if r.Pool != nil && !r.Pool.HasFallbacks {
		return nil
	}
	return r.service().Takeovers(string(r.Asks.Model))
}

// limits is what a request took from the rate limits of its service type and its
// model.
type limits struct {
	spent [2]ratelimit.Spent
	// decision is that of the limit that applies to the request, if any does. The
	// caller is told what remains of it.
	decision ratelimit.Decision
}

// The places in limits.spent.
const (
	ofService = iota
	ofModel
)

// take counts the request in a limit, and reports whether that allows it.
func (l *limits) take(place int, limiter *ratelimit.Limiter, client netip.Addr, now time.Time) bool {
	decision, spent := limiter.Take(client, now)
	l.spent[place] = spent
	if decision.Limited {
		l.decision = decision
	}
	return decision.Allowed
}

// LimitOfService names the rate limit of a service type in a refusal.
func LimitOfService(service schema.ServiceType) string { return "service/" + service.String() }

// LimitOfModel names the rate limit of a model in a refusal.
func LimitOfModel(model string) string { return "model/" + model }

// takeLimits counts the request in the limits of its service type and its model.
func (r *Account) takeLimits(now time.Time) error {
	l, service := &r.limits, r.service()
	if service == nil || !service.Policy.RateLimit.Enabled {
		return nil
	}
	if !l.take(ofService, service.Limiter, r.Caller.Addr, now) {
		return OverLimit(l.decision, LimitOfService(r.Asks.Service))
	}
	if r.Pool == nil || l.take(ofModel, r.Pool.Limiter, r.Caller.Addr, now) {
		return nil
	}
	refusal := OverLimit(l.decision, LimitOfModel(r.Pool.Model))
	if len(r.takeovers()) == 0 {
		reached := l.decision
		l.giveBack(now)
		l.decision = reached
		return refusal
	}
	r.barred = func() error { return refusal }
	return nil
}

// Move is a request that is counted in the limits of two models, until it is certain which of
// them serves it. The zero Move is of no request.
type Move struct {
	request *Account
	before  limits
}

// Move counts the request in the limit of another model as well, if that limit allows it. Keep
// or Undo must follow.
func (r *Account) Move(to *routing.Pool, now time.Time) (Move, bool) {
	if !r.limited {
		return Move{}, true
	}
	before := r.limits
	if !r.limits.take(ofModel, to.Limiter, r.Caller.Addr, now) {
		r.limits = before
		return Move{}, false
	}
	return Move{r, before}, true
}

// Keep gives back the count in the limit of the model before.
func (m *Move) Keep(now time.Time) {
	if m.request != nil {
		m.before.spent[ofModel].Return(now)
	}
}

// Undo gives back the count in the limit of the other model.
func (m *Move) Undo(now time.Time) {
	if r := m.request; r != nil {
		r.limits.spent[ofModel].Return(now)
		r.limits = m.before
	}
}

func (l *limits) giveBack(now time.Time) {
	for n := range l.spent {
		if left := l.spent[n].Return(now); left.Limited {
			l.decision = left
		}
	}
}

// Hold notes that the request waits for a slot, until Resume or GiveBack is called.
func (r *Account) Hold() {
	for n := range r.limits.spent {
		r.limits.spent[n].Hold()
	}
}

// Resume notes that the wait is over.
func (r *Account) Resume(now time.Time) {
	for n := range r.limits.spent {
		r.limits.spent[n].Use(now)
	}
}

// PeekLimit returns the state of the limit that would apply to a request that was
// refused before it was counted. Where the instances have limits of their own, it is
// that of the instance with the most remaining.
func PeekLimit(service *routing.Service, model []byte, client netip.Addr) ratelimit.Decision {
	if service == nil {
		return ratelimit.Decision{}
	}
	now := time.Now()
	found := service.Limiter.Peek(client, now)
	pool := service.FindBytes(model)
	if pool == nil || found.Limited {
		return found
	}
	found = pool.Limiter.Peek(client, now)
	for _, i := range pool.Instances {
		if own := i.Limiter.Peek(netip.Addr{}, now); own.Limited && (!found.Limited || own.Remaining > found.Remaining) {
			found = own
		}
	}
	return found
}

// Visit is a request that asks for something that is kept, such as a response that was
// made before. It counts as a request in the limits of its key, its tenant and its service
// type. It uses no tokens, and no budget counts it.
type Visit struct {
	// Use is what the request took from the limits of its key and its tenant, and Limit
	// what is left of that of its service type.
	Use   allowance.Use
	Limit ratelimit.Decision
}

// Begin counts the request in all limits, or in none if it returns an error. The service
// is nil where it is not configured.
func (v *Visit) Begin(service *routing.Service, caller *access.Caller) *schema.Error {
	now := time.Now()
	if caller.Grant != nil {
		if refusal := v.Use.Take(caller.Grant.Accounts, allowance.NoTokens, now); refusal != nil {
			return keyLimited(refusal)
		}
	}
	if service == nil {
		return nil
	}
	if v.Limit, _ = service.Limiter.Take(caller.Addr, now); !v.Limit.Allowed {
		v.Use.GiveBack(now)
		return OverLimit(v.Limit, LimitOfService(service.Type))
	}
	return nil
}

// End ends the request.
func (v *Visit) End() { v.Use.End() }
