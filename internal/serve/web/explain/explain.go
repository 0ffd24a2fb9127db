// Package explain shows the way that a request would take, as JSON.
package explain

import (
	"net/netip"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
)

// Explanation describes the way that a request would take, as JSON.
type Explanation struct {
	Service schema.ServiceType `json:"service"`
	// Door is the endpoint of the request.
	Door  schema.Door `json:"door"`
	Model string      `json:"model"`
	// ServedModel is the model with the instances that would be used. It differs from Model
	// if Model is an alias, or if a fallback would take over. It is empty if no instance
	// serves the model.
	ServedModel string `json:"servedModel"`
	// PassedOver are the models that could not serve the request, tried before the model
	// that would. All fields below are about the latter.
	PassedOver []passedModel     `json:"passedOver"`
	ClientIP   string            `json:"clientIp"`
	Strategy   *balance.Strategy `json:"strategy"`
	Candidates []candidateView   `json:"candidates"`
	// Pick is the identifier of the instance that would be called. It is null
	// where none would, and where the strategy picks at random.
	Pick *string `json:"pick"`
	// Tier is the tier of the instances that may be picked now; null where none may.
	Tier *int `json:"tier"`
	// Why gives the reason for the pick, in words.
	Why    string         `json:"why"`
	Said   []say.Sentence `json:"said,omitzero" doc:"The reason for the pick as codes and values."`
	Limits limits         `json:"limits"`
	Queue  queueView      `json:"queue"`
	// TTFTTargetMet says whether the first token is expected within TTFTTargetMs.
	TTFTTargetMs  float64      `json:"ttftTargetMs,omitzero" doc:"Within what time the request wants its first token."`
	TTFTTargetMet *bool        `json:"ttftTargetMet,omitzero"`
	Quota         Ledger       `json:"quota"`
	Refusal       *refusalView `json:"refusal"`
	// Split holds the part of each instance in a request that several would share.
	Split []splitView `json:"split,omitzero" doc:"What each instance would get of the request in the body, if shared."`
	// Hedge says when the gateway would ask a second instance.
	Hedge *hedgeView `json:"hedge,omitzero" doc:"When a second instance would be asked, if the request may be hedged."`
	// AnswerCache says that answers of the service type are kept for all callers.
	AnswerCache bool `json:"answerCache" doc:"Whether answers to deterministic requests are kept for the next one."`
	// SingleFlight says that equal requests in flight share one call.
	SingleFlight bool `json:"singleFlight" doc:"Whether equal deterministic requests of a tenant share one call."`
	// AskedBy is who asks, as management knows them, and Caller who would send the request.
	AskedBy AskedBy `json:"askedBy" doc:"You."`
	Caller  *Caller `json:"caller,omitzero" doc:"Who would send it, by keyId, or by a key or token in X-Api-Key."`
	// Run is the agent's run that the request would belong to.
	Run *Run `json:"run,omitzero" doc:"The agent's run that the request in the body would belong to."`
}

// AskedBy is the sender of a request for an explanation.
type AskedBy struct {
	Name    string  `json:"name" doc:"Of the token or of the person; open where security is off."`
	Role    string  `json:"role,omitzero" doc:"In the whole gateway."`
	Rule    string  `json:"rule,omitzero" doc:"The setting that gives a person the role."`
	Issuer  string  `json:"issuer,omitzero"`
	Subject string  `json:"subject,omitzero"`
	Tenants []Place `json:"tenants,omitzero" doc:"The roles of a person in tenants."`
}

// Place is the role of a person in a tenant.
type Place struct {
	Tenant string `json:"tenant"`
	Role   string `json:"role"`
	Rule   string `json:"rule" doc:"The setting that gives the role."`
}

// Caller is the sender of an explained request.
type Caller struct {
	KeyID   string        `json:"keyId"`
	Tenant  string        `json:"tenant"`
	Status  string        `json:"status,omitzero" doc:"ACTIVE, SLEEPING, EXPIRED, DISABLED, REVOKED or UNREADABLE."`
	Issuer  string        `json:"issuer,omitzero" doc:"Of a token: the name of its issuer in the configuration."`
	Rule    string        `json:"rule,omitzero" doc:"The setting that lets the bearer of a token in."`
	User    string        `json:"user,omitzero" doc:"The person of a token, by the claim that claims.user names."`
	Owner   string        `json:"owner,omitzero" doc:"The person who made the key, for ADMIN."`
	Terms   *access.Terms `json:"terms,omitzero" doc:"Those in force beside the tenant's, for ADMIN."`
	Refusal *refusalView  `json:"refusal" doc:"Why the caller is refused, whatever instances do; else null."`
}

