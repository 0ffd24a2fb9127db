package manage

import (
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
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
	Door     schema.Door        `json:"door" empty:"true" doc:"The endpoint of the request, one of the service type; the one that is named after it if left out."`
	Model    string             `json:"model" required:"true" minLength:"1" example:"demo-chat"`
	ClientIP string             `json:"clientIp" format:"ipv4,ipv6" empty:"true" doc:"The address of the client; yours if left out."`
	Priority schema.Class       `json:"priority" empty:"true" doc:"How urgent the request is while it waits; as the service type says if left out."`
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
	door := schema.Door(serviceType)
	if name := query.Get("door"); name != "" {
		if door, err = schema.ParseDoor(web.Shorten(name)); err != nil {
			return Reply{}, invalidField("door", "%v", err)
		}
		if door.Service() != serviceType {
			return Reply{}, invalidField("door", "%s is an endpoint of the service type %s", door, door.Service())
		}
	}
	client, err := a.explainedClient(q)
	if err != nil {
		return Reply{}, err
	}
	class, err := explainedClass(q)
	if err != nil {
		return Reply{}, err
	}
	return a.explain(q, survey.Subject{Door: door, Model: query.Get("model"), Client: client, Class: class}), nil
}

// explainBodyQuery is what is to be known beside the body of a request that is explained.
type explainBodyQuery struct {
	Door     schema.Door  `json:"door" required:"true" doc:"The endpoint of the request."`
	ClientIP string       `json:"clientIp" format:"ipv4,ipv6" empty:"true" doc:"The address of the client; yours if left out."`
	Tenant   string       `json:"tenant" doc:"Whose request it is, where prompt-sharing keeps tenants apart."`
	KeyID    string       `json:"keyId" doc:"The same where it keeps keys apart."`
	Priority schema.Class `json:"priority" empty:"true" doc:"How urgent the request is while it waits; as the service type says if left out."`
}

// ExplainBody answers POST /api/route/explain: what would happen to the request in the body
// now. It is for those who may send requests to instances, because what is cached tells what
// others have asked.
func (a *API) ExplainBody(q *Request) (Reply, error) {
	query := q.URL.Query()
	door, err := schema.ParseDoor(web.Shorten(query.Get("door")))
	if err != nil {
		return Reply{}, invalidField("door", "%v", err)
	}
	client, err := a.explainedClient(q)
	if err != nil {
		return Reply{}, err
	}
	request, speaks, err := v1.Read(door, q.Header, q.body)
	if err != nil {
		return Reply{}, invalidField("body", "%v", err)
	}
	class, err := explainedClass(q)
	if err != nil {
		return Reply{}, err
	}
	reply := a.explain(q, survey.Subject{
		Class: class,
		Door:  door, Model: string(request.Model), Client: client, Request: request, Speaks: speaks,
		Header: q.Header, Tenant: query.Get("tenant"), KeyID: query.Get("keyId"),
	})
	reply.change = "explained a request of " + door.String()
	return reply, nil
}

// explain answers with what would happen to a request.
func (a *API) explain(q *Request, asked survey.Subject) Reply {
	view := explain.View(survey.Explain(a.table(), asked, time.Now()), asked.Door, asked.Model, asked.Client)
	ledger := a.options.Ledger.Status(q.Context())
	view.Quota = explain.Ledger{Enabled: ledger.Settings.Enabled, Degraded: ledger.Reason != "", DegradedReason: ledger.Reason, FailOpen: ledger.Settings.FailOpen}
	view.AnswerCache = a.options.Cache.IsOn(asked.Door.Service())
	view.SingleFlight = a.options.Cache.IsSingleFlight(asked.Door.Service())
	return Reply{message: "What would happen to a request now.", data: view}
}

// explainedClass returns how urgent the request that is explained is.
func explainedClass(q *Request) (class schema.Class, err error) {
	if err := class.UnmarshalText([]byte(web.Shorten(q.URL.Query().Get("priority")))); err != nil {
		return class, invalidField("priority", "%v", err)
	}
	return class, nil
}

// explainedClient returns the address of the client of a request that is explained.
func (a *API) explainedClient(q *Request) (netip.Addr, error) {
	text := q.URL.Query().Get("clientIp")
	if text == "" {
		return web.ClientAddr(q.Request, a.options.TrustedProxies), nil
	}
	client, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, invalidField("clientIp", "want an address such as 192.0.2.1")
	}
	return client.Unmap().WithZone(""), nil
}
