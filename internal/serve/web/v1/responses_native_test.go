package v1_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// startSimulatedResponses starts a gateway in front of a backend that speaks the Responses API.
func startSimulatedResponses(t *testing.T) (*gatewaytest.Gateway, *simulator.Backend) {
	t.Helper()
	b := gatewaytest.StartBackend(t)
	return gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "responses: true"))), b
}

// A simulated backend that speaks the Responses API itself gets requests as they came,
// keeps what it answers, and is asked for it again.
func TestSimulatedBackendsSpeakResponses(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	r, b := startSimulatedResponses(t)
	first := gatewaytest.DecodeObject(t, r.Do("POST", "/v1/responses", `{"model":"m","input":"hi"}`).Succeeds(t).Body)
	if text := gatewaytest.At(t, first, "output/0/content/0/text").(string); !strings.Contains(text, "simulated") || first["status"] != "completed" {
		t.Errorf("%v", first)
	}
	id := first["id"].(string)
	if got := gatewaytest.OnlyRequest(t, b); got.Path != "/v1/responses" || !strings.HasPrefix(id, "resp_") {
		t.Errorf("%s, id %s", got.Path, id)
	}
	if again := gatewaytest.DecodeObject(t, r.Do("GET", "/v1/responses/"+id, "").Succeeds(t).Body); again["id"] != id {
		t.Errorf("%v", again)
	}
	r.Do("POST", "/v1/responses", `{"model":"m","input":"and now?","previous_response_id":"`+id+`"}`).Succeeds(t)
	r.Do("DELETE", "/v1/responses/"+id, "").Succeeds(t)
	if reply := r.Do("GET", "/v1/responses/"+id, ""); reply.Status != 404 {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	const tool = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	called := gatewaytest.DecodeObject(t, r.Do("POST", "/v1/responses", `{"model":"m","input":"use get_weather",`+tool+`}`).Succeeds(t).Body)
	if gatewaytest.At(t, called, "output/0/type") != "function_call" || gatewaytest.At(t, called, "output/0/name") != "get_weather" {
		t.Errorf("%v", called)
	}
	cut := gatewaytest.DecodeObject(t, r.Do("POST", "/v1/responses", `{"model":"m","max_output_tokens":3,"input":"THINK"}`).Succeeds(t).Body)
	if cut["status"] != "incomplete" || gatewaytest.At(t, cut, "incomplete_details/reason") != "max_output_tokens" {
		t.Errorf("%v", cut)
	}

	reply := r.Do("POST", "/v1/responses", `{"model":"m","stream":true,"input":"THINK and use get_weather",`+tool+`}`).Succeeds(t)
	events := doorEvents(t, reply.Body)
	names := ""
	for i, e := range events {
		object := gatewaytest.DecodeObject(t, e.data)
		if object["type"] != e.name || object["sequence_number"] != float64(i) {
			t.Errorf("event %d: %v", i, e)
		}
		names += e.name + " "
	}
	for _, want := range []string{"response.created response.in_progress response.output_item.added response.reasoning_summary_part.added", "response.function_call_arguments.delta", "response.output_item.done response.completed "} {
		if !strings.Contains(names, want) {
			t.Errorf("no %q in %s", want, names)
		}
	}
}

// A backend that keeps a response is asked for it with the credential that made it: that of
// the instance, or the caller's own where it is passed on.
func TestKeptResponsesAreAskedForWithTheCredential(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	for name, test := range map[string]struct {
		settings string
		header   []string
	}{
		"the instance's": {settings: "api-key: backend-key-1"},
		"the caller's":   {settings: "forward-authorization: true", header: []string{"Authorization", "Bearer backend-key-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := simulator.Start(simulator.Options{Key: "backend-key-1"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "responses: true", test.settings)))
			id := gatewaytest.DecodeObject(t, r.Do("POST", "/v1/responses", `{"model":"m","input":"hi"}`, test.header...).Succeeds(t).Body)["id"].(string)
			r.Do("GET", "/v1/responses/"+id, "", test.header...).Succeeds(t)
			r.Do("DELETE", "/v1/responses/"+id, "", test.header...).Succeeds(t)
		})
	}
}

// What can go wrong at a backend goes wrong in the same way at each door: an answer that
// breaks off never looks complete, an error inside the stream is one for the client, and a
// late first byte only takes its time.
func TestFaultsOfBackendsAtEveryDoor(t *testing.T) {
	t.Parallel()
	for _, door := range []struct{ path, body, complete, failure string }{
		{"/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`, "data: [DONE]", `data: {"error":`},
		{"/v1/completions", `{"model":"m","stream":true,"prompt":"hi"}`, "data: [DONE]", `data: {"error":`},
		{"/v1/messages", messageStreamHi, "event: message_stop", "event: error\n"},
		{"/v1/responses", `{"model":"m","stream":true,"input":"hi"}`, "event: response.completed", "event: error\n"},
	} {
		t.Run(door.path[len("/v1/"):], func(t *testing.T) {
			t.Parallel()
			r, b := startSimulatedResponses(t)
			if door.path == "/v1/messages" {
				b = gatewaytest.StartBackend(t)
				r = gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "adapter: anthropic")))
			}
			for name, step := range map[string]simulator.Step{
				"an error inside the stream":  {StreamError: "the model died", After: 6},
				"an end that comes too soon":  {Stop: simulator.StopEnd, After: 6},
				"a connection that is reset":  {Stop: simulator.StopReset, After: 6},
				"a connection that is closed": {Stop: simulator.StopClose, After: 6, MidEvent: true},
			} {
				b.Script(step)
				reply := r.Do("POST", door.path, door.body)
				if reply.Status != 200 || strings.Contains(reply.Body, door.complete) || !strings.Contains(reply.Body, door.failure) {
					t.Errorf("%s: %d %s", name, reply.Status, reply.Body)
				}
			}
			b.Script(simulator.Step{FirstDelay: 20 * time.Millisecond})
			if reply := r.Do("POST", door.path, door.body).Succeeds(t); !strings.Contains(reply.Body, door.complete) {
				t.Errorf("%s", reply.Body)
			}
			b.Script(simulator.Step{Status: 429, Body: `{"error":{"message":"slow down"}}`})
			if reply := r.Do("POST", door.path, door.body); reply.Status != 429 || !strings.Contains(reply.Body, "slow down") {
				t.Errorf("%d %s", reply.Status, reply.Body)
			}
		})
	}
}

// The memory of a request is used for the next one while its answer is still streamed.
// What the last event repeats is nevertheless that of its own request.
func TestStreamedResponsesRepeatTheirOwnRequests(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.SetDefault(simulator.Behaviour{Step: simulator.Step{EventDelay: time.Millisecond}})
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			for turn := range 4 {
				mark := fmt.Sprintf("%d-%d-%s", i, turn, strings.Repeat("x", 50*i))
				reply := r.Do("POST", "/v1/responses", `{"model":"m","stream":true,"instructions":"`+mark+`","metadata":{"mark":"`+mark+`"},"input":"hi"}`)
				events := doorEvents(t, reply.Body)
				last := gatewaytest.DecodeObject(t, events[len(events)-1].data)
				if gatewaytest.At(t, last, "response/metadata/mark") != mark || gatewaytest.At(t, last, "response/instructions") != mark {
					t.Errorf("%s: %s", mark, events[len(events)-1].data)
				}
			}
		})
	}
	all.Wait()
}
