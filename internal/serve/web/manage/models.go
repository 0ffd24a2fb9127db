package manage

import (
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/catalog"
	"github.com/patchbay-ai/patchbay/internal/serve/web/explain"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
)

// modelEntry is an entry of the list of models.
type modelEntry struct {
	ID          string             `json:"id"`
	Object      string             `json:"object"`
	Created     int64              `json:"created"`
	OwnedBy     string             `json:"owned_by"`
	ServiceType schema.ServiceType `json:"service_type"`
	Adapter     string             `json:"adapter"`
	AliasOf     string             `json:"alias_of,omitzero" doc:"The model that serves it, if the name is an alias."`
	catalog.Sizes
}

// modelEntries is the list of models, or a page of it.
type modelEntries struct {
	Object string       `json:"object"`
	Data   []modelEntry `json:"data"`
	Page   *web.Page    `json:"page,omitzero"`
}

func (a *API) models(_ *web.Call, q *web.PageQuery) (modelEntries, error) {
	entries := []modelEntry{}
	for _, m := range a.table().Entries() {
		entries = append(entries, modelEntry{
			ID: m.ID, Object: "model", Created: m.Created.Unix(), OwnedBy: "patchbay", ServiceType: m.Service,
			Adapter: m.Adapter, AliasOf: m.Target,
			Sizes: catalog.SizesOf(a.table().Service(m.Service).Find(m.ID).Sizes(nil)),
		})
	}
	p := q.Page()
	return modelEntries{"list", web.OnPage(p, entries), p}, nil
}

// explainQuery is the request that is explained.
type explainQuery struct {
	Service  schema.ServiceType `json:"service" required:"true"`
	Door     schema.Door        `json:"door" empty:"true" doc:"Its endpoint; else the one of the service type's name."`
	Model    string             `json:"model" required:"true" minLength:"1" example:"demo-chat"`
	ClientIP netip.Addr         `json:"clientIp" format:"ipv4,ipv6" empty:"true" want:"field.client"`
	Priority schema.Class       `json:"priority" empty:"true" doc:"Its class; else that of the service type."`
	Target   int                `json:"ttftTarget" minimum:"1" maximum:"600000"`
}

// Docs says more about some members than a tag has room for.
func (explainQuery) Docs() map[string]string {
	return map[string]string{
		"clientIp":   "The client's address; yours if left out.",
		"ttftTarget": "Within how many milliseconds it wants its first token; else as x-router-ttft-target says.",
	}
}

// explain returns the way that a request would take now.
func (a *API) explain(c *web.Call, q *explainQuery) (explain.Explanation, error) {
	door := q.Door
	if !c.Has("door") {
		door = schema.Door(q.Service)
	}
	if door.Service() != q.Service {
		return explain.Explanation{},
			web.BadInput("door", "field.door_service", "door", door, "service", door.Service())
	}
	target, err := explainedTarget(c, q.Target)
	if err != nil {
		return explain.Explanation{}, err
	}
	return a.explained(c, survey.Subject{Door: door, Model: q.Model, Client: a.explainedClient(c, q.ClientIP),
		Class: q.Priority, Target: target}), nil
}

// explainBodyQuery holds the facts about an explained request that its body does not have.
type explainBodyQuery struct {
	Door     schema.Door  `json:"door" required:"true" doc:"The endpoint of the request."`
	ClientIP netip.Addr   `json:"clientIp" format:"ipv4,ipv6" empty:"true" want:"field.client"`
	Tenant   string       `json:"tenant" doc:"Whose request it is, where the key does not say."`
	KeyID    string       `json:"keyId"`
	Priority schema.Class `json:"priority" empty:"true" doc:"Its class; else that of the service type."`
	Target   int          `json:"ttftTarget" minimum:"1" maximum:"600000"`
}

// Docs says more about some members than a tag has room for.
func (explainBodyQuery) Docs() map[string]string {
	return map[string]string{
		"clientIp":   "The client's address; yours if left out.",
		"ttftTarget": "Within how many milliseconds it wants its first token; else as x-router-ttft-target says.",
		"keyId": "The key with which it would be sent; the reply tells whose it is. A key or token itself goes " +
			"into the header X-Api-Key.",
	}
}

// explainBody returns the way that the request in the body would take now. It is for
// callers who may send requests to instances, because the cache reveals the questions of
// others.
func (a *API) explainBody(c *web.Call, q *explainBodyQuery) (explain.Explanation, error) {
	request, speaks, err := v1.Read(q.Door, c.Header, c.Content)
	if err != nil {
		return explain.Explanation{}, web.Invalid("body", say.From(err))
	}
	target, err := explainedTarget(c, q.Target)
	if err != nil {
		return explain.Explanation{}, err
	}
	c.Done("explained a request of %s", q.Door)
	if a.options.Credentials.Guard() != nil {
		request.Account = unasked{}
	}
	sender := a.options.Credentials.SenderOf(q.KeyID, c.Header, time.Now())
	asked := survey.Subject{
		Class: q.Priority, Target: target, Door: q.Door, Model: string(request.Model),
		Client: a.explainedClient(c, q.ClientIP), Request: request, Speaks: speaks,
		Header: c.Header, Tenant: q.Tenant, KeyID: q.KeyID,
	}
	if sender != nil && sender.Grant != nil {
		asked.KeyID, asked.Tenant = sender.KeyID, sender.Tenant
		if sender.Grant.IsPlaced() {
			asked.MayCall = sender.Grant.MayCall
		}
	}
	view := a.explained(c, asked)
	if sender != nil {
		view.SetCaller(sender, &c.Who, a.table())
	}
	return view, nil
}

// unasked is the account of an explained request in a gateway whose callers have keys. Whose ids the
// request names is not asked.
type unasked struct{}

// RefuseForeign implements schema.Account.
func (unasked) RefuseForeign([]schema.NamedID) error { return nil }

// explainedTarget returns within what time an explained request wants its first token: as its
// query says, or else the header.
func explainedTarget(c *web.Call, milliseconds int) (time.Duration, error) {
	if asked := c.Header.Get(account.TargetHeader); milliseconds == 0 && asked != "" {
		target, err := account.ParseTarget(asked)
		if err != nil {
			return 0, web.Invalid("x-router-ttft-target", say.From(err))
		}
		return target, nil
	}
	return time.Duration(milliseconds) * time.Millisecond, nil
}

func (a *API) explained(c *web.Call, asked survey.Subject) explain.Explanation {
	view := explain.View(survey.Explain(a.table(), asked, time.Now()), asked.Door, asked.Model, asked.Client)
	ledger := a.options.Ledger.Status(c.Context())
	view.Quota = explain.Ledger{
		Enabled: ledger.Settings.Enabled, Degraded: ledger.Reason != "", DegradedReason: ledger.Reason,
		FailOpen: ledger.Settings.FailOpen,
	}
	view.AskedBy = explain.By(&c.Who)
	a.options.Explain(&view, asked)
	return view
}

// explainedClient returns the address of the client of a request that is explained.
func (a *API) explainedClient(c *web.Call, given netip.Addr) netip.Addr {
	if !given.IsValid() {
		return web.ClientAddr(c.Request, a.options.TrustedProxies)
	}
	return given.Unmap().WithZone("")
}
