package monitor_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const asAdmin, asOperator, asViewer = "Bearer admin-token", "Bearer operator-token", "Bearer viewer-token"

// contentOf returns what is kept of a call.
func contentOf(t *testing.T, r *gatewaytest.Gateway, id string) map[string]any {
	t.Helper()
	return r.GetObject("/api/monitoring/calls/"+id+"/content", "Authorization", asAdmin)
}

func capture(t *testing.T, r *gatewaytest.Gateway, what string) {
	t.Helper()
	r.Do(http.MethodPut, "/api/monitoring/config/capture", `{"capture":"`+what+`"}`, "Authorization", asAdmin).Succeeds(t)
}

func TestHeadersAndContentsAreKeptOnlyWhileAskedFor(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.SecuredYAML())
	const prompt = "the-prompt-of-somebody"
	chat := func(id, more string) {
		r.Chat(`{"model":"m","messages":[{"role":"user","content":"`+prompt+`"}]`+more+`}`, "X-Request-Id", id,
			"X-Api-Key", "sk-0123456789", "Cookie", "session=0123456789", "X-Team-Token", "0123456789", "X-Echo", "got sk-0123456789", "X-Plain", "shown").Succeeds(t)
	}
	chat("before", "")
	if got := contentOf(t, r, "before"); got["kept"] != "none" || len(got) != 2 {
		t.Errorf("by default %v is kept", got)
	}
	capture(t, r, "headers")
	chat("headers", "")
	headers := contentOf(t, r, "headers")
	if headers["kept"] != "headers" || headers["request"] != nil || headers["answer"] != nil {
		t.Errorf("%v", headers)
	}
	shown := map[string]any{}
	for _, h := range headers["headers"].([]any) {
		shown[gatewaytest.At(t, h, "name").(string)] = gatewaytest.At(t, h, "value")
	}
	for name, want := range map[string]string{"X-Api-Key": "****6789", "Cookie": "****6789", "X-Team-Token": "****6789", "X-Echo": "****6789", "X-Plain": "shown", "Content-Type": "application/json"} {
		if shown[name] != want {
			t.Errorf("%s is shown as %v, want %s", name, shown[name], want)
		}
	}
	capture(t, r, "content")
	chat("plain", "")
	chat("streamed", `,"stream":true`)
	for id, sign := range map[string]string{"plain": `"chat.completion"`, "streamed": "data: [DONE]"} {
		got := contentOf(t, r, id)
		if request := fmt.Sprint(gatewaytest.At(t, got, "request/text")); got["kept"] != "content" || !strings.Contains(request, prompt) {
			t.Errorf("%s: request %s", id, request)
		}
		answer := fmt.Sprint(gatewaytest.At(t, got, "answer/text"))
		if !strings.Contains(answer, sign) || gatewaytest.At(t, got, "answer/bytes") != float64(len(answer)) {
			t.Errorf("%s: answer %s", id, answer)
		}
	}
	if got := contentOf(t, r, "headers"); got["kept"] != "headers" {
		t.Errorf("keeping more forgot %v", got)
	}
	r.Chat(`{"model":"unknown","messages":[]}`, "X-Request-Id", "refused")
	if got := contentOf(t, r, "refused"); !strings.Contains(fmt.Sprint(gatewaytest.At(t, got, "answer/text")), `"error"`) {
		t.Errorf("of a refusal %v is kept", got)
	}
	capture(t, r, "none")
	if got := contentOf(t, r, "plain"); got["kept"] != "none" || len(got) != 2 {
		t.Errorf("after it was switched off %v is kept", got)
	}
	if list := r.Do(http.MethodGet, "/api/monitoring/calls", "", "Authorization", asAdmin).Succeeds(t); strings.Contains(list.Body, prompt) {
		t.Error("the list of calls has contents")
	}
	if logged := r.Logs.String(); strings.Contains(logged, prompt) || strings.Contains(logged, "0123456789") {
		t.Error("the log has contents")
	}
}

func TestFormsAndSoundsAreKeptAsTheirSizes(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.EveryService(b)+"monitoring: {capture: content}\n")
	id := r.PostForm("/v1/audio/transcriptions", gatewaytest.Field("model", "m"), gatewaytest.Recording()).Succeeds(t).Header.Get("X-Request-Id")
	got := contentOf(t, r, id)
	if text := gatewaytest.At(t, got, "request/text"); text != "model: m\nfile: \"a.wav\", 14 bytes of audio/wav\n" {
		t.Errorf("the form is kept as %v", text)
	}
	speech := r.Post("/v1/audio/speech", `{"model":"m","input":"hi","voice":"v"}`).Succeeds(t)
	got = contentOf(t, r, speech.Header.Get("X-Request-Id"))
	if answer := gatewaytest.At(t, got, "answer").(map[string]any); answer["bytes"] != float64(len(speech.Body)) || answer["text"] != nil || answer["contentType"] != speech.Header.Get("Content-Type") {
		t.Errorf("the speech is kept as %v", answer)
	}
}

