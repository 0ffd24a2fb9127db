package v1_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

const responsesPath = "/v1/responses"

// aResponse is what these tests read of a response.
type aResponse struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	Status string `json:"status"`
	Model  string `json:"model"`
	Error  *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output []struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
		Input     string `json:"input"`
		Content   []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"output"`
	Usage *struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
}

func decodeResponse(t *testing.T, body string) aResponse {
	t.Helper()
	var got aResponse
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return got
}

// textOfResponse returns the text of all messages.
func textOfResponse(r aResponse) string {
	text := ""
	for _, item := range r.Output {
		for _, part := range item.Content {
			text += part.Text
		}
	}
	return text
}

// responseEvent is an event of a stream of a response.
type responseEvent struct {
	Type     string         `json:"type"`
	Sequence int            `json:"sequence_number"`
	Delta    string         `json:"delta"`
	Response jsontext.Value `json:"response"`
}

// responseEvents parses a stream of a response. Every event has the name that its data
// has, and they are numbered.
func responseEvents(t *testing.T, body string) []responseEvent {
	t.Helper()
	var events []responseEvent
	for _, text := range strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(text, "\n")
		if !ok {
			t.Fatalf("%q is no event, in\n%s", text, body)
		}
		var event responseEvent
		if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &event); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if name != "event: "+event.Type || event.Sequence != len(events) {
			t.Errorf("event %d is %q with the number %d under %q", len(events), event.Type, event.Sequence, name)
		}
		events = append(events, event)
	}
	return events
}

func lastResponse(t *testing.T, events []responseEvent) aResponse {
	t.Helper()
	return decodeResponse(t, string(events[len(events)-1].Response))
}

var fourDialects = []string{"openai", "anthropic", "gemini", "ollama"}

// eachDialect runs a test against one backend of each dialect.
func eachDialect(t *testing.T, test func(t *testing.T, r *gatewaytest.Gateway, b *simulator.Backend)) {
	t.Helper()
	for _, adapter := range fourDialects {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			test(t, gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "adapter: "+adapter))), b)
		})
	}
}

func TestResponsesReachEveryDialect(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, r *gatewaytest.Gateway, _ *simulator.Backend) {
		plain := decodeResponse(t, r.Post(responsesPath, `{"model":"m","instructions":"Be brief.","input":"one two three"}`).Succeeds(t).Body)
		if plain.Object != "response" || plain.Status != "completed" || plain.Model != "m" || textOfResponse(plain) == "" || plain.Usage == nil || plain.Usage.Total == 0 {
			t.Errorf("response %+v", plain)
		}
		reply := r.Post(responsesPath, `{"model":"m","instructions":"Be brief.","input":"one two three","stream":true}`).Succeeds(t)
		if got := reply.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
			t.Errorf("content type %q", got)
		}
		events := responseEvents(t, reply.Body)
		streamed := lastResponse(t, events)
		text := ""
		for _, e := range events {
			text += e.Delta
		}
		if events[0].Type != "response.created" || events[len(events)-1].Type != "response.completed" || streamed.Status != "completed" {
			t.Errorf("events %+v", events)
		}
		if text != textOfResponse(streamed) || text != textOfResponse(plain) {
			t.Errorf("deltas %q, response %q, plain %q", text, textOfResponse(streamed), textOfResponse(plain))
		}
		if diff := cmp.Diff(plain.Usage, streamed.Usage); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAConversationContinuesFromWhatWasKept(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b))
	first := decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":"first","instructions":"old"}`).Succeeds(t).Body)
	second := lastResponse(t, responseEvents(t, r.Post(responsesPath, `{"model":"m","input":"second","stream":true,"previous_response_id":"`+first.ID+`"}`).Succeeds(t).Body))
	third := decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":[{"role":"user","content":"third"}],"previous_response_id":"`+second.ID+`"}`).Succeeds(t).Body)
	requests := b.Requests()
	var sent struct {
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(requests[len(requests)-1].Body, &sent); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range sent.Messages {
		got = append(got, m.Role+": "+m.Content)
	}
	want := []string{"user: first", "assistant: " + textOfResponse(first), "user: second", "assistant: " + textOfResponse(second), "user: third"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	kept := decodeResponse(t, r.Do("GET", responsesPath+"/"+third.ID, "").Succeeds(t).Body)
	if diff := cmp.Diff(third, kept); diff != "" {
		t.Error(diff)
	}
	items := r.Do("GET", responsesPath+"/"+third.ID+"/input_items", "").Succeeds(t).Body
	if !strings.Contains(items, `"text":"third"`) || !strings.Contains(items, `"has_more":false`) {
		t.Errorf("items %s", items)
	}
	if body := r.Do("DELETE", responsesPath+"/"+second.ID, "").Succeeds(t).Body; !strings.Contains(body, `"deleted":true`) {
		t.Errorf("deleted: %s", body)
	}
	r.Do("GET", responsesPath+"/"+second.ID, "").FailsWith(t, 404, "not_found_error", "response_not_found", "")
	r.Do("DELETE", responsesPath+"/"+second.ID, "").FailsWith(t, 404, "not_found_error", "response_not_found", "")
	r.Post(responsesPath, `{"model":"m","input":"x","previous_response_id":"`+third.ID+`"}`).
		FailsWith(t, 400, "invalid_request_error", "previous_response_not_found", "previous_response_id")
}

func TestInputItemsAreListedInPages(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	r, _ := gatewaytest.StartOne(t)
	made := decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":[{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"user","content":"c"}]}`).Succeeds(t).Body)
	texts := func(query string) string {
		var list struct {
			Data []struct {
				ID      string
				Content []struct{ Text string }
			}
			LastID  string `json:"last_id"`
			HasMore bool   `json:"has_more"`
		}
		if err := json.Unmarshal([]byte(r.Do("GET", responsesPath+"/"+made.ID+"/input_items"+query, "").Succeeds(t).Body), &list, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, item := range list.Data {
			text += item.Content[0].Text
		}
		return fmt.Sprint(text, list.HasMore, list.LastID)
	}
	last := "msg_" + strings.TrimPrefix(made.ID, "resp_") + "_i"
	for query, want := range map[string]string{
		"":                               "cbafalse" + last + "0",
		"?order=asc&limit=2":             "abtrue" + last + "1",
		"?order=asc&after=" + last + "1": "cfalse" + last + "2",
	} {
		if got := texts(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, query := range []string{"?limit=0", "?order=up", "?after=x"} {
		if got := r.Do("GET", responsesPath+"/"+made.ID+"/input_items"+query, ""); got.Status != 400 {
			t.Errorf("%s: status %d", query, got.Status)
		}
	}
}

func TestWhatIsNotToBeStoredIsNot(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	made := decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":"a","store":false}`).Succeeds(t).Body)
	if got := r.Do("GET", responsesPath+"/"+made.ID, ""); got.Status != 404 {
		t.Errorf("status %d", got.Status)
	}
}

func TestResponsesBelongToTheirKey(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+`
security:
  enabled: true
  keys:
    - {id: one, key-sha256: "`+gatewaytest.HashOf("secret-one")+`"}
    - {id: two, key-sha256: "`+gatewaytest.HashOf("secret-two")+`"}
`)
	one, two := []string{"Authorization", "Bearer secret-one"}, []string{"Authorization", "Bearer secret-two"}
	made := decodeResponse(t, r.Do("POST", responsesPath, `{"model":"m","input":"a"}`, one...).Succeeds(t).Body)
	r.Do("GET", responsesPath+"/"+made.ID, "", one...).Succeeds(t)
	for _, path := range []string{"", "/input_items"} {
		if got := r.Do("GET", responsesPath+"/"+made.ID+path, "", two...); got.Status != 404 {
			t.Errorf("another key: status %d", got.Status)
		}
		if got := r.Do("GET", responsesPath+"/"+made.ID+path, ""); got.Status != 401 {
			t.Errorf("no key: status %d", got.Status)
		}
	}
	if got := r.Do("DELETE", responsesPath+"/"+made.ID, "", two...); got.Status != 404 {
		t.Errorf("another key deletes: status %d", got.Status)
	}
	continued := `{"model":"m","input":"b","previous_response_id":"` + made.ID + `"}`
	if got := r.Do("POST", responsesPath, continued, two...); got.Status != 400 {
		t.Errorf("another key continues: status %d", got.Status)
	}
	referred := `{"model":"m","input":[{"type":"item_reference","id":"` + made.Output[0].ID + `"},{"role":"user","content":"b"}]}`
	if got := r.Do("POST", responsesPath, referred, two...); got.Status != 400 {
		t.Errorf("another key refers: status %d", got.Status)
	}
	r.Do("POST", responsesPath, continued, one...).Succeeds(t)
	r.Do("POST", responsesPath, referred, one...).Succeeds(t)
}

func TestReferencesBringNoMoreThanABodyMayHave(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"\nlimits: {json-body: 64KiB}\n")
	long := strings.Repeat("x", 20_000)
	made := decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":"`+long+`"}`).Succeeds(t).Body)
	item := `{"type":"item_reference","id":"msg_` + strings.TrimPrefix(made.ID, "resp_") + `_i0"}`
	r.Post(responsesPath, `{"model":"m","input":[`+item+`,`+item+`]}`).Succeeds(t)
	if got := r.Post(responsesPath, `{"model":"m","input":[`+strings.Repeat(item+",", 99)+item+`]}`); got.Status != 413 {
		t.Errorf("status %d", got.Status)
	}
	before := len(b.Requests())
	others := make([]string, 300)
	for i := range others {
		others[i] = fmt.Sprintf(`{"type":"reasoning","id":"rs_%026d_0","summary":[]}`, i)
	}
	r.Post(responsesPath, `{"model":"m","input":[`+strings.Join(others, ",")+`,{"role":"user","content":"hi"}]}`).Succeeds(t) // state that is not found is left out
	if len(b.Requests()) != before+1 {
		t.Error("the request did not reach the backend")
	}
}

func TestGatewaysShareResponsesInRedis(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	server := storetest.Redis(t)
	yaml := gatewaytest.PoolYAML(b) + "\nresponses: {shared: true}\nredis: {url: '" + server.URL + "'}\n"
	first, second := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
	made := decodeResponse(t, first.Post(responsesPath, `{"model":"m","input":"a"}`).Succeeds(t).Body)
	second.Do("GET", responsesPath+"/"+made.ID, "").Succeeds(t)
	continued := `{"model":"m","input":"b","previous_response_id":"` + made.ID + `"}`
	second.Post(responsesPath, continued).Succeeds(t)
	server.Kill()
	second.Post(responsesPath, continued).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	second.Post(responsesPath, `{"model":"m","input":"b"}`).Succeeds(t) // only what is kept is lost
}

func TestAStreamOfAResponseThatBreaksEndsInFailure(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]simulator.Step{
		"cut":       {Stop: simulator.StopReset, After: 3},
		"closed":    {Stop: simulator.StopClose, After: 3},
		"error":     {Inject: "data: {\"error\":{\"message\":\"CUDA out of memory\"}}\n\n", After: 3},
		"no finish": {NoFinish: true, NoDone: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := gatewaytest.StartOne(t, step)
			body := r.Post(responsesPath, `{"model":"m","input":"one two three four five six","stream":true}`).Succeeds(t).Body
			events := responseEvents(t, body)
			last := lastResponse(t, events)
			if events[len(events)-1].Type != "response.failed" || last.Status != "failed" || last.Error == nil || last.Error.Code != "server_error" || last.Error.Message == "" {
				t.Errorf("ends with %+v", last)
			}
			if slices.ContainsFunc(events, func(e responseEvent) bool { return e.Type == "response.completed" }) || strings.Contains(body, "[DONE]") {
				t.Errorf("it looks complete:\n%s", body)
			}
			if got := r.Do("GET", responsesPath+"/"+last.ID, ""); got.Status != http.StatusNotFound {
				t.Errorf("it was kept: status %d", got.Status)
			}
		})
	}
}

func TestAnErrorBeforeTheStreamIsAPlainOne(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t, simulator.Step{Status: 500})
	r.Post(responsesPath, `{"model":"m","input":"a","stream":true}`).FailsWith(t, 500, "api_error", "upstream_error", "")
	r.Post(responsesPath, `{"model":"none","input":"a","stream":true}`).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	r.Post(responsesPath, `{"model":"m","input":"a","tools":[{"type":"file_search"}]}`).FailsWith(t, 400, "invalid_request_error", "invalid_value", "tools[0].type")
	r.Post(responsesPath, `{"model":"m","input":"a","Input":"b"}`).FailsWith(t, 400, "invalid_request_error", "invalid_json", "")
}

func TestARequestOfTheResponsesAPIFailsOver(t *testing.T) {
	t.Parallel()
	broken, well := gatewaytest.StartBackend(t, simulator.Step{Status: 500}), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(broken, well))
	for range 2 {
		events := responseEvents(t, r.Post(responsesPath, `{"model":"m","input":"a","stream":true}`).Succeeds(t).Body)
		if events[len(events)-1].Type != "response.completed" {
			t.Errorf("events %+v", events)
		}
	}
}
