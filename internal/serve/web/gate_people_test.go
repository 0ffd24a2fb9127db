package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// A person who signed in uses the operations that name a role in a tenant, within their
// tenants, and nothing else.
func TestPeopleUseOnlyWhatNamesTheirRole(t *testing.T) {
	t.Parallel()
	people := map[string]access.Identity{
		"member": {Name: "Ann", Subject: "1", Memberships: []access.Membership{{Tenant: "a", Role: access.Member}}},
		"leader": {Name: "Bob", Subject: "2", Memberships: []access.Membership{{Tenant: "a", Role: access.Member}, {Tenant: "b", Role: access.TeamAdmin}}},
		"nobody": {Name: "Eve", Subject: "3"},
	}
	credentials := gatewaytest.Start(t, gatewaytest.SecuredYAML()).Credentials
	gate := web.NewGate(web.GateOptions{
		Roster: credentials.Roster, Version: func() int { return 1 }, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Sessions: []func(string, time.Time) (access.Identity, bool, error){
			func(text string, _ time.Time) (access.Identity, bool, error) {
				if text == "over" {
					return access.Identity{}, true, access.ErrSessionOver
				}
				who, known := people[text]
				return who, known, nil
			},
		},
	})
	for _, test := range []struct {
		pattern    string
		permission access.Permission
		team       access.TeamRole
		session    string
		status     int
		tenants    string
	}{
		{"GET /api/x", access.ReadMetrics, 0, "member", 403, ""},
		{"GET /api/x", access.ReadMetrics, access.Member, "member", 200, "a"},
		{"GET /api/x", access.ReadMetrics, access.Member, "leader", 200, "a b"},
		{"GET /api/x", access.ReadMetrics, access.TeamAdmin, "leader", 200, "b"},
		{"GET /api/x", access.ReadMetrics, access.TeamAdmin, "member", 403, ""},
		{"GET /api/x", access.ByMembership, access.Member, "member", 200, "a"},
		{"GET /api/x", access.ReadSelf, access.Member, "nobody", 403, ""},
		{"GET /api/{tenant}/x", access.ReadMetrics, access.Member, "member", 200, "a"},
		{"GET /api/{tenant}/x", access.ReadMetrics, access.TeamAdmin, "leader", 403, ""},
		{"GET /api/x", access.ReadMetrics, access.Member, "over", 401, ""},
		{"GET /api/x", access.ReadMetrics, access.Member, "unknown", 401, ""},
	} {
		var seen access.Scope
		router := web.NewRouter(http.NotFound, func(http.ResponseWriter, *http.Request, string) {})
		surface := &web.Surface{
			Write: func(http.ResponseWriter, *web.Call, any) {},
			Fail:  func(http.ResponseWriter, *http.Request, error) {},
		}
		for _, route := range surface.Routes("t", []web.Route{{Pattern: test.pattern, Permission: test.permission, Team: test.team,
			Does: web.Do(func(c *web.Call) (int, error) { seen = c.Scope; return 0, nil })}}) {
			router.Handle(route.Pattern, gate.Guard(route))
		}
		request := httptest.NewRequest(http.MethodGet, "http://localhost"+strings.ReplaceAll(strings.TrimPrefix(test.pattern, "GET "), "{tenant}", "a"), nil)
		request.AddCookie(&http.Cookie{Name: web.SessionCookie, Value: test.session})
		reply := httptest.NewRecorder()
		router.ServeHTTP(reply, request)
		if reply.Code != test.status || !slices.Equal(seen.Tenants, strings.Fields(test.tenants)) {
			t.Errorf("%s of %s, %s %s: %d %v", test.pattern, test.session, test.permission, test.team, reply.Code, seen)
		}
	}
}

// A person whom the provider calls as the gateway calls others is neither taken for them nor logged like them.
func TestAPersonIsNotTakenForAnotherByTheName(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	credentials := gatewaytest.Start(t, gatewaytest.SecuredYAML()).Credentials
	gate := web.NewGate(web.GateOptions{
		Roster: credentials.Roster, Version: func() int { return 1 }, Log: slog.New(slog.NewTextHandler(&log, nil)), Loopback: true,
		Sessions: []func(string, time.Time) (access.Identity, bool, error){
			func(text string, _ time.Time) (access.Identity, bool, error) {
				return access.Identity{Name: text, Subject: "7", Issuer: "https://i", Role: access.Operator}, true, nil
			},
		},
	})
	for _, name := range []string{access.OpenName, "gateway", "adm"} {
		handler := gate.Guard(web.Route{Pattern: "POST /api/x", Permission: access.ReadMetrics, Handler: func(http.ResponseWriter, *http.Request) {}})
		r := httptest.NewRequest(http.MethodPost, "/api/x", nil)
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		r.AddCookie(&http.Cookie{Name: web.SessionCookie, Value: name})
		w := httptest.NewRecorder()
		handler(w, r)
		if w.Code != http.StatusOK || !strings.Contains(log.String(), name+" <7 at https://i>") {
			t.Errorf("%s: got %d, log %s", name, w.Code, log.String())
		}
	}
}
