package socket_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

var admin = []string{"Authorization", "Bearer admin-token"}

// runYAML serves the model rt in runs, to a key with a budget.
func runYAML(b *realtimeBackend, runs string) string {
	return realtimeYAML(b) + realtimeKey(budgetOfMany) + "runs: {enabled: true" + runs + "}\n"
}

// inRun are the headers of a request in the run night.
func inRun() []string { return append([]string{"X-Router-Run", "night"}, realtimeHeaders...) }

// runShown returns the only run.
func runShown(t *testing.T, r *gatewaytest.Gateway) map[string]any {
	t.Helper()
	shown := gatewaytest.DecodeObject(t, r.Do(http.MethodGet, "/api/runs", "", admin...).Succeeds(t).Body)
	found, _ := gatewaytest.At(t, shown, "data/0").(map[string]any)
	return found
}

// runningShown returns the list of running requests.
func runningShown(t *testing.T, r *gatewaytest.Gateway) []any {
	t.Helper()
	shown := gatewaytest.DecodeObject(t, r.Do(http.MethodGet, "/api/monitoring/running", "", admin...).Succeeds(t).Body)
	found, _ := gatewaytest.At(t, shown, "running").([]any)
	return found
}

// A connection without a response is no call of its run: it takes none of the run's concurrent
// calls, and does not keep the run from being idle.
func TestAConnectionIsNoCallOfItsRun(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs")
	b := startRealtime(t)
	r := gatewaytest.Start(t, runYAML(b, ", limits: {concurrency: 1}"))
	idle := r.OpenSocket(realtimePath, inRun()...)
	idle.Event()
	if run := runShown(t, r); run["state"] != "WAITING" || run["underWay"] != float64(0) {
		t.Errorf("got the run %v, want it WAITING with nothing under way", run)
	}
	busy := r.OpenSocket(realtimePath, inRun()...)
	for range 2 {
		busy.Send(`{"type":"response.create"}`)
		until(t, busy, "response.done")
	}
	busy.Send(`{"type":"response.create","response":{"instructions":"hang"}}`)
	until(t, busy, "response.created")
	if run := runShown(t, r); run["state"] != "RUNNING" || run["underWay"] != float64(1) {
		t.Errorf("got the run %v, want it RUNNING with one call under way", run)
	}
	idle.Send(`{"type":"response.create"}`)
	if refused := until(t, idle, "error"); gatewaytest.At(t, refused, "error/code") != "budget_reserved" {
		t.Errorf("got %v, want budget_reserved", refused)
	}
}

