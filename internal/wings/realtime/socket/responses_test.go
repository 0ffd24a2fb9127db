package socket_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const responsesPath = "/v1/responses"

// start starts a gateway with an instance "m" that speaks chat, and an instance "native" that
// speaks the Responses API itself.
func start(t *testing.T, more string, steps ...simulator.Step) (*gatewaytest.Gateway, *simulator.Backend) {
	t.Helper()
	b := gatewaytest.StartBackend(t, steps...)
	return gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("native", b.URL(), "responses: true"))+more), b
}

func messageTo(model, members string) string {
	return `{"type":"response.create","model":"` + model + `",` + members + `}`
}

func idOf(t *testing.T, event map[string]any) string {
	t.Helper()
	if event["type"] != "response.completed" {
		t.Fatalf("the answer ended with %v", event)
	}
	return gatewaytest.At(t, event, "response/id").(string)
}

// The events are those of a stream over HTTP, one in each message, for backends of every
// dialect.
func TestEventsAreThoseOfAStream(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "")
	for _, model := range []string{"m", "native"} {
		t.Run(model, func(t *testing.T) {
			var over []string
			for line := range strings.Lines(r.Do(http.MethodPost, responsesPath, `{"model":"`+model+`","stream":true,"input":"hi"}`).Succeeds(t).Body) {
				if data, isData := strings.CutPrefix(line, "data: {"); isData {
					over = append(over, "{"+data)
				}
			}
			s := r.OpenSocket(responsesPath)
			for range 2 { // answers come one after the other on one connection
				s.Send(messageTo(model, `"input":"hi"`))
				last, before := s.Last()
				if len(before)+1 != len(over) || last["type"] != "response.completed" {
					t.Fatalf("%d events, the last is %v, want %d", len(before)+1, last, len(over))
				}
				for i, event := range append(before, last) {
					if want := gatewaytest.DecodeObject(t, over[i]); event["type"] != want["type"] || event["sequence_number"] != want["sequence_number"] {
						t.Errorf("event %d: %v, want %v", i, event, want)
					}
				}
				if gatewaytest.At(t, last, "response/usage/total_tokens").(float64) == 0 || gatewaytest.At(t, last, "response/model") != model {
					t.Errorf("%v", last)
				}
			}
		})
	}
}

// Each message is a request of its own, with its own id, record and counts.
func TestEachMessageIsARequest(t *testing.T) {
	t.Parallel()
	r, _ := start(t, gatewaytest.QuotaOn)
	s, reply := r.Dial(responsesPath, "X-Request-Id", "mine")
	if reply.Status != http.StatusSwitchingProtocols || reply.Header.Get("X-Request-Id") != "mine" {
		t.Fatalf("%d %v", reply.Status, reply.Header)
	}
	idOf(t, s.Ask(messageTo("m", `"input":"one"`)))
	idOf(t, s.Ask(messageTo("m", `"input":"two","user":"u"`)))
	if failed := s.Ask(messageTo("nobody", `"input":"three"`)); failed["status"] != float64(503) || gatewaytest.At(t, failed, "error/code") != "service_unavailable" ||
		gatewaytest.At(t, failed, "headers/x-request-id") != "mine.3" {
		t.Errorf("%v", failed)
	}
	gatewaytest.Eventually(t, "both are counted", func() bool {
		return gatewaytest.Sum(r.Scrape(), "model_router_door_requests_total", `door="responses"`, `status="success"`) == 2
	})
	ids := ""
	for _, call := range r.GetObject("/api/monitoring/calls")["calls"].([]any) {
		ids += fmt.Sprint(gatewaytest.At(t, call, "requestId"), " ", gatewaytest.At(t, call, "door"), ",")
	}
	if ids != "mine.3 responses,mine.2 responses,mine.1 responses," {
		t.Errorf("the calls are %q", ids)
	}
	gatewaytest.Eventually(t, "the access log has every message", func() bool {
		return gatewaytest.CountLines(r.Logs.String(), `"msg":"request"`, `"request_id":"mine.`, `"path":"/v1/responses"`) == 3
	})
}

