package monitor_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// TestRunningRequestsAreSeenAndStopped: an operator sees a request while it runs and ends it.
// Its client is told, whether its answer has begun or not, its instance is free, and the record
// says who it was.
func TestRunningRequestsAreSeenAndStopped(t *testing.T) {
	t.Parallel()
	for name, isHTTP2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent, held := gatewaytest.StartBackend(t), gatewaytest.StartHeldBackend(t)
			silent.ScriptForever(simulator.Step{Hang: true})
			r := gatewaytest.StartWith(t, gatewaytest.Setup{
				HTTP2: isHTTP2,
				YAML:  gatewaytest.ChatYAML(gatewaytest.Instance("m", silent.URL()), gatewaytest.Instance("s", held.URL)) + gatewaytest.SecuredYAML(),
			})
			stop := func(id, token, body string) gatewaytest.Reply {
				return r.Do(http.MethodPost, "/api/monitoring/running/"+id+"/stop", body, "Authorization", token)
			}
			plain := r.ChatLater(t.Context(), gatewaytest.PlainHi, "X-Request-Id", "plain", "X-Tenant-Id", "acme")
			stream := r.ChatLater(t.Context(), `{"model":"s","stream":true,`+gatewaytest.SomeMessages+`}`, "X-Request-Id", "stream")
			<-held.Entered
			gatewaytest.Eventually(t, "both run", func() bool {
				list := r.GetObject("/api/monitoring/running?instance=m@"+silent.URL()+"&host="+strings.TrimPrefix(silent.URL(), "http://"), "Authorization", asViewer)["running"].([]any)
				return len(list) == 1 && list[0].(map[string]any)["requestId"] == "plain" && list[0].(map[string]any)["tenant"] == "acme" &&
					r.GetObject("/api/monitoring/running", "Authorization", asViewer)["total"] == 2.0
			})
			one := r.GetObject("/api/monitoring/running?limit=1", "Authorization", asViewer)
			if len(one["running"].([]any)) != 1 || one["total"] != 2.0 {
				t.Errorf("want one of two: %v", one)
			}
			if got := r.Do(http.MethodGet, "/api/monitoring/running?limit=0", "", "Authorization", asViewer).Status; got != http.StatusBadRequest {
				t.Errorf("%d", got)
			}
			if got := stop("plain", asViewer, "{}").Status; got != http.StatusForbidden {
				t.Errorf("a viewer may stop requests: %d", got)
			}
			if got := stop("nobody", asOperator, "{}").Status; got != http.StatusNotFound {
				t.Errorf("%d", got)
			}
			if got := stop("plain", asOperator, `{"reason":"`+strings.Repeat("x", 201)+`"}`).Status; got != http.StatusBadRequest {
				t.Errorf("%d", got)
			}
			stop("plain", asOperator, `{"reason":"it loops"}`).Succeeds(t)
			stop("stream", asOperator, `{}`).Succeeds(t)
			if reply := <-plain; reply.Status != http.StatusServiceUnavailable || !strings.Contains(reply.Body, "stopped_by_operator") || !strings.Contains(reply.Body, "it loops") || reply.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("%d %v %s", reply.Status, reply.Header, reply.Body)
			}
			if reply := <-stream; reply.Status != http.StatusOK || !strings.Contains(reply.Body, "first") || !strings.Contains(reply.Body, "stopped_by_operator") {
				t.Errorf("%d %s", reply.Status, reply.Body)
			}
			gatewaytest.Eventually(t, "nothing runs", func() bool {
				return r.GetObject("/api/monitoring/running", "Authorization", asViewer)["total"] == 0.0
			})
			for _, id := range []string{"plain", "stream"} {
				call := r.GetObject("/api/monitoring/calls/"+id, "Authorization", asViewer)
				if call["errorCode"] != "stopped_by_operator" || call["clientGone"] != nil {
					t.Errorf("%v", call)
				}
			}
			for _, model := range []string{"m", "s"} {
				one := r.Instances(model)[0]
				if _, failures, _ := gatewaytest.Outcomes(one); failures != 0 {
					t.Errorf("%s: %d failures", model, failures)
				}
				gatewaytest.Eventually(t, "the instance is free", func() bool { return one.InFlight() == 0 })
			}
			if got := gatewaytest.CountLines(r.Logs.String(), `"logger":"audit"`, "request plain stopped by o"); got != 1 {
				t.Errorf("%d lines in the audit log", got)
			}
		})
	}
}

