package v1_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const geminiHi = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`

func TestGeminisAPIIsServedByEveryDialect(t *testing.T) {
	everyMessageBackend(t, gatewaytest.Setup{}, func(t *testing.T, r *gatewaytest.Gateway, b *simulator.Backend) {
		whole := gatewaytest.DecodeObject(t, r.Do("POST", "/v1beta/models/m:generateContent?key=secret-in-the-query", geminiHi).Succeeds(t).Body)
		text, _ := gatewaytest.At(t, whole, "candidates/0/content/parts/0/text").(string)
		if text == "" || gatewaytest.At(t, whole, "candidates/0/finishReason") != "STOP" || whole["modelVersion"] != "m" && whole["modelVersion"] != nil {
			t.Errorf("%v", whole)
		}
		for _, request := range b.Requests() {
			if strings.Contains(request.Path, "secret-in-the-query") || strings.Contains(strings.Join(request.Header["X-Goog-Api-Key"], ""), "secret") {
				t.Errorf("the key reached the backend: %s %v", request.Path, request.Header)
			}
		}
		events := r.Do("POST", "/v1/models/m:streamGenerateContent?alt=sse", geminiHi).Succeeds(t)
		streamed := ""
		for part := range strings.SplitSeq(strings.TrimSpace(events.Body), "\n\n") {
			data, isEvent := strings.CutPrefix(strings.TrimSpace(part), "data: ")
			if !isEvent {
				t.Fatalf("%q is no event", part)
			}
			streamed += geminiText(t, gatewaytest.DecodeObject(t, data))
		}
		array := r.Do("POST", "/v1beta/models/m:streamGenerateContent", geminiHi).Succeeds(t)
		inArray := ""
		list, _ := gatewaytest.DecodeObject(t, `{"list":`+array.Body+`}`)["list"].([]any)
		for _, element := range list {
			object, _ := element.(map[string]any)
			inArray += geminiText(t, object)
		}
		if streamed != text || inArray != text || array.Header.Get("Content-Type") != "application/json" {
			t.Errorf("whole %q, events %q, array %q (%s)", text, streamed, inArray, array.Header.Get("Content-Type"))
		}
		count := gatewaytest.DecodeObject(t, r.Do("POST", "/v1beta/models/m:countTokens", geminiHi).Succeeds(t).Body)
		if n, _ := count["totalTokens"].(float64); n <= 0 {
			t.Errorf("%v", count)
		}
		b.Script(simulator.Step{StreamError: "the model died", After: 4})
		if broken := r.Do("POST", "/v1beta/models/m:streamGenerateContent", geminiHi); !strings.Contains(broken.Body, `{"error":{"code":`) || !strings.HasSuffix(broken.Body, "}]\n") {
			t.Errorf("%s", broken.Body)
		}
	})
}

func geminiText(t *testing.T, object map[string]any) string {
	t.Helper()
	parts, _ := gatewaytest.At(t, object, "candidates/0/content/parts").([]any)
	text := ""
	for _, part := range parts {
		members, _ := part.(map[string]any)
		piece, _ := members["text"].(string)
		text += piece
	}
	return text
}

func TestErrorsOfGeminisAPIHaveItsShape(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b))
	for _, row := range []struct {
		method, path, body string
		code               float64
		status, reason     string
	}{
		{"POST", "/v1beta/models/m:generateContent", `{`, 400, "INVALID_ARGUMENT", "invalid_json"},
		{"POST", "/v1beta/models/m:generateContent", `{}`, 400, "INVALID_ARGUMENT", "missing_parameter"},
		{"POST", "/v1/models/m:generateContent", `{"contents":[{"role":"robot","parts":[]}]}`, 400, "INVALID_ARGUMENT", "invalid_value"},
		{"POST", "/v1beta/models/unknown:generateContent", geminiHi, 404, "NOT_FOUND", "model_not_found"},
		{"POST", "/v1beta/models/unknown:streamGenerateContent", geminiHi, 404, "NOT_FOUND", "model_not_found"},
		{"POST", "/v1beta/models/unknown:countTokens", geminiHi, 404, "NOT_FOUND", "model_not_found"},
		{"POST", "/v1beta/models/unknown:embedContent", `{"content":{"parts":[{"text":"hi"}]}}`, 404, "NOT_FOUND", "model_not_found"},
		{"POST", "/v1beta/models/unknown:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"hi"}]}}]}`, 404, "NOT_FOUND", "model_not_found"},
		{"POST", "/v1beta/models/:generateContent", geminiHi, 405, "INVALID_ARGUMENT", "method_not_allowed"},
		{"POST", "/v1beta/models/m:predict", `{}`, 405, "INVALID_ARGUMENT", "method_not_allowed"},
		{"GET", "/v1beta/models/unknown", ``, 404, "NOT_FOUND", "model_not_found"},
		{"GET", "/v1beta/models?pageSize=0", ``, 400, "INVALID_ARGUMENT", "invalid_value"},
	} {
		reply := r.Do(row.method, row.path, row.body)
		object := gatewaytest.DecodeObject(t, reply.Body)
		if gatewaytest.At(t, object, "error/code") != row.code || float64(reply.Status) != row.code ||
			gatewaytest.At(t, object, "error/status") != row.status || gatewaytest.At(t, object, "error/details/0/reason") != row.reason {
			t.Errorf("%s %s: %d %s", row.method, row.path, reply.Status, reply.Body)
		}
	}
	if allowed := r.Do("POST", "/v1beta/models/:generateContent", geminiHi).Header.Get("Allow"); strings.Contains(allowed, "POST") {
		t.Errorf("a model without a name allows %s", allowed)
	}
	list := gatewaytest.DecodeObject(t, r.Do("GET", "/v1beta/models?key=any&pageSize=1", "").Succeeds(t).Body)
	if gatewaytest.At(t, list, "models/0/name") != "models/m" {
		t.Errorf("%v", list)
	}
	if one := gatewaytest.DecodeObject(t, r.Do("GET", "/v1beta/models/m", "").Succeeds(t).Body); one["name"] != "models/m" {
		t.Errorf("%v", one)
	}
	// Newer clients ask for the stable version, which has the paths of another API.
	if list := gatewaytest.DecodeObject(t, r.Do("GET", "/v1/models", "", "X-Goog-Api-Key", "any").Succeeds(t).Body); gatewaytest.At(t, list, "models/0/name") != "models/m" {
		t.Errorf("%v", list)
	}
	if one := gatewaytest.DecodeObject(t, r.Do("GET", "/v1/models/m?key=any", "").Succeeds(t).Body); one["name"] != "models/m" {
		t.Errorf("%v", one)
	}
	if none := r.Do("GET", "/v1/models/unknown", "", "X-Goog-Api-Key", "any"); gatewaytest.At(t, gatewaytest.DecodeObject(t, none.Body), "error/status") != "NOT_FOUND" {
		t.Errorf("%s", none.Body)
	}
}

// A client without a key is told every place in which one may stand, that which clients of the
// door use included, and a key is taken there.
func TestARefusedKeyIsToldWhereItMayStand(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"security: {enabled: true, keys: [{id: k, key-sha256: "+gatewaytest.HashOf("the-key")+"}]}\n")
	const path = "/v1beta/models/m:generateContent"
	refused := r.Do("POST", path, geminiHi)
	message, _ := gatewaytest.At(t, gatewaytest.DecodeObject(t, refused.Body), "error/message").(string)
	if refused.Status != 401 {
		t.Errorf("%d %s", refused.Status, refused.Body)
	}
	for header, value := range map[string]string{"Authorization": "Bearer <key>", "X-API-Key": "<key>", "x-goog-api-key": "<key>"} {
		if !strings.Contains(message, "'"+header+": "+value+"'") {
			t.Errorf("%s is not named: %s", header, message)
		}
		r.Do("POST", path, geminiHi, header, strings.Replace(value, "<key>", "the-key", 1)).Succeeds(t)
	}
}
