package watch

import (
	"context"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/store/documents/pgdocuments"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts"
)

// entry is the wing of a gateway.
type entry struct {
	core   *wing.Core
	watch  *watch
	runs   *runs
	shared *pgdocuments.Store // nil where nothing is shared
}

// New returns the wing of alerts.
func New(core *wing.Core) *wing.Wing {
	e := &entry{core: core, runs: &runs{core: core}}
	host, _ := os.Hostname() // an alert without one says enough
	e.watch = &watch{
		log: core.Log, gateway: host,
		post:          outgoing.New(outgoing.Options{Timeout: sendTimeout}).Send,
		openDocuments: e.openDocuments, changed: make(chan struct{}, 1),
		senders: map[string]*sender{}, known: map[subject]*known{},
	}
	return &wing.Wing{
		Kept: Kept(), Routes: e.routes, Open: e.open, Set: e.set, State: e.state, Families: families[:], Close: e.close,
		Run: e.watch.run, Doing: "watching for alerts",
	}
}

func (e *entry) open() error {
	if address := e.core.Document.Store.Config; address != "" {
		shared, err := pgdocuments.New(address)
		if err != nil {
			return err
		}
		e.shared = shared
	}
	e.watch.kinds = kindsOf(e.core, e.runs)
	e.set(e.core.Document)
	return nil
}

func (e *entry) close() {
	if e.shared != nil {
		e.shared.Close()
	}
}

// openDocuments returns where it is kept which alerts were sent: the database of the shared
// configuration, or the data directory.
func (e *entry) openDocuments() documents.Store {
	if e.shared != nil {
		return e.shared
	}
	local, err := documents.OpenDir(e.core.Store.Data().Path(folder), e.core.Log)
	if err != nil {
		e.core.Log.Warn("alerts that were sent are not remembered through a restart", "error", err)
		return documents.NewMemory()
	}
	return local
}

// set puts the settings of a configuration in force.
func (e *entry) set(doc *config.Document) {
	wanted := map[string]target{}
	for name, hook := range doc.Alerts.Webhooks {
		wanted[name] = e.target(name, hook, doc.Resolve)
	}
	e.runs.limit.Store(int64(doc.Alerts.RunCost))
	e.watch.set(doc.Alerts.Quiet.Std(), wanted)
}

// target returns a webhook with its address.
func (e *entry) target(name string, hook alerts.Webhook, resolve backend.Resolver) target {
	to := target{hook: hook}
	address, err := hook.URL.Resolve(resolve)
	if err != nil {
		to.fault = say.New("alert.no_address", "why", err.Error())
	} else if fault := alerts.AddressFault(address); fault.Is() {
		to.fault = say.New("alert.bad_address", "fault", fault)
	}
	if to.fault.Is() {
		e.core.Log.Warn("a webhook gets no alerts", "webhook", name, "reason", to.fault.String())
		return to
	}
	to.address = address
	return to
}

// state counts the alerts for a scrape.
func (e *entry) state(to *metrics.State, _ time.Time) {
	e.watch.mu.Lock()
	defer e.watch.mu.Unlock()
	for name, s := range e.watch.senders {
		d := s.status()
		for result, n := range map[string]int64{"sent": d.Sent, "failed": d.Failed, "dropped": d.Dropped} {
			to.Count("model_router_alerts_total", n, name, result)
		}
	}
}

func (e *entry) routes() []web.Route {
	return []web.Route{
		{
			Pattern: "GET /api/alerts", Tag: "Settings", Permission: access.ReadSettings, Does: web.Do(e.show),
			Summary: "What is wrong now, as alerts tell it, and how alerts reach the webhooks; nothing is watched " +
				"without webhooks",
			Says: "The alerts of this gateway.",
		},
		{
			Pattern: "POST /api/config/alerts/test", Tag: "Settings", Permission: access.ManageSettings,
			Does: web.DoBody(e.test), NoDryRun: true, Concerns: web.OfGateway,
			Summary: "Send a test to a webhook, stored (webhook) or as typed (url, format); nothing is stored",
			Says:    "The receiver took the test.", Errors: []int{http.StatusNotFound},
		},
	}
}

// alertsView is the state of alerts.
type alertsView struct {
	Active   []activeView  `json:"active" doc:"Conditions that are there now."`
	Webhooks []webhookView `json:"webhooks"`
}

