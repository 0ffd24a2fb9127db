package v1_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Errors of every door link to what is said about their codes, at the address that
// clients use.
func TestErrorsLinkToTheirExplanation(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "server: {management-listen: ['127.0.0.1:0']}\n")
	for _, reply := range []gatewaytest.Reply{
		r.Chat(gatewaytest.PlainHi), r.Chat(`{`), r.Post("/v1/messages", `{"model":"m"}`), r.Post("/v1/nothing", ""), r.Do(http.MethodPut, "/v1/models", ""),
	} {
		link := regexp.MustCompile(`^<(/docs/errors)#([a-z_]+)>; rel="help"$`).FindStringSubmatch(reply.Header.Get("Link"))
		if len(link) == 0 || !strings.Contains(reply.Body, `"code":"`+link[2]+`"`) {
			t.Fatalf("%d %s links to %q", reply.Status, reply.Body, reply.Header.Get("Link"))
		}
		page := r.Do(http.MethodGet, link[1], "").Succeeds(t)
		if !strings.Contains(page.Body, `<h2 id="`+link[2]+`">`) || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
			t.Errorf("the page does not explain %s", link[2])
		}
	}
	if reply := r.Do(http.MethodGet, "/v1/models", "").Succeeds(t); reply.Header.Get("Link") != "" {
		t.Error("a good reply has a link")
	}
}