// A response that is not stored can be continued on its connection, and only there.
func TestAConnectionKnowsWhatIsNotStored(t *testing.T) {
	t.Parallel()
	r, b := start(t, "")
	for _, model := range []string{"m", "native"} {
		t.Run(model, func(t *testing.T) {
			s := r.OpenSocket(responsesPath)
			first := idOf(t, s.Ask(messageTo(model, `"store":false,"input":"the word is cobalt"`)))
			s.Send(messageTo(model, `"store":false,"previous_response_id":"`+first+`","input":[{"role":"user","content":"which word?"}]`))
			last, before := s.Last()
			second := idOf(t, last)
			for _, event := range []map[string]any{before[0], last} {
				if gatewaytest.At(t, event, "response/previous_response_id") != first {
					t.Errorf("%v", event)
				}
			}
			sent := b.Requests()[len(b.Requests())-1]
			if body := string(sent.Body); !strings.Contains(body, "cobalt") || !strings.Contains(body, "which word?") || strings.Contains(body, first) {
				t.Errorf("the backend got %s", body)
			}
			if third := s.Ask(messageTo(model, `"previous_response_id":"`+second+`","input":"and now?"`)); third["type"] != "response.completed" {
				t.Errorf("%v", third)
			}
			other := r.OpenSocket(responsesPath)
			if lost := other.Ask(messageTo(model, `"store":false,"previous_response_id":"`+second+`","input":"x"`)); gatewaytest.At(t, lost, "error/code") != "previous_response_not_found" {
				t.Errorf("%v", lost)
			}
			idOf(t, other.Ask(messageTo(model, `"store":false,"input":"from the start"`)))
		})
	}
}

// What is stored can be continued on every connection, and over HTTP.
func TestWhatIsStoredIsContinuedAnywhere(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "")
	for _, model := range []string{"m", "native"} {
		id := idOf(t, r.OpenSocket(responsesPath).Ask(messageTo(model, `"input":"hi"`)))
		idOf(t, r.OpenSocket(responsesPath).Ask(messageTo(model, `"input":"more","previous_response_id":"`+id+`"`)))
		r.Do(http.MethodPost, responsesPath, `{"model":"`+model+`","input":"more","previous_response_id":"`+id+`"}`).Succeeds(t)
	}
}

// A continuation that fails takes the response with it, as the API has it.
func TestAFailedContinuationForgets(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "")
	s := r.OpenSocket(responsesPath)
	id := idOf(t, s.Ask(messageTo("m", `"store":false,"input":"hi"`)))
	continued := `"store":false,"previous_response_id":"` + id + `",`
	if failed := s.Ask(messageTo("m", continued+`"input":[{"type":"function_call_output","call_id":"call_missing","output":"x"}]`)); failed["type"] != "error" {
		t.Fatalf("%v", failed)
	}
	if gone := s.Ask(messageTo("m", continued+`"input":"again"`)); gatewaytest.At(t, gone, "error/code") != "previous_response_not_found" {
		t.Errorf("%v", gone)
	}
}

// A message without output only prepares the next one. No backend is asked.
func TestAMessageWithoutOutput(t *testing.T) {
	t.Parallel()
	r, b := start(t, "")
	s := r.OpenSocket(responsesPath)
	s.Send(messageTo("m", `"generate":false,"store":false,"instructions":"be brief","input":[{"role":"user","content":"prepared"}]`))
	last, before := s.Last()
	id := idOf(t, last)
	if len(before) != 1 || before[0]["type"] != "response.created" || len(gatewaytest.At(t, last, "response/output").([]any)) != 0 ||
		gatewaytest.At(t, last, "response/instructions") != "be brief" || gatewaytest.At(t, last, "response/usage/total_tokens") != float64(0) {
		t.Errorf("%v, %v", before, last)
	}
	if n := len(b.Requests()); n != 0 {
		t.Errorf("the backend got %d requests", n)
	}
	idOf(t, s.Ask(messageTo("m", `"store":false,"previous_response_id":"`+id+`","input":[{"role":"user","content":"go"}]`)))
	if body := string(gatewaytest.OnlyRequest(t, b).Body); !strings.Contains(body, "prepared") || !strings.Contains(body, "go") {
		t.Errorf("the backend got %s", body)
	}
}