// A response is in the list of running requests, and ends when an operator stops it or ends its
// run: the backend is told, what was made is paid before the client learns of the end, and its
// record is that of a stopped request.
func TestAResponseIsStopped(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs")
	stop := func(t *testing.T, r *gatewaytest.Gateway) {
		t.Helper()
		id, _ := gatewaytest.At(t, runningShown(t, r)[0], "requestId").(string)
		r.Do(http.MethodPost, "/api/monitoring/running/"+id+"/stop", `{"reason":"too long"}`, admin...).Succeeds(t)
	}
	end := func(t *testing.T, r *gatewaytest.Gateway) {
		t.Helper()
		id, _ := runShown(t, r)["id"].(string)
		r.API(http.MethodPost, "/api/runs/"+id+"/end?now=true", "", admin...).Is(t, http.StatusOK)
	}
	const reported, estimated = 30, 1 + 5
	for name, row := range map[string]struct {
		stop func(*testing.T, *gatewaytest.Gateway)
		// asked are the instructions of the response; see realtimeBackend.
		asked, code string
		used        float64
		goesOn      bool // the connection stays
	}{
		"by an operator":                          {stop, "hang", "stopped_by_operator", reported, true},
		"with its run":                            {end, "hang", "run_ended", reported, true},
		"and the backend makes it all the same":   {stop, "mute", "stopped_by_operator", estimated, false},
		"with its run, and the backend makes it":  {end, "mute", "run_ended", estimated, false},
		"before it begins":                        {stop, "ignore", "stopped_by_operator", 2, false},
		"with its run, before the backend begins": {end, "ignore", "run_ended", 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.Start(t, runYAML(b, ""))
			s := r.OpenSocket(realtimePath, inRun()...)
			s.Send(`{"type":"response.create","response":{"instructions":"` + row.asked + `"}}`)
			if row.asked == "ignore" {
				gatewaytest.Eventually(t, "the response is asked for", func() bool { return len(runningShown(t, r)) == 1 })
			} else {
				for range 5 {
					until(t, s, "response.output_text.delta")
				}
			}
			shown := runningShown(t, r)
			if len(shown) != 1 || gatewaytest.At(t, shown[0], "model") != "rt" || gatewaytest.At(t, shown[0], "door") != "realtime" {
				t.Fatalf("got the running requests %v, want one of the Realtime API", shown)
			}
			row.stop(t, r)
			if told := until(t, s, "error"); gatewaytest.At(t, told, "error/code") != row.code {
				t.Errorf("got %v, want %s", told, row.code)
			}
			if used, reserved := tokensOf(t, r); used != row.used || reserved != 0 {
				t.Errorf("got %v used and %v reserved, want %v and 0", used, reserved, row.used)
			}
			if used := gatewaytest.At(t, runShown(t, r), "used/tokens"); used != row.used {
				t.Errorf("got %v tokens in the run, want %v", used, row.used)
			}
			if shown := runningShown(t, r); len(shown) != 0 {
				t.Errorf("got the running requests %v, want none", shown)
			}
			record := gatewaytest.At(t, gatewaytest.DecodeObject(t,
				r.Do(http.MethodGet, "/api/monitoring/calls?door=realtime", "", admin...).Succeeds(t).Body), "calls/0")
			if gatewaytest.At(t, record, "outcome") != "stopped" || gatewaytest.At(t, record, "errorCode") != row.code {
				t.Errorf("got the record %v, want one that is stopped with %s", record, row.code)
			}
			told := strings.Join(b.messages(), "\n")
			if row.asked != "ignore" && !strings.Contains(told, `{"type":"response.cancel","response_id":`) {
				t.Errorf("the backend got %s, want response.cancel", told)
			}
			if !row.goesOn {
				if code := s.Closed(); code != websocket.StatusPolicyViolation {
					t.Errorf("closed with %d, want %d", code, websocket.StatusPolicyViolation)
				}
				return
			}
			if done := until(t, s, "response.done"); gatewaytest.At(t, done, "response/status") != "cancelled" {
				t.Errorf("got %v, want a cancelled response", done)
			}
			s.Send(`{"type":"response.create"}`)
			if row.code == "run_ended" {
				if refused := s.Event(); gatewaytest.At(t, refused, "error/code") != row.code {
					t.Errorf("got %v, want %s", refused, row.code)
				}
				return
			}
			until(t, s, "response.done")
		})
	}
}

// Of two responses that are made at a time only the stopped one ends.
func TestOneOfTwoResponsesIsStopped(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(budgetOfMany), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath, realtimeHeaders...)
	var ids []any
	for range 2 {
		s.Send(`{"type":"response.create","response":{"instructions":"hang"}}`)
		ids = append(ids, gatewaytest.At(t, until(t, s, "response.created"), "response/id"))
	}
	shown := runningShown(t, r) // the newest first
	if len(shown) != 2 {
		t.Fatalf("got the running requests %v, want 2", shown)
	}
	id, _ := gatewaytest.At(t, shown[1], "requestId").(string)
	r.Do(http.MethodPost, "/api/monitoring/running/"+id+"/stop", "", admin...).Succeeds(t)
	if done := until(t, s, "response.done"); gatewaytest.At(t, done, "response/id") != ids[0] {
		t.Errorf("got %v, want the end of %v", done, ids[0])
	}
	if left := runningShown(t, r); len(left) != 1 || gatewaytest.At(t, left[0], "requestId") == id {
		t.Errorf("got the running requests %v, want the other one", left)
	}
	s.Send(`{"type":"response.cancel","response_id":"` + fmt.Sprint(ids[1]) + `"}`)
	if done := until(t, s, "response.done"); gatewaytest.At(t, done, "response/id") != ids[1] {
		t.Errorf("got %v, want the end of %v", done, ids[1])
	}
}

