package manage

import (
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/proxy"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
	"github.com/patchbay-ai/patchbay/internal/web/explain"
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
	client := web.ClientAddr(q.Request, a.options.TrustedProxies)
	if text := query.Get("clientIp"); text != "" {
		if client, err = netip.ParseAddr(text); err != nil {
			return Reply{}, invalidField("clientIp", "want an address such as 192.0.2.1")
		}
		client = client.Unmap().WithZone("")
	}
	x := proxy.Explain(a.table(), door, query.Get("model"), client, time.Now())
	view := explain.View(x, door, query.Get("model"), client)
	ledger := a.options.Ledger.Status(q.Context())
	view.Quota = explain.Ledger{Enabled: ledger.Settings.Enabled, Degraded: ledger.Reason != "", DegradedReason: ledger.Reason, FailOpen: ledger.Settings.FailOpen}
	view.AnswerCache = a.options.Cache.IsOn(serviceType)
	return Reply{message: "What would happen to a request now.", data: view}, nil
}