// Run is an agent's run in an explanation.
type Run struct {
	ID     string     `json:"id" doc:"The public id."`
	Name   string     `json:"name" doc:"The id in the request."`
	Sign   string     `json:"sign" doc:"The header or member of the request that names it."`
	Limits []RunLimit `json:"limits" doc:"The limits that hold for it."`
	Loop   string     `json:"loop,omitzero" doc:"The rule for loops that it breaks."`
	Reason string     `json:"reason,omitzero" doc:"Why its calls are refused, if they are."`
}

// RunLimit is a limit of a run, and what is left of it.
type RunLimit struct {
	Unit  string  `json:"unit" enum:"cost,tokens,requests,time,concurrency" doc:"time is in milliseconds."`
	Limit float64 `json:"limit"`
	Used  float64 `json:"used"`
	Left  float64 `json:"left" doc:"Without what other calls of the run have reserved."`
}

// Docs says more about some members than a tag has room for.
func (Explanation) Docs() map[string]string {
	return map[string]string{
		"ttftTargetMet": "Whether it is expected within that time, the wait for a slot included. Left out where the " +
			"request does not ask, and where nothing is expected: without its body, or with another strategy than " +
			"least_time.",
	}
}

// targetMet says whether the first token is expected in time, nil where that is not known. A
// request that is refused does not get it.
func targetMet(x *survey.Explanation) *bool {
	switch {
	case x.Target == 0:
		return nil
	case x.Refusal != nil:
		return new(false)
	case len(x.Expected) == 0:
		return nil
	}
	return new(x.Queue.Wait.Seconds()+x.Expected[0].Expected <= x.Target.Seconds())
}

type splitView struct {
	InstanceID string `json:"instanceId"`
	Handle     string `json:"handle"`
	Inputs     int    `json:"inputs" doc:"How many of the inputs, documents or prompts."`
	Tokens     int64  `json:"tokens" doc:"The work that they are, by an estimate."`
}

type hedgeView struct {
	AfterMs float64 `json:"afterMs" doc:"After how long; 0 while too few calls of the size were answered to know."`
	Left    int     `json:"left" doc:"For how many calls that may happen now."`
}

type passedModel struct {
	Model  string         `json:"model"`
	Reason string         `json:"reason"`
	Said   []say.Sentence `json:"said,omitzero" doc:"The reason as codes and values."`
}

type candidateView struct {
	InstanceID     string         `json:"instanceId"`
	Handle         string         `json:"handle"`
	Eligible       bool           `json:"eligible"`
	Reason         string         `json:"reason,omitzero"`
	Said           []say.Sentence `json:"said,omitzero" doc:"The reason as codes and values."`
	Translated     bool           `json:"translated" doc:"Whether the request would be translated for the backend."`
	Weight         float64        `json:"weight"`
	Tier           int            `json:"tier"`
	Chance         float64        `json:"chance"`
	InFlight       int64          `json:"inFlight"`
	Slots          string         `json:"slots,omitzero" doc:"Requests at a time and why, if that is learned."`
	SlotsSaid      []say.Sentence `json:"slotsSaid,omitzero" doc:"The slots as codes and values."`
	HealthStatus   backend.Status `json:"healthStatus"`
	CircuitBreaker breaker.State  `json:"circuitBreaker"`
	Estimate       *estimateView  `json:"estimate,omitzero" doc:"What is expected for the body; only with least_time."`
}

// whySlots says how many requests an instance gets at a time and why, if the gateway
// learned the number.
func whySlots(i *backend.Instance) say.Sentence {
	if learned := i.Pace(); learned != nil {
		return learned.State().Why
	}
	return say.Sentence{}
}