// What was made of a response is paid before its client learns that the connection is over.
func TestAResponseIsPaidBeforeItsEndIsVisible(t *testing.T) {
	t.Parallel()
	const estimated = (1 + 5) * 1_000_000
	for name, row := range map[string]struct {
		end   func(*testing.T, *gatewaytest.Gateway, *gatewaytest.Socket)
		error string // of the event before the end; empty if there is none
	}{
		"the backend breaks": {func(_ *testing.T, _ *gatewaytest.Gateway, s *gatewaytest.Socket) { s.Send(`{"type":"die"}`) }, "upstream_stream_truncated"},
		"the backend closes": {func(_ *testing.T, _ *gatewaytest.Gateway, s *gatewaytest.Socket) { s.Send(`{"type":"leave"}`) }, ""},
		"the key is revoked": {func(t *testing.T, r *gatewaytest.Gateway, _ *gatewaytest.Socket) {
			t.Helper()
			r.API(http.MethodDelete, "/api/auth/keys/issued", "", admin...).Is(t, http.StatusOK)
		}, "invalid_api_key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(""), AnswerTokens: 40})
			s := r.OpenSocket(realtimePath, issueKey(t, r, "")...)
			s.Send(`{"type":"response.create","response":{"instructions":"mute"}}`)
			for range 5 {
				until(t, s, "response.output_text.delta")
			}
			row.end(t, r, s)
			if row.error == "" {
				s.Closed()
			} else if told := until(t, s, "error"); gatewaytest.At(t, told, "error/code") != row.error {
				t.Errorf("got %v, want %s", told, row.error)
			}
			calls := r.Do(http.MethodGet, "/api/monitoring/calls?door=realtime", "", admin...).Succeeds(t).Body
			if paid := gatewaytest.At(t, gatewaytest.DecodeObject(t, calls), "calls/0/cost"); paid != float64(estimated) {
				t.Errorf("got a cost of %v, want %v: %s", paid, estimated, calls)
			}
		})
	}
}

// While the end of speech is followed by a response, there is room for it: it is reserved when the
// backend has the speech, and given back if that goes on or no response can follow.
func TestSpeechReservesForTheResponse(t *testing.T) {
	t.Parallel()
	const reserved = 800 + 40
	detects, silent := `,"turn_detection":{"type":"server_vad"}`, `,"turn_detection":{"type":"server_vad","create_response":false}`
	for name, row := range map[string]struct {
		session string
		sent    []string
		want    float64
	}{
		"speech":                              {detects, []string{"pause"}, reserved},
		"speech in a session of the new form": {`,"audio":{"input":{"turn_detection":{"type":"semantic_vad"}}}`, []string{"pause"}, reserved},
		"speech that goes on":                 {detects, []string{"pause", "resume"}, 0},
		"no detection":                        {`,"turn_detection":null`, []string{"pause"}, 0},
		"unknown detection":                   {"", []string{"pause"}, 0},
		"no response after speech":            {silent, []string{"pause"}, 0},
		"the client commits":                  {detects, []string{"input_audio_buffer.commit"}, 0},
		"the client commits before":           {detects, []string{"input_audio_buffer.commit", "pause"}, 2*800 + 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			b.session = row.session
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(budgetOfMany), AnswerTokens: 40})
			s := r.OpenSocket(realtimePath, realtimeHeaders...)
			s.Event()
			for _, kind := range row.sent {
				s.Send(`{"type":"` + kind + `"}`)
				s.Event()
			}
			if _, got := tokensOf(t, r); got != row.want {
				t.Errorf("got %v reserved, want %v", got, row.want)
			}
			if shown := runningShown(t, r); len(shown) != 0 {
				t.Errorf("got the running requests %v, want none", shown)
			}
			s.Send(`{"type":"response.create","response":{"instructions":"hang","conversation":"none","input":[]}}`)
			until(t, s, "response.created")
			if _, got := tokensOf(t, r); got != 1+40 {
				t.Errorf("got %v reserved for what the client asks for, want 41", got)
			}
		})
	}
}

