package proxy_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func aliasYAML(url string) string {
	return gatewaytest.PolicyYAML("aliases: {gpt-4o: m, default: gpt-4o, other: named}, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", url), gatewaytest.Instance("named", url, "upstream-model: real"))
}

func chatFor(model string) string {
	return `{"model":"` + model + `",` + gatewaytest.SomeMessages + `}`
}

func TestAliasIsServedByItsModel(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, aliasYAML(b.URL())+"quota: {enabled: true}\n")
	for n, row := range []struct{ asked, served, upstream string }{
		{"m", "", "m"}, {"gpt-4o", "m", "m"}, {"default", "m", "m"}, {"named", "", "real"}, {"other", "named", "real"},
	} {
		reply := r.Chat(chatFor(row.asked)).Succeeds(t)
		if got := reply.Header.Get("X-Router-Model"); got != row.served {
			t.Errorf("%s: x-router-model %q, want %q", row.asked, got, row.served)
		}
		if got := gatewaytest.At(t, gatewaytest.DecodeObject(t, reply.Body), "model"); got != row.asked {
			t.Errorf("%s: the reply names the model %v", row.asked, got)
		}
		sent := string(b.Requests()[n].Body)
		if !strings.Contains(sent, `"model":"`+row.upstream+`"`) {
			t.Errorf("%s: the backend got %s", row.asked, sent)
		}
	}
	stream := r.Stream(gatewaytest.Deadline(t), `{"model":"default","stream":true,`+gatewaytest.SomeMessages+`}`)
	if event, err := stream.Next(); err != nil || !strings.Contains(event, `"model":"default"`) {
		t.Errorf("a stream names the model otherwise: %s %v", event, err)
	}
	// The ledger and the counts know only models.
	for model, want := range map[string]int64{"m": 4, "gpt-4o": 0, "default": 0, "named": 2} {
		if got, _ := gatewaytest.Counted(t, func() gatewaytest.Reply { return r.Do(http.MethodGet, gatewaytest.LongAgo+"&model="+model, "") }); got != want {
			t.Errorf("the ledger has %d requests of %s, want %d", got, model, want)
		}
	}
}

// Names that clients of another gateway send lead to models by a pattern. An exact name goes
// before it, a key needs the model and not the name, and no list shows it.
func TestPatternsLeadToModels(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	policy := `aliases: {"openai/*": "*", "openai/big-*": "big/*", fast: m, "old/*": "new/*"}, fallbacks: {m: [other]}, `
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(policy+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("openai/own", b.URL()), gatewaytest.Instance("big/m", b.URL()),
		gatewaytest.Instance("other", b.URL())))
	for asked, served := range map[string]string{
		"openai/m": "m", "openai/fast": "m", "openai/own": "", "openai/big-m": "big/m", "openai/openai/own": "openai/own",
	} {
		reply := r.Chat(chatFor(asked)).Succeeds(t)
		if got := reply.Header.Get("X-Router-Model"); got != served {
			t.Errorf("%s: x-router-model %q, want %q", asked, got, served)
		}
		if got := gatewaytest.At(t, gatewaytest.DecodeObject(t, reply.Body), "model"); got != asked {
			t.Errorf("%s: the reply names the model %v", asked, got)
		}
	}
	for _, unknown := range []string{"openai/none", "old/m", "openai/", "openai/*"} {
		r.Chat(chatFor(unknown)).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	}
	if got := r.Models(); !slices.Equal(got, []string{"big/m", "fast", "m", "openai/own", "other"}) {
		t.Errorf("models %v", got)
	}
	x := gatewaytest.DataOf[any](t, r.API(http.MethodGet, "/api/route/explain?service=chat&model=openai/m", ""))
	if served := gatewaytest.At(t, x, "servedModel"); served != "m" {
		t.Errorf("explain: %v would serve", served)
	}
}

// All names that begin alike may lead to one model, as names of a provider that change with each
// release. The longest pattern goes first, and the target may be an alias.
func TestAPatternLeadsToOneModel(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	policy := `aliases: {"claude-*": coder, "claude-*-mini": m, coder: "m"}, `
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(policy+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL()),
		gatewaytest.Instance("claude-own", b.URL())))
	for asked, served := range map[string]string{"claude-sonnet-9": "m", "claude-x-mini": "m", "claude-own": ""} {
		reply := r.Chat(chatFor(asked)).Succeeds(t)
		if got := reply.Header.Get("X-Router-Model"); got != served {
			t.Errorf("%s: got x-router-model %q, want %q", asked, got, served)
		}
	}
	r.Chat(chatFor("claude-")).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	if got := r.Models(); !slices.Equal(got, []string{"claude-own", "coder", "m"}) {
		t.Errorf("got the models %v, want no pattern", got)
	}
	x := gatewaytest.DataOf[any](t, r.API(http.MethodGet, "/api/route/explain?service=chat&model=claude-sonnet-9", ""))
	if served := gatewaytest.At(t, x, "servedModel"); served != "m" {
		t.Errorf("explain: got %v, want m", served)
	}
	r.API(http.MethodPut, "/api/config/type/services/chat", `{"aliases":{"gpt-*":"n"}}`).Is(t, 400, `aliases[\"gpt-*\"]`, `no instance has the name`)
	r.API(http.MethodPut, "/api/config/type/services/chat", `{"aliases":{"gpt-*":"m"}}`).Succeeds(t)
	r.Chat(chatFor("gpt-9")).Succeeds(t)
	r.API(http.MethodDelete, "/api/config/instance/del/chat?modelName=m&baseUrl="+b.URL(), "").Is(t, 400, `aliases[\"gpt-*\"]`)
}

