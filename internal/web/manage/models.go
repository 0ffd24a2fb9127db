package manage

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/balance"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/proxy"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// modelEntry is an entry of the list of models.
type modelEntry struct {
	ID          string             `json:"id"`
	Object      string             `json:"object"`
	Created     int64              `json:"created"`
	OwnedBy     string             `json:"owned_by"`
	ServiceType schema.ServiceType `json:"service_type"`
	Adapter     string             `json:"adapter"`
	AliasOf     string             `json:"alias_of,omitzero" doc:"The model that serves it, where the name is an alias."`
}

// modelEntries is the list of models, or a page of it.
type modelEntries struct {
	Object string       `json:"object"`
	Data   []modelEntry `json:"data"`
	Page   *page        `json:"page,omitzero"`
}

// Models answers GET /api/models.
func (a *API) Models(q *Request) (Reply, error) {
	p, err := pageOf(q)
	if err != nil {
		return Reply{}, err
	}
	entries := []modelEntry{}
	for _, m := range a.table().Entries() {
		entries = append(entries, modelEntry{
			ID: m.ID, Object: "model", Created: m.Created.Unix(), OwnedBy: "patchbay", ServiceType: m.Service, Adapter: m.Adapter, AliasOf: m.Target,
		})
	}
	if p != nil {
		entries = onPage(p, entries)
	}
	return Reply{message: "The models of all service types.", data: modelEntries{"list", entries, p}}, nil
}

// explainQuery is the request that is explained.
type explainQuery struct {
	Service  schema.ServiceType `json:"service" required:"true"`
	Model    string             `json:"model" required:"true" minLength:"1" example:"demo-chat"`
	ClientIP string             `json:"clientIp" format:"ipv4,ipv6" empty:"true" doc:"The address of the client; yours if left out."`
}

// explanation is what would happen to a request, as JSON.
type explanation struct {
	Service schema.ServiceType `json:"service"`
	Model   string             `json:"model"`
	// ServedModel is the model whose instances would be used: another one than Model
	// where that is an alias. It is empty where no instance serves the model.
	ServedModel string            `json:"servedModel"`
	ClientIP    string            `json:"clientIp"`
	Strategy    *balance.Strategy `json:"strategy"`
	Candidates  []candidateView   `json:"candidates"`
	// Pick is the identifier of the instance that would be called. It is null
	// where none would, and where the strategy picks at random.
	Pick *string `json:"pick"`
	// Tier is the one of the instances that may be picked now; null where none may.
	Tier *int `json:"tier"`
	// Why gives the reason for the pick, in words.
	Why     string       `json:"why"`
	Limits  limits       `json:"limits"`
	Queue   queueView    `json:"queue"`
	Quota   ledgerView   `json:"quota"`
	Refusal *refusalView `json:"refusal"`
}

type candidateView struct {
	InstanceID     string         `json:"instanceId"`
	Handle         string         `json:"handle"`
	Eligible       bool           `json:"eligible"`
	Reason         string         `json:"reason,omitzero"`
	Weight         float64        `json:"weight"`
	Tier           int            `json:"tier"`
	Chance         float64        `json:"chance"`
	InFlight       int64          `json:"inFlight"`
	HealthStatus   backend.Status `json:"healthStatus"`
	CircuitBreaker breaker.State  `json:"circuitBreaker"`
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
	Waiting int `json:"waiting"`
	Size    int `json:"size"`
}

// ledgerView is whether the request would be counted in the quota ledger, and whether
// the ledger is degraded.
type ledgerView struct {
	Enabled        bool   `json:"enabled"`
	Degraded       bool   `json:"degraded"`
	DegradedReason string `json:"degradedReason"`
	FailOpen       bool   `json:"failOpen"`
}

type refusalView struct {
	Type         string `json:"type"`
	Code         string `json:"code"`
	Message      string `json:"message"`
	RetryAfterMS int64  `json:"retryAfterMs"`
}

