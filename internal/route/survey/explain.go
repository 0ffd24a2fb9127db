package survey

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/plan"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// Explanation describes how a request would fare if it came now.
type Explanation struct {
	// PassedOver are the models that could not serve the request, before the one that
	// would: the one that was asked for, and fallbacks.
	PassedOver []PassedModel
	// Pool is nil where no instance serves the model.
	Pool       *routing.Pool
	Candidates []Candidate
	// Pick is the instance that would be called; nil where none would, or where the
	// strategy picks at random.
	Pick *backend.Instance
	// ServiceLimit and ModelLimit are the decisions of the limits of the service type
	// and of the model.
	ServiceLimit, ModelLimit ratelimit.Decision
	// Expected holds the strategy's estimates of the ready instances, beginning with its
	// pick; nil where it has none, or the request is not known.
	Expected []balance.Expected
	// Split is the part of each instance in a request that several would share; nil where
	// one gets all of it, or the request is not known.
	Split []PlannedPiece
	// Hedge says when a second instance would be asked; nil where none would be, however
	// long the first takes, or the request is not known.
	Hedge *PlannedHedge
	// Waiting is how many requests wait for a slot, and ByClass how many of each class. Queue
	// is the outlook of the request; its Position is 0 where it would not wait.
	Waiting int
	ByClass queue.Lengths
	// Target is within what time the request wants its first token, 0 where it does not say.
	Target time.Duration
	Queue  queue.Outlook
	// Refusal is the error that the caller would get, nil where the request would
	// reach a backend.
	Refusal *schema.Error
}

// Candidate is an instance that serves the model.
type Candidate struct {
	*backend.Instance
	Obstacle backend.Obstacle
	// Reason says why the instance would not be picked; it says nothing where it might be.
	Reason say.Sentence
	// Chance is the instance's share among the possible picks, by weight.
	Chance float64
	// Translated says that the backend does not have the door itself: the request would
	// be translated.
	Translated bool
}

// PlannedPiece is the part of a request that an instance would get: the number of its
// inputs, and roughly of their tokens.
type PlannedPiece struct {
	Instance *backend.Instance
	Inputs   int
	Tokens   int64
}

// PlannedHedge says when a second instance would be asked. After is 0 while too few calls
// of the size were answered to know. Left is the number of calls that may get a second one
// now.
type PlannedHedge struct {
	After time.Duration
	Left  int
}

// PassedModel is a model that could not serve a request, and why.
type PassedModel struct {
	Model  string
	Reason say.Sentence
}

// Subject is the request that Explain is about.
type Subject struct {
	Door   schema.Door
	Model  string
	Client netip.Addr
	// Request is the caller's request, nil where only the rest is known.
	Request *schema.Request
	// Speaks translates for the callers of the door; nil where that is not needed, or not
	// known before the request comes.
	Speaks *dialect.Client
	// Header holds the caller's headers, and Tenant and KeyID say who it would be.
	Header        http.Header
	Tenant, KeyID string
	// MayCall reports whether the caller's key may use an instance; nil if it may use all.
	MayCall func(id string) bool
	// Class is how urgent it would be; NoClass means the class of the service type. Target is
	// within what time it wants its first token, 0 where it does not say.
	Class  schema.Class
	Target time.Duration
}

// Explain explains how a request of a door would fare. It reads the same survey and asks
// the same limits as Do, up to the call, and consumes nothing. Where a fallback would take
// over, it explains that one. A key that may not use the
// model is not refused.
func Explain(table *routing.Table, q Subject, now time.Time) Explanation {
	asked := ExplainModel(table, q, now)
	if asked.Refusal == nil && asked.isReady() {
		return asked
	}
	var because error
	if asked.Refusal != nil {
		because = asked.Refusal
	}
	why, known := RefusalReason(because)
	if !known {
		return asked
	}
	passed := []PassedModel{{q.Model, asked.obstacle()}}
	for _, fallback := range table.Service(q.Door.Service()).Fallbacks(q.Model, why) {
		q.Model = fallback.Model
		x := ExplainModel(table, q, now)
		if x.Refusal == nil && x.isReady() {
			x.PassedOver = passed
			return x
		}
		passed = append(passed, PassedModel{fallback.Model, x.obstacle()})
	}
	return asked
}

