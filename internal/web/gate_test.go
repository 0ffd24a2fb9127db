package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// Who may see secrets while no tokens are asked for: callers of a gateway that
// only this machine can reach, unless they are pages of other sites.
func TestSecretsOfAnOpenGateway(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		loopback bool
		header   http.Header
		sees     bool
	}{
		{"loopback", true, nil, true},
		{"loopback, cross-site", true, http.Header{"Sec-Fetch-Site": {"cross-site"}}, false},
		{"loopback, other origin", true, http.Header{"Origin": {"https://evil.example"}}, false},
		{"loopback, no origin at all", true, http.Header{"Origin": {"null"}}, false},
		{"for everybody", false, nil, false},
	} {
		gate := web.NewGate(web.GateOptions{Loopback: test.loopback, Version: func() int { return 1 }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		var who access.Identity
		handler := gate.Guard(web.Route{Pattern: "GET /api/x", Permission: access.ReadTypes, Handler: func(_ http.ResponseWriter, r *http.Request) { who = web.IdentityOf(r) }})
		request := httptest.NewRequest(http.MethodGet, "http://localhost/api/x", nil)
		request.Header = test.header
		if request.Header == nil {
			request.Header = http.Header{}
		}
		handler(httptest.NewRecorder(), request)
		if who.Name != "open" || who.Role != access.Admin || who.SeesSecrets != test.sees {
			t.Errorf("%s: %+v", test.name, who)
		}
	}
}