// activeView is a condition that is there.
type activeView struct {
	Kind     alerts.Kind    `json:"kind"`
	Subject  string         `json:"subject"`
	Severity string         `json:"severity" enum:"warning,critical"`
	Since    time.Time      `json:"since"`
	Text     string         `json:"text"`
	Said     []say.Sentence `json:"said"`
	Sent     bool           `json:"sent" doc:"Whether an alert of it was sent, by this gateway or another."`
}

// webhookView is a webhook and its deliveries.
type webhookView struct {
	Name    string        `json:"name"`
	Format  alerts.Format `json:"format"`
	Waiting int           `json:"waiting" doc:"Alerts that wait to be sent."`
	delivery
}

func (e *entry) show(*web.Call) (alertsView, error) {
	w := e.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	view := alertsView{Active: []activeView{}, Webhooks: []webhookView{}}
	for name, k := range w.known {
		if !k.gone.IsZero() || k.Said.String() == "" {
			continue
		}
		view.Active = append(view.Active, activeView{Kind: name.kind, Subject: k.Subject, Severity: k.Level.String(),
			Since: k.Since, Text: k.Said.String(), Said: say.All(k.Said), Sent: k.level > fine})
	}
	slices.SortFunc(view.Active, func(a, b activeView) int { return strings.Compare(a.Subject, b.Subject) })
	for _, name := range slices.Sorted(maps.Keys(w.wanted)) {
		to := w.wanted[name]
		one := webhookView{Name: name, Format: to.hook.Format, delivery: delivery{Fault: to.fault}}
		if s := w.senders[name]; s != nil {
			one.Waiting, one.delivery = len(s.queue), s.status()
		}
		view.Webhooks = append(view.Webhooks, one)
	}
	return view, nil
}

// testBody names the webhook of a test.
type testBody struct {
	Webhook string        `json:"webhook" doc:"The name of a stored webhook."`
	URL     string        `json:"url" doc:"An address to try instead; a mask means that of the stored webhook."`
	Format  alerts.Format `json:"format" doc:"Of a url that is given."`
}

// testView is the outcome of a test.
type testView struct {
	Delivered bool           `json:"delivered"`
	Message   string         `json:"message,omitzero" doc:"Why it was not delivered."`
	Said      []say.Sentence `json:"said,omitzero" doc:"The message as codes and values."`
}

func (e *entry) test(c *web.Call, body *testBody) (view testView, err error) {
	doc, _ := e.core.Control.Document()
	hook, isStored := doc.Alerts.Webhooks[body.Webhook]
	switch {
	case body.URL != "" && !access.IsMask(body.URL):
		hook = alerts.Webhook{URL: backend.Literal(body.URL), Format: body.Format}
	case body.Webhook == "":
		return view, web.BadInput("webhook", "alert.which")
	case !isStored:
		return view, web.NotFound(say.New("alert.no_webhook", "name", web.Shorten(body.Webhook)).About("webhook"))
	case c.Given.Has("format"):
		hook.Format = body.Format
	}
	to := e.target(body.Webhook, hook, doc.Resolve)
	fault := to.fault
	if !fault.Is() {
		now := time.Now().UTC()
		m := alerts.NewMessage("test", alerts.Test, say.New("alert.test", "webhook", body.Webhook))
		m.Subject, m.Since, m.Time, m.Gateway = body.Webhook, now, now, e.watch.gateway
		s := &sender{name: body.Webhook, hook: hook, address: to.address, post: e.watch.post}
		ctx, cancel := context.WithTimeout(c.Context(), sendTimeout)
		defer cancel()
		fault, _ = s.attempt(ctx, m.Body(hook.Format))
	}
	view.Delivered = !fault.Is()
	if fault.Is() {
		view.Message, view.Said = fault.String(), say.All(fault)
		c.Say("The test was not delivered.")
	}
	c.Done("test of webhook %s", web.Shorten(body.Webhook))
	return view, nil
}

// families are the metrics of this wing.
var families = [...]metrics.Family{
	{
		Name: "model_router_alerts_total", Dotted: "model.router.alerts.total", Kind: metrics.KindCounter,
		Category: metrics.CategoryCustom, Unit: "alerts", Labels: []string{"webhook", "result"},
		Help: "Alerts by webhook, and how they ended: sent, failed (given up after the last attempt) or " +
			"dropped (too many waited).",
	},
}
