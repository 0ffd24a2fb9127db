package v1_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// twoKeys are keys of two tenants.
func twoKeys() string {
	return fmt.Sprintf("security: {enabled: true, keys: [{id: a, tenant: acme, key-sha256: %s}, {id: b, tenant: beta, key-sha256: %s}]}\n", gatewaytest.HashOf("a-key"), gatewaytest.HashOf("b-key"))
}

func bearer(key string) []string { return []string{"Authorization", "Bearer " + key} }

// foreignIDs are requests that name ids of the account of a backend, by the door and the adapter
// of the instance.
var foreignIDs = map[string]map[string][]string{
	"/v1/responses openai": {
		"input": {
			`{"model":"m","input":[{"type":"item_reference","id":"msg_1"}]}`,
			`{"model":"m","input":[{"id":"msg_1"}]}`,
			`{"model":"m","input":[{"role":"user","content":"edit it"},{"type":"image_generation_call","id":"ig_1"}]}`,
			`{"model":"m","input":[{"type":"item\u005freference","i\u0064":"msg_1"}]}`,
		},
		"file_id": {
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}`,
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","file_id":"file-1"}]}]}`,
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","fil\u0065_id":"file-1"}]}]}`,
			`{"model":"m","input":[{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","file_id":"file-1"}}]}`,
			`{"model":"m","input":"a","tools":[{"type":"image_generation","input_image_mask":{"file_id":"file-1"}}]}`,
		},
		"file_ids":         {`{"model":"m","input":"a","tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["file-1"]}}]}`},
		"vector_store_ids": {`{"model":"m","input":"a","tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}`},
		"container":        {`{"model":"m","input":"a","tools":[{"type":"code_interpreter","container":"cntr_1"}]}`},
		"container_id":     {`{"model":"m","input":"a","tools":[{"type":"shell","environment":{"type":"container_reference","container_id":"cntr_1"}}]}`},
		"skill_id":         {`{"model":"m","input":"a","tools":[{"type":"shell","environment":{"type":"container_auto","skills":[{"type":"skill_reference","skill_id":"skill_1"}]}}]}`},
		"id":               {`{"model":"m","input":"a","prompt":{"id":"pmpt_1","version":"2"}}`},
	},
	"/v1/chat/completions openai": {
		"file_id": {`{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]}`},
	},
	"/v1/messages anthropic": {
		"file_id": {
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]}`,
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"file_1"}]}]}`,
		},
		"container": {`{"model":"m","max_tokens":9,"container":"container_1","messages":[{"role":"user","content":"a"}]}`},
		"id":        {`{"model":"m","max_tokens":9,"container":{"id":"container_1"},"messages":[{"role":"user","content":"a"}]}`},
		"skill_id":  {`{"model":"m","max_tokens":9,"container":{"skills":[{"type":"custom","skill_id":"skill_1"}]},"messages":[{"role":"user","content":"a"}]}`},
	},
	"/v1/chat/completions anthropic": {
		"container": {`{"model":"m","max_tokens":9,"extra_body":{"container":"container_1"},"messages":[{"role":"user","content":"a"}]}`},
		"file_id":   {`{"model":"m","messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]}`},
	},
	"/v1beta/models/m:generateContent gemini": {
		"fileUri":        {`{"contents":[{"parts":[{"fileData":{"mimeType":"image/png","fileUri":"https://GenerativeLanguage.googleapis.com/v1beta/files/1"}}]}]}`, `{"contents":[{"parts":[{"fileData":{"fileUri":"files/1"}}]}]}`},
		"file_uri":       {`{"contents":[{"parts":[{"file_data":{"file_uri":"gs://bucket/1"}}]}]}`},
		"cachedContent":  {`{"cachedContent":"cachedContents/1","contents":[{"parts":[{"text":"a"}]}]}`},
		"cached_content": {`{"cached_content":"cachedContents/1","contents":[{"parts":[{"text":"a"}]}]}`},
	},
	"/v1/chat/completions gemini": {
		"cached_content": {`{"model":"m","extra_body":{"google":{"cached_content":"cachedContents/1"}},"messages":[{"role":"user","content":"a"}]}`},
		"url":            {`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://generativelanguage.googleapis.com/v1beta/files/1"}}]}]}`},
	},
}

