package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Who may do what, and see secrets, while no tokens are asked for: callers of a gateway
// that only this machine can reach, unless they are pages of other sites.
func TestCallersOfAnOpenGateway(t *testing.T) {
	t.Parallel()
	const page = "https://page.example"
	crossSite := http.Header{"Origin": {page}, "Sec-Fetch-Site": {"cross-site"}}
	for _, test := range []struct {
		name     string
		loopback bool
		header   http.Header
		origins  []string
		status   int
		sees     bool
	}{
		{"loopback", true, http.Header{}, []string{"*"}, 200, true},
		{"loopback, own page", true, http.Header{"Origin": {"http://localhost"}, "Sec-Fetch-Site": {"same-origin"}}, []string{"*"}, 200, true},
		{"loopback, own page, old browser", true, http.Header{"Origin": {"http://localhost"}}, []string{"*"}, 200, true},
		{"loopback, typed by a person", true, http.Header{"Sec-Fetch-Site": {"none"}}, []string{"*"}, 200, true},
		{"loopback, through a proxy for development", true, http.Header{"Origin": {"http://localhost:5173"}, "Sec-Fetch-Site": {"same-origin"}}, []string{"*"}, 200, true},
		{"loopback, cross-site", true, crossSite, []string{"*"}, 403, false},
		{"loopback, cross-site without origin", true, http.Header{"Sec-Fetch-Site": {"cross-site"}}, []string{"*", page}, 403, false},
		{"loopback, same site", true, http.Header{"Sec-Fetch-Site": {"same-site"}}, []string{"*"}, 403, false},
		{"loopback, other origin", true, http.Header{"Origin": {page}}, []string{"*"}, 403, false},
		{"loopback, no origin at all", true, http.Header{"Origin": {"null"}}, []string{"*"}, 403, false},
		{"loopback, two origins", true, http.Header{"Origin": {page, "https://evil.example"}}, []string{page}, 403, false},
		{"loopback, named", true, crossSite, []string{"HTTPS://Page.Example"}, 200, false},
		{"loopback, named beside all", true, crossSite, []string{"*", page}, 200, false},
		{"loopback, another one is named", true, crossSite, []string{"https://page.example.evil.example"}, 403, false},
		{"for everybody", false, http.Header{}, []string{"*"}, 200, false},
		{"for everybody, cross-site", false, crossSite, []string{"*"}, 403, false},
	} {
		gate := web.NewGate(web.GateOptions{Loopback: test.loopback, Origins: test.origins, Version: func() int { return 1 }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
			var who access.Identity
			handler := gate.Guard(web.Route{Pattern: method + " /api/x", Permission: access.ReadTypes, Handler: func(_ http.ResponseWriter, r *http.Request) { who = web.IdentityOf(r) }})
			request := httptest.NewRequest(method, "http://localhost/api/x", nil)
			request.Header = test.header
			reply := httptest.NewRecorder()
			handler(reply, request)
			if reply.Code != test.status || test.status == 200 && (who.Name != "open" || who.Role != access.Admin) || who.SeesSecrets != test.sees {
				t.Errorf("%s, %s: %d %+v", test.name, method, reply.Code, who)
			}
		}
	}
}