// A stream whose client leaves is kept as far as it came.
func TestContentsOfAStreamThatIsLeft(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Text: "so far and no further", Stop: simulator.StopStall, After: 2})
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"monitoring: {capture: content}\n")
	ctx, leave := context.WithCancel(t.Context())
	response := r.Open(ctx, http.MethodPost, "/v1/chat/completions", `{"model":"m","stream":true,`+gatewaytest.SomeMessages+`}`, "X-Request-Id", "left")
	first := make([]byte, 1)
	if _, err := response.Body.Read(first); err != nil {
		t.Fatal(err)
	}
	leave()
	_ = response.Body.Close()
	gatewaytest.Eventually(t, "the call is recorded", func() bool {
		return r.Do(http.MethodGet, "/api/monitoring/calls/left", "").Status == 200
	})
	if got := contentOf(t, r, "left"); !strings.Contains(fmt.Sprint(gatewaytest.At(t, got, "answer/text")), "so") {
		t.Errorf("%v", got)
	}
}

func TestContentsAreForAdministrators(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.SecuredYAML()+"monitoring: {capture: content}\n")
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "one").Succeeds(t)
	for _, who := range []string{asOperator, asViewer, ""} {
		status := http.StatusForbidden
		if who == "" {
			status = http.StatusUnauthorized
		}
		if got := r.Do(http.MethodGet, "/api/monitoring/calls/one/content", "", "Authorization", who); got.Status != status {
			t.Errorf("%q reads it: %d", who, got.Status)
		}
		if got := r.Do(http.MethodPut, "/api/monitoring/config/capture", `{"capture":"none"}`, "Authorization", who); got.Status != status {
			t.Errorf("%q changes it: %d", who, got.Status)
		}
	}
	for _, body := range []string{`{}`, `{"capture":"everything"}`, `{"capture":1}`} {
		if got := r.Do(http.MethodPut, "/api/monitoring/config/capture", body, "Authorization", asAdmin); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", body, got.Status)
		}
	}
	capture(t, r, "headers")
	gatewaytest.Eventually(t, "the audit log has the change", func() bool {
		return strings.Contains(r.Logs.String(), "capture content -> headers")
	})
	if got := r.GetObject("/api/monitoring/config", "Authorization", asViewer); got["capture"] != "headers" {
		t.Errorf("the setting is shown as %v", got["capture"])
	}
	if got := r.Do(http.MethodGet, "/api/monitoring/calls/unknown/content", "", "Authorization", asAdmin); got.Status != http.StatusNotFound {
		t.Errorf("of an unknown call: %d", got.Status)
	}
}

// Whoever reads what people sent leaves a line, and so does whoever tries.
func TestReadingContentsIsAudited(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.SecuredYAML()+"monitoring: {capture: content}\n")
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "one").Succeeds(t)
	for _, test := range []struct{ bearer, id, line string }{
		{asAdmin, "one", `"level":"INFO","logger":"audit","msg":"management read","who":"a","role":"ADMIN","from":"127.0.0.1","what":"GET /api/monitoring/calls/{requestId}/content","path":"/api/monitoring/calls/one/content","status":200`},
		{asAdmin, "two", `"path":"/api/monitoring/calls/two/content","status":404`},
		{asViewer, "three", `"level":"WARN","logger":"audit","msg":"management read","who":"v","role":"VIEWER","from":"127.0.0.1","what":"GET /api/monitoring/calls/{requestId}/content","path":"/api/monitoring/calls/three/content","status":403`},
		{"", "four", `"what":"GET /api/monitoring/calls/{requestId}/content","path":"/api/monitoring/calls/four/content","status":401`},
	} {
		r.Do(http.MethodGet, "/api/monitoring/calls/"+test.id+"/content", "", "Authorization", test.bearer)
		gatewaytest.Eventually(t, "the audit log has "+test.line, func() bool { return strings.Contains(r.Logs.String(), test.line) })
	}
	r.Do(http.MethodGet, "/api/monitoring/calls/one", "", "Authorization", asAdmin).Succeeds(t)
	r.Do(http.MethodPut, "/api/monitoring/config/capture", `{"capture":"none"}`, "Authorization", asAdmin).Succeeds(t)
	gatewaytest.Eventually(t, "a later change is in the log", func() bool { return strings.Contains(r.Logs.String(), "content -> none") })
	if n := strings.Count(r.Logs.String(), `"msg":"management read"`); n != 4 {
		t.Errorf("%d lines of reads, want 4", n)
	}
}