// Messages of one lane are answered in their order, and those of different lanes at the same
// time. Their events say which lane they belong to.
func TestLanes(t *testing.T) {
	t.Parallel()
	held := gatewaytest.StartHeldBackend(t)
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("held", held.URL), gatewaytest.Instance("m", b.URL())))
	s := r.OpenSocket(responsesPath)
	s.Send(messageTo("held", `"stream_id":"slow","store":false,"input":"hi"`))
	<-held.Entered
	s.Send(messageTo("m", `"stream_id":"slow","store":false,"input":"waits"`))
	s.Send(messageTo("m", `"stream_id":"quick","store":false,"input":"overtakes"`))
	var order []string
	ids := map[any]string{}
	for len(order) < 3 {
		last, before := s.Last()
		for _, event := range before {
			if event["stream_id"] != "slow" && event["stream_id"] != "quick" {
				t.Errorf("%v", event)
			}
		}
		id := idOf(t, last)
		order = append(order, fmt.Sprint(last["stream_id"]))
		ids[last["stream_id"]] = id
		if len(order) == 1 {
			close(held.Open)
		}
	}
	if strings.Join(order, " ") != "quick slow slow" {
		t.Errorf("the answers came in the order %v", order)
	}
	// A lane can go on with what another one has.
	idOf(t, s.Ask(messageTo("m", `"stream_id":"third","store":false,"input":"fork","previous_response_id":"`+ids["quick"]+`"`)))
	if body := string(b.Requests()[len(b.Requests())-1].Body); !strings.Contains(body, "overtakes") || !strings.Contains(body, "fork") {
		t.Errorf("the backend got %s", body)
	}
}

// What a connection may have running and waiting is bounded, and the rest goes on.
func TestAConnectionHasBounds(t *testing.T) {
	t.Parallel()
	held := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("held", held.URL)))
	s := r.OpenSocket(responsesPath)
	const running, waiting = 8, 16
	for n := range running {
		s.Send(messageTo("held", fmt.Sprintf(`"stream_id":"%d","store":false,"input":"hi"`, n)))
		<-held.Entered
	}
	for range waiting {
		s.Send(messageTo("held", `"stream_id":"0","store":false,"input":"hi"`))
	}
	for _, lane := range []string{"0", "more"} {
		s.Send(messageTo("held", `"stream_id":"`+lane+`","store":false,"input":"hi"`))
		refused, _ := s.Last()
		if refused["stream_id"] != lane || refused["status"] != float64(429) || gatewaytest.At(t, refused, "error/code") != "concurrency_limit_reached" {
			t.Errorf("%v", refused)
		}
	}
	close(held.Open)
	for range running + waiting {
		last, _ := s.Last()
		idOf(t, last)
	}
}

// An answer that becomes senseless ends with an error that is valid JSON and has the lane of its
// message.
func TestAStreamThatBreaksEndsWithAnErrorOfItsLane(t *testing.T) {
	t.Parallel()
	r, _ := start(t, "", simulator.Step{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: `data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","model":"native","output":[]}}` +
		"\n\ndata: {}\n\n"})
	s := r.OpenSocket(responsesPath)
	s.Send(messageTo("native", `"stream_id":"x","input":"hi"`))
	last, _ := s.Last() // a message that is no JSON ends the test
	if last["stream_id"] != "x" || last["type"] != "error" || gatewaytest.At(t, last, "error/message") != "The backend's answer could not be understood." {
		t.Errorf("%v", last)
	}
}