// estimateView is the gateway's estimate for an instance and a request.
type estimateView struct {
	ExpectedMs  float64 `json:"expectedMs" doc:"The time to the first token: the sum of the next three."`
	QueueMs     float64 `json:"queueMs" doc:"Work on other prompts that is in front of it."`
	PrefillMs   float64 `json:"prefillMs" doc:"Work on its own prompt."`
	LoadMs      float64 `json:"loadMs" doc:"Until the model is in memory."`
	AnswerMs    float64 `json:"answerMs,omitzero" doc:"To write the answer; only with leastTimeTo answer."`
	Matched     float64 `json:"matched" minimum:"0" maximum:"1" doc:"The share of the prompt believed in its cache."`
	AvoidableMs float64 `json:"avoidableMs" doc:"Work that the best of the others would save."`
	CostMs      float64 `json:"costMs" doc:"What the strategy compares; the least is picked."`
}

type limits struct {
	Service limitView `json:"service"`
	Model   limitView `json:"model"`
}

type limitView struct {
	Limited      bool  `json:"limited"`
	Allowed      bool  `json:"allowed"`
	Capacity     int   `json:"capacity"`
	Remaining    int   `json:"remaining"`
	RetryAfterMS int64 `json:"retryAfterMs"`
}

type queueView struct {
	Waiting        int          `json:"waiting"`
	Size           int          `json:"size"`
	ByClass        ClassLengths `json:"byClass" doc:"How many wait, by their priority."`
	Priority       schema.Class `json:"priority" empty:"true" doc:"Of the request; empty if nothing serves it."`
	Position       int          `json:"position" minimum:"0" doc:"Its turn as things are; 0 without a wait."`
	ExpectedWaitMs float64      `json:"expectedWaitMs" minimum:"0" doc:"At the recent pace; 0 if none or unknown."`
}

// ClassLengths holds the number of waiting requests by their priority, as JSON.
type ClassLengths struct {
	Interactive int `json:"interactive"`
	Normal      int `json:"normal"`
	Batch       int `json:"batch"`
}

// ViewLengths returns the lengths of a queue as JSON has them.
func ViewLengths(n queue.Lengths) ClassLengths {
	return ClassLengths{n[schema.Interactive], n[schema.Normal], n[schema.Batch]}
}

// Ledger is whether the request would be counted in the quota ledger, and whether
// the ledger is degraded.
type Ledger struct {
	Enabled        bool   `json:"enabled"`
	Degraded       bool   `json:"degraded"`
	DegradedReason string `json:"degradedReason"`
	FailOpen       bool   `json:"failOpen"`
}

type refusalView struct {
	Type         string         `json:"type"`
	Code         string         `json:"code"`
	Message      string         `json:"message"`
	Said         []say.Sentence `json:"said,omitzero" doc:"The message as codes and values."`
	RetryAfterMS int64          `json:"retryAfterMs"`
}

// View returns an explanation as JSON has it, without the state of the ledger.
func View(x survey.Explanation, door schema.Door, model string, client netip.Addr) Explanation {
	view := Explanation{
		Service: door.Service(), Door: door, Model: model, ClientIP: client.String(), PassedOver: []passedModel{},
		Candidates: []candidateView{},
		Limits:     limits{viewLimit(x.ServiceLimit), viewLimit(x.ModelLimit)},
	}
	for _, c := range x.Candidates {
		slots := whySlots(c.Instance)
		view.Candidates = append(view.Candidates, candidateView{
			InstanceID: c.ID, Handle: c.Handle, Eligible: !c.Reason.Is(), Reason: c.Reason.String(),
			Said:       say.All(c.Reason),
			Translated: c.Translated,
			Weight:     c.Settings.Weight, Tier: c.Settings.Tier, Chance: c.Chance, InFlight: c.InFlight(),
			HealthStatus: c.HealthStatus(), CircuitBreaker: c.Breaker.Snapshot().State,
			Estimate: viewEstimate(x.Expected, c.Instance),
			Slots:    slots.String(), SlotsSaid: say.All(slots),
		})
	}
	for _, piece := range x.Split {
		view.Split = append(view.Split, splitView{piece.Instance.ID, piece.Instance.Handle, piece.Inputs, piece.Tokens})
	}
	if x.Hedge != nil {
		view.Hedge = &hedgeView{milliseconds(x.Hedge.After.Seconds()), x.Hedge.Left}
	}
	for _, passed := range x.PassedOver {
		view.PassedOver = append(view.PassedOver, passedModel{passed.Model, passed.Reason.String(),
			say.All(passed.Reason)})
	}
	if x.Pool != nil {
		view.ServedModel = x.Pool.Model
		strategy := x.Pool.Service.Policy.LoadBalancer
		view.Strategy = &strategy
		view.Queue = queueView{
			x.Waiting, x.Pool.Service.Policy.Queue.Size, ViewLengths(x.ByClass), x.Queue.Class, x.Queue.Position,
			milliseconds(x.Queue.Wait.Seconds()),
		}
	}
	view.Refusal = viewRefusal(x.Refusal)
	view.TTFTTargetMs, view.TTFTTargetMet = milliseconds(x.Target.Seconds()), targetMet(&x)
	if x.Pick != nil {
		view.Pick = &x.Pick.ID
	}
	for _, c := range x.Candidates {
		if c.Obstacle == backend.NoObstacle {
			view.Tier = &c.Settings.Tier
			break // all candidates have one tier
		}
	}
	said := why(x)
	if view.Tier != nil && x.Refusal == nil && x.Pool.Tiered {
		said = append(said, whyTier(*view.Tier, x.Candidates))
	}
	view.Why, view.Said = say.Join(said), say.All(said...)
	return view
}