// TestProblemsAreGroupedByCause: models of one host that fail alike are one problem, with what
// was rescued and lost, and so is what a limit refuses, with its share.
func TestProblemsAreGroupedByCause(t *testing.T) {
	t.Parallel()
	bad, good := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	bad.ScriptForever(simulator.Step{Status: 503, Body: `{"error":{"message":"model is loading"}}`, Header: gatewaytest.ContentType("application/json")})
	r := gatewaytest.Start(t, `
security:
  enabled: true
  tokens: [{name: a, token-sha256: `+gatewaytest.HashOf("admin-token")+`, role: ADMIN}]
  keys: [{id: bot, key-sha256: `+gatewaytest.HashOf("sk-bot")+`, limits: {requests-per-minute: 2}}, {id: other, key-sha256: `+gatewaytest.HashOf("sk-other")+`}]
services: {chat: {`+gatewaytest.NoChecks+`, circuit-breaker: {enabled: false}, instances: [`+gatewaytest.Instance("one", bad.URL())+", "+gatewaytest.Instance("two", bad.URL())+", "+gatewaytest.Instance("two", good.URL())+`]}}
`)
	chat := func(model, key string) {
		r.Chat(`{"model":"`+model+`",`+gatewaytest.SomeMessages+`}`, "Authorization", "Bearer "+key)
	}
	for range 4 {
		chat("one", "sk-other")
		chat("two", "sk-other")
		chat("two", "sk-bot")
	}
	chat("gpt-5o", "sk-other")
	groups := map[string]map[string]any{}
	for _, group := range gatewaytest.At(t, r.GetObject("/api/monitoring/problems", "Authorization", asAdmin), "groups").([]any) {
		one := group.(map[string]any)
		groups[one["kind"].(string)] = one
	}
	backend, refusal, request := groups["backend"], groups["refusal"], groups["request"]
	host := strings.TrimPrefix(bad.URL(), "http://")
	if backend["subject"] != host || fmt.Sprint(backend["models"]) != "[one two]" || backend["lost"] != 4.0 || backend["rescued"].(float64) < 1 || backend["httpStatus"] != 503.0 || !strings.Contains(fmt.Sprint(backend["text"]), "model is loading") {
		t.Errorf("%v", backend)
	}
	if refusal["subject"] != "key/bot" || refusal["refused"] != 2.0 || refusal["callsRefused"] != 2.0 || refusal["lost"] != 0.0 || refusal["until"] == nil {
		t.Errorf("%v", refusal)
	}
	if request["subject"] != "gpt-5o" || request["refused"] != 1.0 || request["lost"] != 0.0 {
		t.Errorf("%v", request)
	}
	if len(groups) != 3 {
		t.Errorf("%v", groups)
	}
}

