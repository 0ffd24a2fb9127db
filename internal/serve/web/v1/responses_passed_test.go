package v1_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// nativeBackend is a backend that speaks the Responses API itself.
type nativeBackend struct {
	*httptest.Server
	name string
	cut  bool // streams break off
	// kept is the answer to requests for what is kept, if it is set.
	kept atomic.Pointer[http.HandlerFunc]

	mu       sync.Mutex
	made     int
	requests []string // method, path and body
}

func startNative(t *testing.T, name string) *nativeBackend {
	t.Helper()
	b := &nativeBackend{name: name}
	b.Server = httptest.NewServer(http.HandlerFunc(b.answer))
	t.Cleanup(b.Close)
	return b
}

func (b *nativeBackend) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	b.made++
	id := fmt.Sprintf("resp_%s%d", b.name, b.made)
	b.requests = append(b.requests, r.Method+" "+r.URL.RequestURI()+" "+string(body))
	b.mu.Unlock()
	response := `{"id":"` + id + `","object":"response","created_at":1,"status":"completed","model":"theirs","output":[{"type":"web_search_call","id":"ws_1"}],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3},"big":12345678901234567890}`
	kept := b.kept.Load()
	switch {
	case r.Method != http.MethodPost && kept != nil:
		(*kept)(w, r)
	case r.Method != http.MethodPost:
		_, _ = io.WriteString(w, `{"id":"`+strings.TrimPrefix(r.URL.Path, "/v1/responses/")+`","object":"response","created_at":1,"status":"completed","model":"theirs","output":[],"deleted":true}`)
	case strings.Contains(string(body), `"stream":true`):
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":%s}\n\n", response)
		fmt.Fprint(w, "event: response.vendor\ndata: {\"type\":\"response.vendor\", \"sequence_number\":1,\"a\":1.50}\n\n")
		if b.cut {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":%s}\n\n", response)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, response)
	}
}

// got returns the requests that came since it was called last.
func (b *nativeBackend) got() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	requests := b.requests
	b.requests = nil
	return requests
}

func nativeInstance(b *nativeBackend) string {
	return gatewaytest.Instance("m", b.URL, "responses: true", "upstream-model: theirs")
}

func TestResponsesPassToBackendsThatSpeakThem(t *testing.T) {
	t.Parallel()
	b := startNative(t, "a")
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(nativeInstance(b)))
	reply := r.Post(responsesPath, `{ "model":"m", "input":"a","tools":[{"type":"file_search"}], "vendor":1.50}`).Succeeds(t).Body
	if got := b.got(); len(got) != 1 || got[0] != `POST /v1/responses { "model":"theirs", "input":"a","tools":[{"type":"file_search"}], "vendor":1.50}` {
		t.Errorf("the backend got %q", got)
	}
	if !strings.Contains(reply, `"model":"m"`) || !strings.Contains(reply, `"big":12345678901234567890`) || strings.Contains(reply, "theirs") {
		t.Errorf("reply %s", reply)
	}
	stream := r.Post(responsesPath, `{"model":"m","input":"a","stream":true}`).Succeeds(t).Body
	events := responseEvents(t, stream)
	if len(events) != 3 || events[2].Type != "response.completed" || strings.Contains(stream, "theirs") || !strings.Contains(stream, `{"type":"response.vendor", "sequence_number":1,"a":1.50}`) {
		t.Errorf("stream\n%s", stream)
	}
	for _, refused := range []string{`"background":true`, `"conversation":"c"`} {
		if got := r.Post(responsesPath, `{"model":"m","input":"a",`+refused+`}`); got.Status != 400 {
			t.Errorf("%s: status %d", refused, got.Status)
		}
	}
}

func TestAPassedStreamThatBreaksEndsInAnErrorEvent(t *testing.T) {
	t.Parallel()
	b := startNative(t, "a")
	b.cut = true
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(nativeInstance(b)))
	events := responseEvents(t, r.Post(responsesPath, `{"model":"m","input":"a","stream":true}`).Succeeds(t).Body)
	if last := events[len(events)-1]; last.Type != "error" || len(events) != 3 {
		t.Errorf("events %+v", events)
	}
}

