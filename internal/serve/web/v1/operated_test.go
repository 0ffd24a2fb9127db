package v1_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// prompted are the doors of a generated text, with the rest of a request.
var prompted = map[string]string{
	"/v1/chat/completions": `"messages":[{"role":"user","content":"hi"}]`,
	"/v1/completions":      `"prompt":"hi"`,
}

// namings are the ways to name a member.
var namings = map[string]string{
	"at the top level":      `%q:{"a":1}`,
	"in extra_body":         `"extra_body":{%q:1}`,
	"beside another member": `"top_k":3,%q:"x"`,
	"twice":                 `%[1]q:1,"extra_body":{%[1]q:2}`,
}

// spellings returns a name as callers may write it to hide it.
func spellings(name string) []string {
	return []string{name, strings.ToUpper(name[:1]) + name[1:], `\u00` + fmt.Sprintf("%x", name[0]) + name[1:]}
}

// A member that is meant for the operator of an engine reaches an instance that allows it, from a caller
// with a key, and no other. Without keys nothing changes.
func TestMembersForOperatorsOfEngines(t *testing.T) {
	t.Parallel()
	b, open := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	instance := func(name, adapter, more string) string {
		return fmt.Sprintf("{name: %s, base-url: %q, adapter: %s%s}", name, b.URL(), adapter, more)
	}
	var instances []string
	for _, adapter := range []string{"openai", "vllm", "sglang", "llamacpp"} {
		instances = append(instances, instance(adapter, adapter, ""))
	}
	salted := instance("salted", "vllm", `, body: '{"cache_salt": "of the operator"}'`)
	secured := gatewaytest.Start(t, gatewaytest.ChatYAML(append(instances, salted)...)+twoKeys())
	keyless := gatewaytest.Start(t, gatewaytest.ChatYAML(fmt.Sprintf("{name: vllm, base-url: %q, adapter: vllm}", open.URL())))
	sent := 0
	for _, name := range schema.EngineMember("").Names() {
		models := []string{"openai", "vllm", "sglang", "llamacpp"}
		if name == "cache_salt" {
			models = []string{"salted"}
		}
		for path, prompt := range prompted {
			for how, naming := range namings {
				for _, spelled := range spellings(name) {
					member := strings.ReplaceAll(fmt.Sprintf(naming, spelled), `\\u`, `\u`)
					for _, model := range models {
						r := secured.Do(http.MethodPost, path, `{"model":"`+model+`",`+prompt+","+member+"}", bearer("a-key")...)
						if r.Status != 400 || !strings.Contains(r.Body, `"param":"`+name+`"`) || !strings.Contains(r.Body, `"code":"member_not_allowed"`) {
							t.Errorf("%s, %s %s: got %d %s", path, member, how, r.Status, r.Body)
						}
					}
					keyless.Do(http.MethodPost, path, `{"model":"vllm",`+prompt+","+member+"}").Succeeds(t)
					sent++
				}
			}
		}
	}
	if got := len(b.Requests()); got != 0 {
		t.Errorf("the backend got %d requests, want none", got)
	}
	if got := len(open.Requests()); got != sent {
		t.Errorf("the backend of the open gateway got %d requests, want %d", got, sent)
	}
	for path, prompt := range prompted {
		for _, harmless := range []string{`"lorax":1`, `"seed":1`, `"metadata":{"priority":"1"}`, `"extra_body":{"chat_template_kwargs":{"lora":1}}`, `"cache_salt":"mine"`, `"priority":null`} {
			secured.Do(http.MethodPost, path, `{"model":"vllm",`+prompt+","+harmless+"}", bearer("a-key")...).Succeeds(t)
		}
	}
}

// Of several instances those are tried that allow all the members of a request.
func TestInstancesThatAllowTheMembersAreChosen(t *testing.T) {
	t.Parallel()
	closed, one, both := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	instance := func(url, more string) string {
		return fmt.Sprintf("{name: m, base-url: %q, adapter: vllm%s}", url, more)
	}
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(instance(closed.URL(), ""), instance(one.URL(), ", allow-members: [priority]"),
		instance(both.URL(), ", allow-members: [priority, lora]"))+twoKeys())
	ask := func(members string) gatewaytest.Reply {
		return r.Do(http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}],`+members+"}", bearer("a-key")...)
	}
	for range 6 {
		ask(`"priority":1`).Succeeds(t)
		ask(`"extra_body":{"priority":1,"lora":[]}`).Succeeds(t)
	}
	if got := len(closed.Requests()); got != 0 {
		t.Errorf("the instance that allows none got %d requests, want none", got)
	}
	if alone, together := len(one.Requests()), len(both.Requests()); alone == 0 || together < 6 || alone+together != 12 {
		t.Errorf("got %d and %d requests, want 12, at least 6 of them at the second", alone, together)
	}
	ask(`"priority":1,"id_slot":2`).FailsWith(t, 400, "invalid_request_error", "member_not_allowed", "id_slot")
}

// Explain passes over the instances that a request with a member does not reach.
func TestExplainNamesMembersForOperatorsOfEngines(t *testing.T) {
	t.Parallel()
	closed, open := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	instances := []string{
		fmt.Sprintf("{name: m, base-url: %q, adapter: vllm}", closed.URL()),
		fmt.Sprintf("{name: m, base-url: %q, adapter: vllm, allow-members: [priority]}", open.URL()),
	}
	secured := gatewaytest.Start(t, gatewaytest.ChatYAML(instances...)+strings.Replace(twoKeys(), "keys:", "tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin")+"}], keys:", 1))
	keyless := gatewaytest.Start(t, gatewaytest.ChatYAML(instances...))
	type explained struct {
		Candidates []struct {
			Eligible bool `json:"eligible"`
			Said     []struct {
				Code string `json:"code"`
			} `json:"said"`
		} `json:"candidates"`
		Refusal *struct {
			Code string `json:"code"`
		} `json:"refusal"`
	}
	for name, c := range map[string]struct {
		g        *gatewaytest.Gateway
		members  string
		eligible string // of the instances
		refusal  string
	}{
		"an instance allows it": {secured, `"priority":1`, "[false true]", ""},
		"none allows it":        {secured, `"id_slot":1`, "[false false]", "member_not_allowed"},
		"no such member":        {secured, `"top_k":1`, "[true true]", ""},
		"without keys":          {keyless, `"id_slot":1`, "[true true]", ""},
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"hi"}],` + c.members + "}"
		for _, query := range []string{"", "&keyId=a"} {
			x := gatewaytest.DataOf[explained](t, c.g.API(http.MethodPost, "/api/route/explain?door=chat"+query, body, bearer("admin")...).Is(t, 200))
			eligible, refusal := []bool{}, ""
			for _, candidate := range x.Candidates {
				eligible = append(eligible, candidate.Eligible)
				if !candidate.Eligible && candidate.Said[0].Code != "instance.member" {
					t.Errorf("%s: got %+v, want instance.member", name, candidate.Said)
				}
			}
			if x.Refusal != nil {
				refusal = x.Refusal.Code
			}
			if fmt.Sprint(eligible) != c.eligible || refusal != c.refusal {
				t.Errorf("%s: got %v %q, want %s %q", name, eligible, refusal, c.eligible, c.refusal)
			}
		}
	}
}