// A key that is limited to models needs the model that a pattern leads to.
func TestAKeyNeedsTheModelThatAPatternLeadsTo(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	for pattern, target := range map[string]string{"openai/*": "*", "openai/m*": "m"} {
		r := gatewaytest.Start(t, gatewaytest.PolicyYAML(`aliases: {"`+pattern+`": "`+target+`"}, `+gatewaytest.NoBreakerNoChecks,
			gatewaytest.Instance("m", b.URL()))+keysYAML("name", pattern, "model", "m"))
		asked := chatFor(strings.Replace(pattern, "*", "m", 1))
		r.Chat(asked, "Authorization", "Bearer model").Succeeds(t)
		r.Chat(asked, "Authorization", "Bearer name").FailsWith(t, 403, "permission_error", "permission_denied", "")
	}
}

func TestAliasesAreListedAndExplained(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, aliasYAML(b.URL()))
	if got := r.Models(); !slices.Equal(got, []string{"default", "gpt-4o", "m", "named", "other"}) {
		t.Errorf("models %v", got)
	}
	r.Do(http.MethodGet, "/v1/models/gpt-4o", "").Succeeds(t)
	x := gatewaytest.DataOf[any](t, r.API(http.MethodGet, "/api/route/explain?service=chat&model=default", ""))
	if served := gatewaytest.At(t, x, "servedModel"); served != "m" {
		t.Errorf("explain: %v would serve", served)
	}
	r.API(http.MethodGet, "/api/models", "").Is(t, 200, `"alias_of":"named"`)
	reply := r.Chat(chatFor("gpt-4p"))
	reply.FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	if !strings.Contains(reply.Body, `Did you mean \"gpt-4o\"`) {
		t.Errorf("an unknown name near an alias: %s", reply.Body)
	}
	r.Chat(chatFor("default")).Succeeds(t)
	gatewaytest.Eventually(t, "the access log has both names", func() bool {
		return gatewaytest.CountLines(r.Logs.String(), `"logger":"access"`, `"model":"m"`, `"asked":"default"`) == 1
	})
	gatewaytest.Eventually(t, "the record of the call has both names", func() bool {
		calls := r.Do(http.MethodGet, "/api/monitoring/calls", "").Body
		return strings.Contains(calls, `"model":"m","asked":"default"`)
	})
}

func TestAliasKeepsItsModel(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, aliasYAML(b.URL()))
	query := "?modelName=m&baseUrl=" + b.URL()
	r.API(http.MethodDelete, "/api/config/instance/del/chat"+query, "").Is(t, 400, `aliases[\"gpt-4o\"]`, `no instance has the name \"m\"`)
	r.API(http.MethodPut, "/api/config/type/services/chat", `{"aliases":{"a":"b"}}`).Is(t, 400, `aliases[\"a\"]`)
	r.API(http.MethodPut, "/api/config/type/services/chat", `{"aliases":{"fast":"m"}}`).Is(t, 200)
	r.API(http.MethodGet, "/api/config/type/services/chat", "").Is(t, 200, `"aliases":{"fast":"m"}`)
	r.Chat(chatFor("fast")).Succeeds(t)
	r.Chat(chatFor("gpt-4o")).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	r.API(http.MethodPost, "/api/config/version/rollback/1", "").Is(t, 200)
	r.Chat(chatFor("gpt-4o")).Succeeds(t)
	// A name that becomes that of a model has state of its own.
	r.API(http.MethodPut, "/api/config/type/services/chat", `{"aliases":{}}`).Is(t, 200)
	r.API(http.MethodPost, "/api/config/instance/add/chat", `{"name":"gpt-4o","baseUrl":"`+b.URL()+`"}`).Is(t, 201)
	if service := r.Current.Load().Service(0); service.Find("gpt-4o").Queue == service.Find("m").Queue {
		t.Error("two models have one queue")
	}
}

// keysYAML is the configuration of keys that are limited to a model: pairs of key and
// model.
func keysYAML(pairs ...string) string {
	var list []string
	for n := 0; n < len(pairs); n += 2 {
		list = append(list, fmt.Sprintf("{id: %s, key-sha256: %x, models: [%s]}", pairs[n], sha256.Sum256([]byte(pairs[n])), pairs[n+1]))
	}
	return "security: {enabled: true, keys: [" + strings.Join(list, ", ") + "]}\n"
}

func TestKeyMayUseAnAliasByEitherName(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, aliasYAML(b.URL())+keysYAML("alias", "gpt-4o", "model", "m", "other", "named"))
	for _, row := range []struct {
		key, model string
		status     int
	}{
		{"alias", "gpt-4o", 200}, {"alias", "m", 403}, {"alias", "default", 403},
		{"model", "gpt-4o", 200}, {"model", "m", 200}, {"model", "default", 200}, {"model", "other", 403},
		{"other", "gpt-4o", 403}, {"other", "other", 200},
	} {
		reply := r.Chat(chatFor(row.model), "Authorization", "Bearer "+row.key)
		if reply.Status != row.status {
			t.Errorf("%s asks for %s: %d %s", row.key, row.model, reply.Status, reply.Body)
		}
	}
	models := gatewaytest.Models(t, r.Do(http.MethodGet, "/v1/models", "", "Authorization", "Bearer alias"))
	if !slices.Equal(models, []string{"gpt-4o"}) {
		t.Errorf("the key for the alias sees %v", models)
	}
}
