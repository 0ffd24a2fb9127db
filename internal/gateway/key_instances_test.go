package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// TestRequestsOfAKeyStayAtItsInstances has keys that are limited to one of two backends of the
// same models: nothing of a key reaches the other, whatever becomes of its own.
func TestRequestsOfAKeyStayAtItsInstances(t *testing.T) {
	t.Parallel()
	east, west := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	instances := fmt.Sprintf("instances: [{name: m, base-url: %q}, {name: m, base-url: %q}]", east.URL(), west.URL())
	r := gatewaytest.Start(t, keyed(`
limits: {max-attempts: 3}
services:
  chat: {hedge: {enabled: true}, fallbacks: {m: [other]}, instances: [{name: m, base-url: "`+east.URL()+`"}, {name: m, base-url: "`+west.URL()+`", tier: 1}, {name: other, base-url: "`+west.URL()+`"}]}
  embedding: {split: {max-split: 2, min-inputs: 1, min-tokens: 1}, `+instances+`}
`, "  tenants: [{name: far, instances: ['*@"+west.URL()+"']}]\n", map[string]string{
		"east": ", instances: ['*@" + east.URL() + "']", "west": ", instances: ['m@" + west.URL() + "', 'x@*']",
		"nowhere": ", instances: ['*@http://elsewhere*']", "both": ", tenant: far, instances: ['*@" + east.URL() + "']", "free": "",
	}))
	embed := `{"model":"m","input":["a","b","c","d"]}`
	calls := func(b *simulator.Backend) (n int) {
		for _, request := range b.Requests() {
			if request.Method == http.MethodPost {
				n++
			}
		}
		return n
	}
	for range 4 {
		r.Chat(gatewaytest.PlainHi, bearer("east")...).Succeeds(t)
		r.Do(http.MethodPost, "/v1/embeddings", embed, bearer("east")...).Succeeds(t)
	}
	if calls(east) != 8 || calls(west) != 0 {
		t.Errorf("the key of the east called %d and %d times", calls(east), calls(west))
	}
	for range 4 {
		r.Chat(gatewaytest.PlainHi, bearer("west")...).Succeeds(t)
		r.Do(http.MethodPost, "/v1/embeddings", embed, bearer("west")...).Succeeds(t)
	}
	if calls(east) != 8 || calls(west) != 8 {
		t.Errorf("the key of the west called %d and %d times", calls(east)-8, calls(west))
	}
	for _, key := range []string{"nowhere", "both"} {
		r.Chat(gatewaytest.PlainHi, bearer(key)...).FailsWith(t, 403, "permission_error", "permission_denied", "")
	}
	r.Chat(`{"model":"other",`+gatewaytest.SomeMessages+`}`, bearer("west")...).FailsWith(t, 403, "permission_error", "permission_denied", "")
	r.Do(http.MethodPost, "/v1/embeddings", embed, bearer("free")...).Succeeds(t)
	if calls(east) != 9 || calls(west) != 9 {
		t.Errorf("a request of a free key was not split: %d and %d", calls(east), calls(west))
	}
	// Its own backend is gone: neither a retry, the next tier nor a fallback goes elsewhere.
	gatewaytest.TakeAway(t, east)
	for range 3 {
		if got := r.Chat(gatewaytest.PlainHi, bearer("east")...); got.Status < 500 {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	r.Chat(gatewaytest.PlainHi, bearer("free")...).Succeeds(t)
	if got := calls(west); got != 10 {
		t.Errorf("the west was called %d times", got)
	}
}

// TestInstancesOfAKeyAreSetByTheAPI issues such a key and changes it.
func TestInstancesOfAKeyAreSetByTheAPI(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"security: {enabled: true, tokens: [{name: ops, role: ADMIN, token-sha256: "+gatewaytest.HashOf("ops")+"}]}\n")
	issued := r.API(http.MethodPost, "/api/auth/keys", `{"id":"k","instances":["*@http://elsewhere"]}`, bearer("ops")...).Is(t, 201, `"instances":["*@http://elsewhere"]`)
	text := gatewaytest.DataOf[struct {
		Key string `json:"key"`
	}](t, issued).Key
	r.Chat(gatewaytest.PlainHi, bearer(text)...).FailsWith(t, 403, "permission_error", "permission_denied", "")
	r.API(http.MethodPut, "/api/auth/keys/k", `{"instances":["*@`+b.URL()+`"]}`, bearer("ops")...).Is(t, 200)
	r.Chat(gatewaytest.PlainHi, bearer(text)...).Succeeds(t)
	if bad := r.API(http.MethodPut, "/api/auth/keys/k", `{"instances":[""]}`, bearer("ops")...); bad.Status != 400 || !strings.Contains(bad.Body, "instances[0]") {
		t.Errorf("%d %s", bad.Status, bad.Body)
	}
}

// A key that stays at its instances gets no answer that another key of its tenant has from
// elsewhere, neither from the cache nor by sharing a call.
func TestAKeyOfInstancesSharesNoAnswers(t *testing.T) {
	t.Parallel()
	east, west := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, keyed(`
services:
  chat: {instances: [{name: m, base-url: "`+east.URL()+`"}, {name: m, base-url: "`+west.URL()+`", tier: 1}]}
`, "  tenants: [{name: acme}]\n", map[string]string{
		"free": ", tenant: acme", "also": ", tenant: acme", "west": ", tenant: acme, instances: ['*@" + west.URL() + "']",
	})+cacheOn)
	for _, c := range []struct{ key, cache string }{{"free", "miss"}, {"also", "hit"}, {"west", "miss"}, {"west", "hit"}} {
		cacheIs(t, r.Chat(cold("hi"), bearer(c.key)...), c.cache)
	}
	if got := len(west.Requests()); got != 1 {
		t.Errorf("the west was called %d times", got)
	}
}

