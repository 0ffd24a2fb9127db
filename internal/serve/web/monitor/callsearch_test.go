package monitor_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// callIDs returns the ids of a page of calls.
func callIDs(t *testing.T, page map[string]any) []string {
	t.Helper()
	ids := []string{}
	for _, call := range gatewaytest.At(t, page, "calls").([]any) {
		ids = append(ids, call.(map[string]any)["requestId"].(string))
	}
	return ids
}

// TestPagesOfCallsAcrossMemoryAndFile: with two calls in memory and the others in the file,
// pages have every call once, whatever arrives between them.
func TestPagesOfCallsAcrossMemoryAndFile(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "monitoring: {calls: 3, calls-file: {enabled: true}}\n"+gatewaytest.PoolYAML(gatewaytest.StartBackend(t)))
	for i := range 9 {
		r.Chat(gatewaytest.PlainHi, "X-Request-Id", fmt.Sprint("call-", i)).Succeeds(t)
	}
	var seen []string
	first := r.GetObject("/api/monitoring/calls?limit=2&brief=true")
	for page, n := first, 0; ; n++ {
		seen = append(seen, callIDs(t, page)...)
		next, ok := page["next"].(string)
		if !ok {
			break
		}
		r.Chat(gatewaytest.PlainHi, "X-Request-Id", fmt.Sprint("later-", n)).Succeeds(t)
		page = r.GetObject("/api/monitoring/calls?limit=2&cursor=" + next)
	}
	if got := strings.Join(seen, " "); got != "call-8 call-7 call-6 call-5 call-4 call-3 call-2 call-1 call-0" {
		t.Error(got)
	}
	newer := r.GetObject("/api/monitoring/calls?after=" + first["latest"].(string))
	if got := callIDs(t, newer); len(got) == 0 || strings.Contains(strings.Join(got, " "), "call-") || first["fileDays"] != 7.0 {
		t.Errorf("%v", got)
	}
	old := gatewaytest.At(t, r.GetObject("/api/monitoring/calls?requestId=call-0"), "calls/0").(map[string]any)
	for _, query := range []string{"", fmt.Sprint("?number=", old["number"])} {
		if call := r.GetObject("/api/monitoring/calls/call-0" + query); call["timeline"] == nil || call["model"] != "m" || gatewaytest.At(t, call, "tries/0/instance") == nil {
			t.Errorf("%s: %v", query, call)
		}
	}
	if got := r.Do(http.MethodGet, "/api/monitoring/calls/call-0?number=1234567", "").Status; got != http.StatusNotFound {
		t.Errorf("%d", got)
	}
	for _, query := range []string{"cursor=x", "cursor=AQ", "after=%00", "outcome=well", "httpStatus=x", "brief=x", "maxDurationMs=-1"} {
		if got := r.Do(http.MethodGet, "/api/monitoring/calls?"+query, "").Status; got != http.StatusBadRequest {
			t.Errorf("%s: %d", query, got)
		}
	}
}

