package governor

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/config/control"
	"github.com/patchbay-ai/patchbay/internal/config/control/files"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/registry"
)

// A raise is compared with the limits as the latest decision of another gateway has left them.
func TestARaiseCountsThoseOfOtherGateways(t *testing.T) {
	t.Parallel()
	log, doc := slog.New(slog.DiscardHandler), config.Default()
	doc.Security.Tenants = []access.Tenant{{Name: "red", Terms: access.Terms{Runs: budget.RunLimits{Requests: 10}}}}
	store, err := files.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := control.Opening{Store: store, Document: doc, Current: new(routing.Current), Log: log}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := access.OpenCredentials(dir, access.Settings{}, log, nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w := new(page)
	g := beside(t, w)
	g.options.Currency = func() string { return "USD" }
	g.options.Settings.Limits = budget.RunLimits{Requests: 4}
	bob := &web.Call{
		Who:   access.Identity{Memberships: []access.Membership{{Tenant: "red", Role: access.TeamAdmin}}},
		Scope: access.Scope{Tenants: []string{"red"}},
	}
	h := &handler{core: &wing.Core{Control: c, Credentials: credentials, Log: log}, governor: g}
	r := g.beginKnown(identity{"k", "n"}, "red", began, began)
	bob.Request = httptest.NewRequest(http.MethodPost, "/", nil)
	bob.SetPathValue("id", r.id)
	other := budget.Terms{Version: began.UnixMilli() + 1000, Raised: budget.Amounts{budget.Requests: 4}}
	w.runs = []registry.Run{{
		ID: publicID(budget.RunName(&quota.Key{APIKey: "k", User: "n"})), Owner: "k", Tenant: "red", Name: "n",
		Began: began, Used: began, Terms: other.String(),
	}}
	var refusal *web.RequestError
	if _, err := h.raise(bob, &raiseRequest{Requests: 3}); !errors.As(err, &refusal) || refusal.Status != http.StatusBadRequest {
		t.Errorf("got %v, want a refusal", err)
	}
	if got := r.latest().Terms(); got != other {
		t.Errorf("the terms are %+v, want %+v", got, other)
	}
	if _, err := h.raise(bob, &raiseRequest{Requests: 2}); err != nil {
		t.Error(err)
	}
	if got := r.latest().Terms().Raised[budget.Requests]; got != 6 {
		t.Errorf("the run is raised by %d, want 6", got)
	}
}