// A key that stays at its instances sees the models of these instances in every list.
func TestAKeyOfInstancesSeesTheirModels(t *testing.T) {
	t.Parallel()
	east, west := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, keyed(`
services:
  chat: {aliases: {here: near, there: away}, instances: [{name: near, base-url: "`+east.URL()+`"}, {name: away, base-url: "`+west.URL()+`"}]}
`, "", map[string]string{"east": ", instances: ['*@" + east.URL() + "']", "free": ""}))
	for _, path := range []string{"/v1/models", "/ollama/api/tags", "/v1beta/models"} {
		for key, sees := range map[string]bool{"east": false, "free": true} {
			list := r.Do(http.MethodGet, path, "", bearer(key)...).Succeeds(t).Body
			if !strings.Contains(list, "near") || !strings.Contains(list, "here") ||
				strings.Contains(list, "away") != sees || strings.Contains(list, "there") != sees {
				t.Errorf("%s lists for %s: %s", path, key, list)
			}
		}
	}
	r.Do(http.MethodGet, "/v1/models/away", "", bearer("east")...).FailsWith(t, 404, "not_found_error", "model_not_found", "model")
}

// An explanation for a key that is limited to some instances has those as candidates that requests with the key
// reach, and the refusal that they get.
func TestExplanationsApplyTheInstancesOfAKey(t *testing.T) {
	t.Parallel()
	east, west := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, keyed(`
services:
  chat: {health-check: {enabled: false}, load-balancer: round-robin, fallbacks: {alone: [m]}, instances: [{name: m, base-url: "`+east.URL()+`"}, {name: m, base-url: "`+west.URL()+`"}, {name: alone, base-url: "`+east.URL()+`"}, {name: off, enabled: false, base-url: "`+west.URL()+`"}]}
`, "  tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin-token")+"}]\n  tenants: [{name: far, instances: ['*@"+west.URL()+"']}]\n", map[string]string{
		"east": ", instances: ['*@" + east.URL() + "']", "west": ", instances: ['*@" + west.URL() + "']",
		"nowhere": ", instances: ['*@http://elsewhere*']", "both": ", tenant: far, instances: ['*@" + east.URL() + "']", "free": "",
	}))
	type explained struct {
		Candidates []struct {
			InstanceID string `json:"instanceId"`
			Handle     string `json:"handle"`
			Eligible   bool   `json:"eligible"`
			Reason     string `json:"reason"`
		} `json:"candidates"`
		ServedModel string `json:"servedModel"`
		Refusal     *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"refusal"`
	}
	const isForbidden = "the key may not use it"
	for _, key := range []string{"east", "west", "nowhere", "both", "free"} {
		for _, model := range []string{"m", "alone", "off"} {
			body := `{"model":"` + model + `",` + gatewaytest.SomeMessages + `}`
			x := gatewaytest.DataOf[explained](t, r.API(http.MethodPost, "/api/route/explain?door=chat&keyId="+key, body, bearer("admin-token")...).Is(t, 200))
			want, got, forbidden := map[string]bool{}, map[string]bool{}, 0
			for _, c := range x.Candidates {
				if c.Eligible {
					want[c.Handle] = true
				}
				if c.Reason == isForbidden {
					forbidden++
				} else if !strings.HasSuffix(c.InstanceID, east.URL()) && key == "east" || !strings.HasSuffix(c.InstanceID, west.URL()) && key == "west" || key == "nowhere" {
					t.Errorf("%s, %s: got %+v, want %q", key, model, c, isForbidden)
				}
			}
			if key == "free" && forbidden > 0 {
				t.Errorf("%s, %s: %d instances are forbidden, want none", key, model, forbidden)
			}
			var reply gatewaytest.Reply
			for range 4 {
				if reply = r.Chat(body, bearer(key)...); reply.Status == http.StatusOK {
					got[reply.Header.Get("X-Router-Instance")] = true
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, %s: the instances %v were called, want %v", key, model, got, want)
			}
			if (reply.Status == http.StatusOK) != (x.Refusal == nil) || x.Refusal != nil && gatewaytest.At(t, gatewaytest.DecodeObject(t, reply.Body), "error/message") != x.Refusal.Message {
				t.Errorf("%s, %s: got %d %s, want as explained: %+v", key, model, reply.Status, reply.Body, x.Refusal)
			}
		}
	}
}