// TestCallsSayWhatTheirCallersWereTold: the name that was asked for, the message, and whose
// limit refused them until when.
func TestCallsSayWhatTheirCallersWereTold(t *testing.T) {
	t.Parallel()
	bad, good := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	bad.ScriptForever(simulator.Step{Status: 503, Body: `{"error":{"message":"the model is loading"}}`, Header: gatewaytest.ContentType("application/json")})
	r := gatewaytest.Start(t, `
security:
  enabled: true
  tokens: [{name: admin, token-sha256: `+gatewaytest.HashOf("admin-token")+`, role: ADMIN}]
  tenants: [{name: acme, limits: {requests-per-minute: 2}}]
  keys: [{id: support-bot, key-sha256: `+gatewaytest.HashOf("sk-support-bot")+`, tenant: acme}, {id: other, key-sha256: `+gatewaytest.HashOf("sk-other")+`}]
services: {chat: {`+gatewaytest.NoChecks+`, instances: [`+gatewaytest.Instance("m", bad.URL())+", "+gatewaytest.Instance("m", good.URL())+`]}}
`)
	chat := func(id, model, key string) {
		r.Chat(`{"model":"`+model+`",`+gatewaytest.SomeMessages+`}`, "X-Request-Id", id, "Authorization", "Bearer "+key)
	}
	get := func(query string) map[string]any {
		return r.GetObject("/api/monitoring/calls?"+query, "Authorization", asAdmin)
	}
	chat("wrong-name", "gpt-5o", "sk-other")
	for n := range 3 {
		chat(fmt.Sprint("bot-", n), "m", "sk-support-bot")
	}
	wrong := gatewaytest.At(t, get("requestId=wrong-name"), "calls/0").(map[string]any)
	if text := fmt.Sprint(wrong["errorMessage"]); wrong["asked"] != "gpt-5o" || !strings.Contains(text, `"gpt-5o"`) || !strings.Contains(text, "Configured are") {
		t.Errorf("%v", wrong)
	}
	refused := gatewaytest.At(t, get("outcome=refused"), "calls/0").(map[string]any)
	if refused["requestId"] != "bot-2" || refused["refusedBy"] != "tenant/acme" || refused["tenant"] != "acme" || refused["refusedUntil"] == nil ||
		!strings.Contains(fmt.Sprint(refused["errorMessage"]), "The limit of the tenant acme, 2 requests a minute, is reached") {
		t.Errorf("%v", refused)
	}
	for query, want := range map[string]string{
		"asked=gpt-5o":                                "wrong-name",
		"tenant=acme":                                 "bot-2 bot-1 bot-0",
		"keyId=support-bot&outcome=failed":            "bot-2",
		"refusedBy=" + url.QueryEscape("tenant/acme"): "bot-2",
		"httpStatus=429":                              "bot-2",
		"errorText=MINUTE":                            "bot-2",
		"q=rate_limit":                                "bot-2",
		"q=gpt-5":                                     "wrong-name",
		"outcome=answered&maxDurationMs=1e9":          "bot-1 bot-0",
		"outcome=troubled&errorText=loading":          strings.Join(callIDs(t, get("outcome=retried")), " "),
		"instance=" + url.QueryEscape("m@"+bad.URL()): strings.Join(callIDs(t, get("outcome=retried")), " "),
	} {
		if got := strings.Join(callIDs(t, get(query)), " "); got != want || got == "" {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	// What an error says of others makes it no call of theirs.
	for _, query := range []string{"q=minute", "q=configured", "errorText=wrong-name"} {
		if got := callIDs(t, get(query)); len(got) > 0 {
			t.Errorf("%s: %v", query, got)
		}
	}
	gatewaytest.Eventually(t, "the tenant has a history", func() bool {
		h := r.GetObject("/api/monitoring/series?by=tenant&tenant=acme&metric=requests", "Authorization", asAdmin)
		return len(h["series"].([]any)) == 1 && sumOf(t, h, "answered") == 2 && sumOf(t, h, "limited") == 1
	})
}

// sumOf adds up the points of the first series of a history.
func sumOf(t *testing.T, history map[string]any, outcome string) (sum float64) {
	for _, n := range gatewaytest.At(t, history, "series/0/requests/"+outcome).([]any) {
		if n != nil {
			sum += n.(float64)
		}
	}
	return sum
}

// TestTheFileOutlivesTheGateway: calls of an earlier run are found, and new ones come before
// them.
func TestTheFileOutlivesTheGateway(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	setup := gatewaytest.Setup{YAML: "monitoring: {calls-file: {enabled: true}}\n" + gatewaytest.PoolYAML(b), DataDir: t.TempDir()}
	for run := range 2 {
		r := gatewaytest.StartWith(t, setup)
		r.Chat(gatewaytest.PlainHi, "X-Request-Id", fmt.Sprint("run-", run)).Succeeds(t)
		if run == 1 {
			if got := strings.Join(callIDs(t, r.GetObject("/api/monitoring/calls")), " "); got != "run-1 run-0" {
				t.Error(got)
			}
		}
		r.Halt()
	}
}