// TestWhatBelongsToAHost: the calls that were tried at a host, also where another one answered, and
// the history of its instances.
func TestWhatBelongsToAHost(t *testing.T) {
	t.Parallel()
	bad, good := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	bad.ScriptForever(simulator.Step{Status: 503})
	r := gatewaytest.Start(t, `
services: {chat: {`+gatewaytest.NoChecks+`, circuit-breaker: {enabled: false}, fallbacks: {one: [two]},
  instances: [`+gatewaytest.Instance("one", bad.URL())+", "+gatewaytest.Instance("two", good.URL())+`]}}
`)
	r.Chat(`{"model":"one",`+gatewaytest.SomeMessages+`}`, "X-Request-ID", "rescued").Succeeds(t)
	r.Chat(`{"model":"two",`+gatewaytest.SomeMessages+`}`, "X-Request-ID", "plain").Succeeds(t)
	for host, want := range map[string]string{bad.URL(): "[rescued]", good.URL(): "[plain rescued]", "http://127.0.0.1:1": "[]"} {
		host := strings.TrimPrefix(host, "http://")
		if got := fmt.Sprint(callIDs(t, r.GetObject("/api/monitoring/calls?host="+host))); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	gatewaytest.Eventually(t, "the history of the host has its instance alone", func() bool {
		series := gatewaytest.At(t, r.GetObject("/api/monitoring/series?by=instance&metric=requests&host="+strings.TrimPrefix(bad.URL(), "http://")), "series").([]any)
		return len(series) == 1 && gatewaytest.At(t, series[0], "model") == "one"
	})
}

// TestOpenBreakersBelongToWhatOpenedThem: a request that no instance may take is lost by the
// host that failed, and a host is blamed for its own model, not for the one that took over. It is
// not blamed for a request that went on to another model for another reason.
func TestOpenBreakersBelongToWhatOpenedThem(t *testing.T) {
	t.Parallel()
	bad, good := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	bad.ScriptForever(simulator.Step{Status: 503, Body: `{"error":{"message":"model is loading"}}`, Header: gatewaytest.ContentType("application/json")})
	r := gatewaytest.Start(t, `
services: {chat: {`+gatewaytest.NoChecks+`, aliases: {second: two}, fallbacks: {two: [spare]}, circuit-breaker: {failure-threshold: 2, recovery-timeout: 1h},
  instances: [`+gatewaytest.Instance("one", bad.URL())+", "+gatewaytest.Instance("two", bad.URL())+", "+gatewaytest.Instance("spare", good.URL())+`]}}
`)
	for range 5 {
		r.Chat(`{"model":"one",` + gatewaytest.SomeMessages + `}`)
	}
	for range 3 { // the last of them finds the breaker open
		r.Chat(`{"model":"two",` + gatewaytest.SomeMessages + `}`).Succeeds(t)
	}
	r.Chat(`{"model":"second",`+gatewaytest.SomeMessages+`}`, "X-Request-ID", "behind").Succeeds(t)
	r.ChangeChat(func(s *config.Service) { s.Instances[1].Enabled = false })
	r.Chat(`{"model":"two",`+gatewaytest.SomeMessages+`}`, "X-Request-ID", "disabled").Succeeds(t)
	groups := gatewaytest.At(t, r.GetObject("/api/monitoring/problems"), "groups").([]any)
	kinds := ""
	for _, group := range groups {
		kinds += fmt.Sprint(group.(map[string]any)["kind"], " ")
	}
	if kinds != "backend down replaced " { // the causes, and what they lead to
		t.Fatalf("%v", groups)
	}
	if one := groups[0].(map[string]any); one["kind"] != "backend" || fmt.Sprint(one["models"]) != "[one two]" || one["lost"] != 5.0 || one["rescued"] != 4.0 || one["requestId"] != "behind" || fmt.Sprint(one["fallbacks"]) != "[map[by:spare model:two]]" {
		t.Errorf("%v", one)
	}
}

// TestProblemsKeepTheirPlaces: a problem that goes on does not pass one that began after it.
func TestProblemsKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "services: {chat: {instances: ["+gatewaytest.Instance("m", "http://127.0.0.1:1")+"]}}")
	for _, model := range []string{"first", "second", "first"} {
		r.Chat(`{"model":"` + model + `",` + gatewaytest.SomeMessages + `}`)
	}
	got := ""
	for _, group := range gatewaytest.At(t, r.GetObject("/api/monitoring/problems"), "groups").([]any) {
		got += fmt.Sprint(group.(map[string]any)["subject"], " ")
	}
	if got != "second first " {
		t.Error(got)
	}
}