func TestPassedResponsesStickToTheirInstance(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	one, two := startNative(t, "one"), startNative(t, "two")
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(nativeInstance(one), nativeInstance(two)))
	made := map[*nativeBackend]string{}
	for len(made) < 2 {
		id := decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":"a"}`).Succeeds(t).Body).ID
		if strings.HasPrefix(id, "resp_one") {
			made[one] = id
		} else {
			made[two] = id
		}
	}
	one.got()
	two.got()
	for maker, id := range made {
		for range 3 {
			r.Post(responsesPath, `{"model":"m","input":"b","previous_response_id":"`+id+`"}`).Succeeds(t)
			r.Post(responsesPath, `{"model":"m","input":"b","stream":true,"previous_response_id":"`+id+`"}`).Succeeds(t)
			r.Do("GET", responsesPath+"/"+id+"?include=x", "").Succeeds(t)
		}
		r.Do("DELETE", responsesPath+"/"+id, "").Succeeds(t)
		if got := maker.got(); len(got) != 10 || got[2] != "GET /v1/responses/"+id+"?include=x " || got[9] != "DELETE /v1/responses/"+id+" " {
			t.Errorf("the instance that made the response got %q", got)
		}
		if got := r.Do("GET", responsesPath+"/"+id, ""); got.Status != 404 {
			t.Errorf("after it was deleted: status %d", got.Status)
		}
	}
	if got := len(one.got()) + len(two.got()); got != 0 {
		t.Errorf("%d requests went elsewhere", got)
	}
	kept := lastResponse(t, responseEvents(t, r.Post(responsesPath, `{"model":"m","input":"a","stream":true}`).Succeeds(t).Body)).ID
	other := one
	if strings.HasPrefix(kept, "resp_one") {
		other = two
	}
	r.ReloadWith(gatewaytest.ChatYAML(nativeInstance(other)))
	refused := r.Post(responsesPath, `{"model":"m","input":"b","previous_response_id":"`+kept+`"}`)
	refused.FailsWith(t, 400, "invalid_request_error", "previous_response_not_found", "previous_response_id")
	if !strings.Contains(refused.Body, "is kept by the backend that made it, which is gone or takes no requests now. Try again later, or send the items") {
		t.Errorf("of an instance that is gone: %s", refused.Body)
	}
	if got := r.Do("GET", responsesPath+"/"+kept, ""); got.Status != 404 {
		t.Errorf("of an instance that is gone: status %d", got.Status)
	}
}

// A backend that cannot tell a response now has not lost it: its error is reported, and
// the response is still known afterwards.
func TestErrorsOfTheBackendThatKeepsAResponse(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	b := startNative(t, "a")
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(nativeInstance(b)))
	path := responsesPath + "/" + decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":"a"}`).Succeeds(t).Body).ID
	for sent, want := range map[int]int{500: 500, 503: 503, 429: 429, 400: 400, 401: 502, 302: 502, 404: 404, 410: 404} {
		answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(sent) })
		b.kept.Store(&answer)
		for _, method := range []string{"GET", "DELETE"} {
			if got := r.Do(method, path, ""); got.Status != want {
				t.Errorf("%s where the backend says %d: status %d, want %d", method, sent, got.Status, want)
			}
		}
	}
	b.kept.Store(nil)
	r.Do("GET", path, "").Succeeds(t)
	r.Do("DELETE", path, "").Succeeds(t)
}

// What a backend keeps counts in the budget for bodies while it is passed on.
func TestKeptResponsesTakeFromTheBudget(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	b := startNative(t, "a")
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(nativeInstance(b)))
	path := responsesPath + "/" + decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":"a"}`).Succeeds(t).Body).ID
	large := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"text":"`+strings.Repeat("x", 3<<20)+`"}`)
	})
	b.kept.Store(&large)
	giveBack := takeAllBut(t, r.Memory.Bodies(), 2<<20)
	r.Do("GET", path, "").FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "overloaded", "")
	giveBack()
	r.Do("GET", path, "").Succeeds(t)
	gatewaytest.Eventually(t, "all is free", func() bool { return r.Memory.Bodies().Taken() == 0 })
}

func TestAPassedResponseOfAnotherModelIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	native, other := startNative(t, "a"), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(nativeInstance(native), gatewaytest.Instance("other", other.URL())))
	id := decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":"a"}`).Succeeds(t).Body).ID
	refused := r.Post(responsesPath, `{"model":"other","input":"b","previous_response_id":"`+id+`"}`)
	refused.FailsWith(t, 400, "invalid_request_error", "previous_response_not_found", "previous_response_id")
	want := "The previous response '" + id + "' is kept by the backend that made it, one of the model 'm', which does not serve this request. Continue it with that model, or send the items of the conversation as 'input'."
	if !strings.Contains(refused.Body, want) {
		t.Errorf("told %s", refused.Body)
	}
	if n := len(other.Requests()); n != 0 || strings.Contains(refused.Body, native.URL) {
		t.Errorf("%d requests went to the other backend; told %s", n, refused.Body)
	}
}

func TestWhatWasTranslatedIsNotPassedOn(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	b := gatewaytest.StartBackend(t)
	yaml := func(responses string) string {
		return gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "responses: "+responses))
	}
	r := gatewaytest.Start(t, yaml("false"))
	made := decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":"a"}`).Succeeds(t).Body)
	r.ReloadWith(yaml("true"))
	for _, body := range []string{
		`{"model":"m","input":"b","previous_response_id":"` + made.ID + `"}`,
		`{"model":"m","input":[{"type":"item_reference","id":"` + made.Output[0].ID + `"},{"role":"user","content":"b"}]}`,
		`{"model":"m","input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"pb1.e30="},{"role":"user","content":"b"}]}`,
	} {
		r.Post(responsesPath, body).Succeeds(t)
		requests := b.Requests()
		if last := requests[len(requests)-1]; last.Path != "/v1/chat/completions" {
			t.Errorf("%s went to %s", body, last.Path)
		}
	}
}