// Explain answers GET /api/route/explain: what would happen to a request now.
func (a *API) Explain(q *Request) (Reply, error) {
	query := q.URL.Query()
	serviceType, err := schema.ParseServiceType(web.Shorten(query.Get("service")))
	switch {
	case query.Get("service") == "":
		err = invalidField("service", "is required")
	case err != nil:
		err = invalidField("service", "%v", err)
	case query.Get("model") == "":
		err = invalidField("model", "is required")
	}
	if err != nil {
		return Reply{}, err
	}
	client := web.ClientAddr(q.Request, a.options.TrustedProxies)
	if text := query.Get("clientIp"); text != "" {
		if client, err = netip.ParseAddr(text); err != nil {
			return Reply{}, invalidField("clientIp", "want an address such as 192.0.2.1")
		}
		client = client.Unmap().WithZone("")
	}
	x := proxy.Explain(a.table(), serviceType, query.Get("model"), client, time.Now())
	view := viewExplanation(x, serviceType, query.Get("model"), client)
	ledger := a.options.Ledger.Status(q.Context())
	view.Quota = ledgerView{ledger.Settings.Enabled, ledger.Reason != "", ledger.Reason, ledger.Settings.FailOpen}
	return Reply{message: "What would happen to a request now.", data: view}, nil
}

func viewExplanation(x proxy.Explanation, serviceType schema.ServiceType, model string, client netip.Addr) explanation {
	view := explanation{
		Service: serviceType, Model: model, ClientIP: client.String(), Candidates: []candidateView{},
		Limits: limits{viewLimit(x.ServiceLimit), viewLimit(x.ModelLimit)},
	}
	for _, c := range x.Candidates {
		view.Candidates = append(view.Candidates, candidateView{
			InstanceID: c.ID, Handle: c.Handle, Eligible: c.Reason == "", Reason: c.Reason,
			Weight: c.Settings.Weight, Tier: c.Settings.Tier, Chance: c.Chance, InFlight: c.InFlight(),
			HealthStatus: c.HealthStatus(), CircuitBreaker: c.Breaker.Snapshot().State,
		})
	}
	if x.Pool != nil {
		view.ServedModel = x.Pool.Model
		strategy := x.Pool.Service.Policy.LoadBalancer
		view.Strategy = &strategy
		view.Queue = queueView{x.Waiting, x.Pool.Service.Policy.Queue.Size}
	}
	if x.Refusal != nil {
		view.Refusal = &refusalView{x.Refusal.Type, x.Refusal.Code, x.Refusal.Message, x.Refusal.RetryAfter.Milliseconds()}
	}
	if x.Pick != nil {
		view.Pick = &x.Pick.ID
	}
	for _, c := range x.Candidates {
		if c.Obstacle == backend.NoObstacle {
			view.Tier = &c.Settings.Tier
			break // all that may be picked are of one tier
		}
	}
	view.Why = why(x)
	if view.Tier != nil && x.Refusal == nil && x.Pool.Tiered {
		view.Why += tierText(*view.Tier, x.Candidates)
	}
	return view
}

// tierText says why the instances of a tier are picked.
func tierText(tier int, candidates []proxy.Candidate) string {
	lower := slices.ContainsFunc(candidates, func(c proxy.Candidate) bool { return c.Settings.Tier < tier })
	if !lower {
		return fmt.Sprintf(", in tier %d", tier)
	}
	return fmt.Sprintf(", in tier %d: no instance of a lower tier is ready", tier)
}

func why(x proxy.Explanation) string {
	switch {
	case x.Refusal != nil:
		return "the request would be refused"
	case x.Pick != nil:
		return x.Pool.Service.Policy.LoadBalancer.String() + " would pick it now"
	case anyEligible(x.Candidates):
		return "chance decides, in proportion to the weights"
	}
	return "all slots are taken; the request would wait for one"
}

func anyEligible(candidates []proxy.Candidate) bool {
	return slices.ContainsFunc(candidates, func(c proxy.Candidate) bool { return c.Obstacle == backend.NoObstacle })
}

func viewLimit(d ratelimit.Decision) limitView {
	if !d.Limited {
		return limitView{Allowed: true}
	}
	return limitView{true, d.Allowed, d.Limit, d.Remaining, d.RetryAfter.Milliseconds()}
}