// The response that follows speech keeps what was reserved for it when the speech ended, whatever
// other calls have taken or operators have changed since.
func TestAResponseToSpeechKeepsItsReservation(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	b.session = `,"turn_detection":{"type":"server_vad"}`
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(""), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath, issueKey(t, r, `,"budgets":{"day":{"tokens":100000}}`)...)
	until(t, s, "session.created")
	s.Send(`{"type":"pause"}`)
	until(t, s, "input_audio_buffer.committed")
	change(t, r, "key", `{"budgets":{"day":{"tokens":50}}}`)
	s.Send(`{"type":"chatter"}`)
	until(t, s, "response.output_text.delta")
	if used, reserved := tokensOf(t, r); used != 0 || reserved != 840 {
		t.Errorf("got %v used and %v reserved, want 0 and 840", used, reserved)
	}
	if shown := runningShown(t, r); len(shown) != 1 {
		t.Errorf("got the running requests %v, want one", shown)
	}
	s.Send(`{"type":"response.cancel"}`)
	until(t, s, "response.done")
	if used, reserved := tokensOf(t, r); used != 30 || reserved != 0 {
		t.Errorf("got %v used and %v reserved, want 30 and 0", used, reserved)
	}
}

// A response that the backend begins by itself and that has no room is cancelled, its client gets
// an error and none of its words, and what was made of it is paid, also in its run.
func TestAResponseWithoutRoomIsCancelledAndPaid(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs")
	b := startRealtime(t)
	r := gatewaytest.Start(t, runYAML(b, ""))
	s := r.OpenSocket(realtimePath, inRun()...)
	s.Event()
	id, _ := runShown(t, r)["id"].(string)
	r.API(http.MethodPost, "/api/runs/"+id+"/end?now=true", "", admin...).Is(t, http.StatusOK)
	s.Send(`{"type":"chatter"}`)
	until(t, s, "response.created")
	refused := s.Event()
	for ; refused["type"] == "response.output_text.delta"; refused = s.Event() {
		t.Error("the client gets a word of a response that was refused")
	}
	if refused["type"] != "error" || gatewaytest.At(t, refused, "error/code") != "run_ended" {
		t.Errorf("got %v, want run_ended", refused)
	}
	used, reserved := tokensOf(t, r)
	if inRun := gatewaytest.At(t, runShown(t, r), "used/tokens"); used != 30 || reserved != 0 || inRun != float64(30) {
		t.Errorf("got %v used, %v reserved and %v used of the run, want 30, 0 and 30", used, reserved, inRun)
	}
	until(t, s, "response.done")
	if code := s.Closed(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d, want %d", code, websocket.StatusPolicyViolation)
	}
	gatewaytest.Eventually(t, "the backend is told to cancel", func() bool {
		return slices.Contains(b.messages(), `{"type":"response.cancel","response_id":"r1"}`)
	})
}

// Speech without room for a response ends the connection, before the backend makes one.
func TestSpeechWithoutRoom(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	b.session = `,"turn_detection":{"type":"server_vad"}`
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(", budgets: {day: {tokens: 100}}"), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath, realtimeHeaders...)
	s.Event()
	s.Send(`{"type":"pause"}`)
	if refused := until(t, s, "error"); gatewaytest.At(t, refused, "error/code") != "budget_exceeded" {
		t.Errorf("got %v, want budget_exceeded", refused)
	}
	if code := s.Closed(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d, want %d", code, websocket.StatusPolicyViolation)
	}
	gatewaytest.Eventually(t, "the backend is asked for no response", func() bool {
		got := b.messages()
		return len(got) > 1 && got[1] == `{"type":"response.cancel"}`
	})
}

// The reply to the upgrade names the instance, how many were called, and the model that serves if
// the client asked for another.
func TestTheUpgradeNamesWhoServes(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	down := startRealtime(t)
	down.Close()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: strings.NewReplacer(
		"chat: {", "chat: {aliases: {voice: rt}, fallbacks: {down: [rt]}, ",
		"instances: [", "instances: ["+gatewaytest.Instance("down", down.URL)+", ",
	).Replace(realtimeYAML(b)), AnswerTokens: 40})
	for asked, want := range map[string]struct{ model, attempts string }{
		"rt": {"", "1"}, "voice": {"rt", "1"}, "down": {"rt", "2"},
	} {
		s, reply := r.Dial("/v1/realtime?model=" + asked)
		if s == nil {
			t.Fatalf("%s: got %d %s, want a WebSocket", asked, reply.Status, reply.Body)
		}
		header := reply.Header
		if header.Get("X-Router-Model") != want.model || header.Get("X-Router-Attempts") != want.attempts ||
			header.Get("X-Router-Instance") != r.Instances("rt")[0].Handle {
			t.Errorf("%s: got %v", asked, header)
		}
	}
}