// isReady reports whether an instance could take the request at once.
func (x *Explanation) isReady() bool {
	return x.Waiting == 0 && slices.ContainsFunc(x.Candidates, func(c Candidate) bool {
		return c.Obstacle == backend.NoObstacle
	})
}

// obstacle says why a model that is not ready cannot serve the request at once.
func (x *Explanation) obstacle() say.Sentence {
	if x.Refusal != nil {
		return x.Refusal.Said
	}
	return say.New("explain.slots")
}

// ExplainModel is Explain without fallbacks.
func ExplainModel(table *routing.Table, q Subject, now time.Time) Explanation {
	service := table.Service(q.Door.Service())
	x := Explanation{Target: q.Target}
	x.Pool = service.Find(q.Model)
	if x.Pool == nil {
		x.Refusal = account.UnknownModel(table, q.Door.Service(), q.Model, nil)
		return x
	}
	x.Waiting, x.ByClass = x.Pool.Queue.Len(), x.Pool.Queue.Lengths()
	x.Queue.Class = q.Class.Or(service.Policy.Priority).Or(schema.Normal)
	x.ServiceLimit = service.Limiter.Peek(q.Client, now)
	x.ModelLimit = x.Pool.Limiter.Peek(q.Client, now)
	var s Survey
	excluded, reasons := x.exclude(&q)
	s.AskAll(x.Pool, excluded, now)
	x.Candidates = s.candidates(q.Door, reasons)
	x.Refusal = x.refusal(&s, &q)
	if x.Pool.Service.Policy.Queue.Size > 0 && s.MayComeFree() && (len(s.Ready) == 0 || !x.Pool.Queue.Quiet()) {
		x.Queue = x.Pool.Outlook(q.caller(), x.Queue.Class)
	}
	if len(s.Ready) > 0 && x.Refusal == nil {
		x.choose(s.Ready, &q, now)
		x.split(s.Ready, &q, now)
		x.hedge(&q)
	}
	return x
}

// caller names the caller in queues; see access.Caller.
func (q *Subject) caller() string {
	if q.KeyID != "" {
		return q.KeyID
	}
	return q.Client.String()
}

// choose says which of the instances that are ready the strategy would pick.
func (x *Explanation) choose(ready []*backend.Instance, q *Subject, now time.Time) {
	asked := balance.Asked{Client: q.Client, Request: q.Request, Header: q.Header, Now: now}
	ready = plan.Preferred(x.Pool, ready, x.Pool.Soonest != nil, true, now)
	if x.Pool.Soonest != nil {
		asked.Scope = x.Pool.Service.Policy.PromptSharing.Scope(q.Tenant, q.KeyID)
		asked.Goal, asked.Caller = x.Pool.Service.Policy.LeastTimeTo, q.caller()
		if x.Expected = x.Pool.Soonest.Explain(ready, asked); len(x.Expected) > 0 {
			x.Pick = x.Expected[0].Instance
			return
		}
	}
	x.Pick = x.Pool.Balancer.Peek(ready, asked)
}

// split says how the request would be split.
func (x *Explanation) split(ready []*backend.Instance, q *Subject, now time.Time) {
	if !x.Pool.Service.Policy.Split.On() || q.Request == nil || q.Speaks != nil || x.Waiting > 0 {
		return
	}
	for _, p := range plan.Split(x.Pool, ready, q.Request, now) {
		x.Split = append(x.Split, PlannedPiece{p.At, p.To - p.From, p.Tokens()})
	}
}

// hedge says when a second instance would be asked. Pieces of a request are not hedged.
func (x *Explanation) hedge(q *Subject) {
	if q.Request == nil || x.Pick == nil || x.Split != nil || !plan.MayHedge(x.Pool, q.Request) {
		return
	}
	after, _ := x.Pool.Watch.After(x.Pick.ID, plan.Work(q.Request))
	x.Hedge = &PlannedHedge{after, x.Pool.Watch.Left()}
}