func viewRefusal(err *schema.Error) *refusalView {
	if err == nil {
		return nil
	}
	return &refusalView{err.Type, err.Code, err.Message, say.All(err.Said), err.RetryAfter.Milliseconds()}
}

// whyTier says why the instances of a tier are picked.
func whyTier(tier int, candidates []survey.Candidate) say.Sentence {
	lower := slices.ContainsFunc(candidates, func(c survey.Candidate) bool { return c.Settings.Tier < tier })
	if !lower {
		return say.New("explain.tier", "tier", tier)
	}
	return say.New("explain.tier_only", "tier", tier)
}

// why says why an instance is picked, or none.
func why(x survey.Explanation) []say.Sentence {
	said := say.New("explain.waits")
	switch {
	case x.Refusal != nil:
		said = say.New("explain.refused")
	case len(x.Split) > 0:
		said = say.New("explain.split", "count", len(x.Split))
	case len(x.Expected) > 0:
		return whySoonest(x.Expected)
	case x.Pick != nil:
		said = say.New("explain.pick", "strategy", x.Pool.Service.Policy.LoadBalancer)
	case anyEligible(x.Candidates) && x.Pool.Soonest != nil:
		said = say.New("explain.prompt")
	case anyEligible(x.Candidates):
		said = say.New("explain.chance")
	case x.Queue.Wait > 0:
		said = say.New("explain.turn", "turn", x.Queue.Position, "wait", duration(x.Queue.Wait.Seconds()))
	}
	return []say.Sentence{said}
}

func anyEligible(candidates []survey.Candidate) bool {
	return slices.ContainsFunc(candidates, func(c survey.Candidate) bool { return c.Obstacle == backend.NoObstacle })
}

func viewLimit(d ratelimit.Decision) limitView {
	if !d.Limited {
		return limitView{Allowed: true}
	}
	return limitView{true, d.Allowed, d.Limit, d.Remaining, d.RetryAfter.Milliseconds()}
}

// Found lists the models that an instance with discovery has found, as JSON.
type Found struct {
	Models []string       `json:"models" doc:"Those that it serves; each has an instance of its own in monitoring."`
	ReadAt *time.Time     `json:"readAt" doc:"When the backend was asked last; null before that."`
	Error  string         `json:"error,omitzero" doc:"Why the backend did not tell its models; known ones stay."`
	Said   []say.Sentence `json:"said,omitzero" doc:"The error as codes and values."`
}

// FoundBy returns the models that an instance has found.
func FoundBy(table *routing.Table, serviceType schema.ServiceType, id string) *Found {
	view := &Found{Models: []string{}}
	for _, source := range table.Sources() {
		if source.Service.Type != serviceType || source.Settings.ID() != id {
			continue
		}
		list := table.Found().Of(source.Key())
		view.Error, view.Said = say.Join(list.Error), say.All(list.Error...)
		if !list.Read.IsZero() {
			at := list.Read.UTC().Truncate(time.Millisecond)
			view.ReadAt = &at
		}
		files := naming.OfFiles(list.Models) // the instance of a file has its short name
		for n, model := range list.Models {
			for _, name := range []string{model, files[n]} {
				found := source.Settings.Found(name)
				if table.Service(serviceType).Instance(found.ID()) != nil {
					view.Models = append(view.Models, found.Name)
					break
				}
			}
		}
	}
	return view
}