// ownWords are requests that have the same names where they are the caller's own, or the
// provider's for all.
var ownWords = map[string][]string{
	"/v1/responses openai": {
		`{"model":"m","input":[{"role":"user","content":"file_id, container"},{"type":"message","id":"msg_9","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[{"type":"file_citation","file_id":"file-9"}]}]}],"metadata":{"file_id":"mine"}}`,
		`{"model":"m","input":[{"type":"code_interpreter_call","id":"ci_1","code":"1","container_type":"auto","outputs":[{"file_id":"f"}]}],"tools":[{"type":"function","name":"f","parameters":{"properties":{"file_id":{"default":"x"}}}},{"type":"code_interpreter","container":{"type":"auto"}}]}`,
	},
	"/v1/chat/completions openai": {`{"model":"m","messages":[{"role":"user","content":"file_id"}],"metadata":{"file_id":"mine"},"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"file_id":{"type":"string"}}}}}]}`},
	"/v1/messages anthropic": {
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{"file_id":"mine","container":"c"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"file_id"}]}],"tools":[{"name":"n","input_schema":{"type":"object"}}]}`,
	},
	"/v1beta/models/m:generateContent gemini": {`{"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"image/png","fileUri":"https://example.org/a.png"}}]}]}`},
}

// startFor starts a gateway for a case of these tables.
func startFor(t *testing.T, name, security, settings string) (path string, r *gatewaytest.Gateway, requests func() int) {
	t.Helper()
	path, adapter, _ := strings.Cut(name, " ")
	if path == responsesPath {
		b := startNative(t, "n")
		return path, gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL, "responses: true", settings))+security), func() int { return len(b.got()) }
	}
	b := gatewaytest.StartBackend(t)
	return path, gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "adapter: "+adapter, settings))+security), func() int { return len(b.Requests()) }
}

// With keys, a request that names what the account of the backend has is refused, and says which
// setting allows it; with that setting, without keys and with the caller's own credential it is
// passed on.
func TestIDsOfABackendsAccount(t *testing.T) {
	t.Parallel()
	for name, byParam := range foreignIDs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, closed, requests := startFor(t, name, twoKeys(), "weight: 1")
			_, allowed, _ := startFor(t, name, twoKeys(), "account-ids: true")
			_, open, _ := startFor(t, name, "", "weight: 1")
			_, forwarding, _ := startFor(t, name, twoKeys(), "forward-authorization: true")
			for param, bodies := range byParam {
				for _, body := range bodies {
					got := closed.Do(http.MethodPost, path, body, bearer("a-key")...)
					if got.Status != 400 || !strings.Contains(got.Body, "account-ids") || !strings.Contains(got.Body, "'"+param+"'") {
						t.Errorf("%s: %d %s", body, got.Status, got.Body)
					}
					for which, r := range map[string]*gatewaytest.Gateway{"account-ids": allowed, "without keys": open, "forwarding": forwarding} {
						r.BackendsLie = true
						if got := r.Do(http.MethodPost, path, body, bearer("a-key")...); strings.Contains(got.Body, "account-ids") {
							t.Errorf("%s: %s: %d %s", which, body, got.Status, got.Body)
						}
					}
				}
			}
			if n := requests(); n != 0 {
				t.Errorf("the backend got %d requests", n)
			}
			for _, body := range ownWords[name] {
				if got := closed.Do(http.MethodPost, path, body, bearer("a-key")...); got.Status != 200 {
					t.Errorf("%s: %d %s", body, got.Status, got.Body)
				}
			}
		})
	}
}

// An id that an answer gave to a key may be named by that key, at every gateway that shares what
// is kept, and by no other key.
func TestIDsThatAnAnswerGaveMayBeNamed(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	const reference = `{"model":"m","input":[{"type":"item_reference","id":"ws_1"}]}`
	for name, settings := range map[string]string{"in memory": "", "in Redis": "responses: {shared: true}\nredis: {url: '" + storetest.Redis(t).URL + "'}\n"} {
		for _, stream := range []string{"", `,"stream":true`} {
			t.Run(name+stream, func(t *testing.T) {
				t.Parallel()
				keys := strings.ReplaceAll(twoKeys(), "id: ", "id: "+strings.Map(func(c rune) rune {
					if c < 'a' || c > 'z' {
						return -1
					}
					return c
				}, name+stream))
				yaml := gatewaytest.ChatYAML(nativeInstance(startNative(t, "n"))) + keys + settings
				gateways := []*gatewaytest.Gateway{gatewaytest.Start(t, yaml)}
				if settings != "" {
					gateways = append(gateways, gatewaytest.Start(t, yaml))
				}
				for _, r := range gateways {
					r.Do("POST", responsesPath, reference, bearer("a-key")...).FailsWith(t, 400, "invalid_request_error", "invalid_value", "input")
				}
				gateways[0].Do("POST", responsesPath, `{"model":"m","input":"a"`+stream+`}`, bearer("a-key")...).Succeeds(t)
				for _, r := range gateways {
					r.Do("POST", responsesPath, reference, bearer("a-key")...).Succeeds(t)
					r.Do("POST", responsesPath, reference, bearer("b-key")...).FailsWith(t, 400, "invalid_request_error", "invalid_value", "input")
				}
			})
		}
	}
}