// refusal returns the first reason to refuse the request, in the order of Do's
// checks.
func (x *Explanation) refusal(s *Survey, q *Subject) *schema.Error {
	if err := s.Refusal(x.Pool.IsFull(x.Queue.Class, q.caller)); err != nil {
		return err
	}
	if !x.ServiceLimit.Allowed {
		return account.OverLimit(x.ServiceLimit, account.LimitOfService(x.Pool.Service.Type))
	}
	if !x.ModelLimit.Allowed {
		return account.OverLimit(x.ModelLimit, account.LimitOfModel(x.Pool.Model))
	}
	return nil
}

// exclude excludes the instances that the key may not use, that cannot hold the prompt, have no answer to
// requests of a door, or refuse the request. The reasons are by position, zero for the instances that are not excluded.
func (x *Explanation) exclude(q *Subject) (*Exclusions, []say.Sentence) {
	excluded, reasons := new(Exclusions), make([]say.Sentence, len(x.Pool.Instances))
	if q.MayCall != nil {
		excluded.Forbid(x.Pool, q.MayCall)
	}
	forbidden := slices.Clone(excluded.Untranslatable)
	if narrowest, _ := x.Pool.Narrowest(); q.Request != nil && narrowest > 0 {
		if prompt, isLimited := estimate.PromptOf(q.Request, nil, true); isLimited {
			excluded.Fit(x.Pool, prompt, 0, false)
		}
	}
	for n, i := range x.Pool.Instances {
		if Contains(forbidden, i) {
			continue
		}
		err, reason := i.Target.RefuseDoor(q.Door), say.New("instance.no_door", "door", q.Door)
		if err == nil && q.Request != nil && (q.Speaks != nil || q.Door.IsUnified()) {
			err, reason = i.Target.RefuseRequest(q.Request, q.Speaks), say.New("instance.dialect")
		}
		if err == nil || i.Fault.Is() {
			continue
		}
		known := TranslationError(err)
		if known.Code == schema.CodeMemberNotAllowed {
			reason = say.New("instance.member", "member", *known.Param)
		}
		reasons[n] = reason
		excluded.Untranslatable = append(excluded.Untranslatable, i)
		excluded.Reason = cmp.Or(excluded.Reason, known)
	}
	for _, i := range excluded.Narrow {
		reasons[i.Position] = say.New("instance.window", "window", i.Sizes().Window)
	}
	for _, i := range forbidden {
		reasons[i.Position] = say.New("instance.key")
	}
	return excluded, reasons
}

// candidates lists the instances of the pool, with reasons for people who may
// manage the instances. Reasons has those of the excluded ones.
func (s *Survey) candidates(door schema.Door, reasons []say.Sentence) []Candidate {
	var total int64
	for _, i := range s.Ready {
		total += i.Share
	}
	all := make([]Candidate, len(s.pool.Instances))
	for n, i := range s.pool.Instances {
		all[n] = Candidate{Instance: i, Obstacle: s.Obstacles[n]}
		if reasons[n].Is() {
			all[n].Obstacle, all[n].Reason = backend.Disabled, reasons[n]
			continue
		}
		all[n].Translated = !door.IsUnified() && i.Target.Native(door) == nil
		switch s.Obstacles[n] {
		case backend.NoObstacle:
			all[n].Chance = float64(i.Share) / float64(total)
			all[n].Reason = residenceOf(i, s.Now)
		case backend.Faulty:
			all[n].Reason = i.Fault
		default:
			all[n].Reason = i.WhyNot(s.Obstacles[n], s.Now)
		}
	}
	return all
}

// residenceOf says to people where the model of an instance is. It says nothing where the
// model is in memory or nobody keeps it there.
func residenceOf(i *backend.Instance, now time.Time) say.Sentence {
	model := i.Resident()
	if model == nil {
		return say.Sentence{}
	}
	switch known := model.Residence(now); known.State {
	case "loaded":
		return say.Sentence{}
	case "loading":
		return say.New("instance.loading", "left", known.Left)
	default:
		return say.New("instance.asleep", "state", known.State, "takes", known.Loads)
	}
}
