package socket_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// text100 is a text of about a hundred tokens.
var text100 = strings.Repeat("lamp ", 80)

const budgetOfMany = ", budgets: {day: {tokens: 1000000}}"

// tokensOf returns what is used and what is reserved of the budget of tokens.
func tokensOf(t *testing.T, r *gatewaytest.Gateway) (used, reserved float64) {
	t.Helper()
	shown := gatewaytest.DecodeObject(t, r.Do(http.MethodGet, "/api/monitoring/budgets", "", "Authorization", "Bearer admin-token").Succeeds(t).Body)
	used, _ = gatewaytest.At(t, shown, "budgets/0/used").(float64)
	reserved, _ = gatewaytest.At(t, shown, "budgets/0/reserved").(float64)
	return used, reserved
}

// until reads events until one of a type comes, and returns it.
func until(t *testing.T, s *gatewaytest.Socket, kind string) map[string]any {
	t.Helper()
	for {
		if event := s.Event(); event["type"] == kind {
			return event
		}
	}
}

// A response reserves what the backend will read for it, and the most that it may say.
func TestAResponseReservesWhatItMayCost(t *testing.T) {
	t.Parallel()
	item := `{"type":"message","role":"user","content":[{"type":"input_text","text":"` + text100 + `"}]}` // 104
	add := `{"type":"conversation.item.create","item":` + item + `}`
	session := func(members string) string { return `{"type":"session.update","session":{` + members + `}}` }
	for name, row := range map[string]struct {
		before []string
		asked  string // members of the response, whose instructions are one token
		want   float64
	}{
		"nothing":                        {nil, ``, 1 + 40},
		"a limit":                        {nil, `,"max_output_tokens":7`, 1 + 7},
		"no limit":                       {[]string{session(`"max_output_tokens":9`)}, `,"max_output_tokens":"inf"`, 1 + 40},
		"a limit below zero":             {nil, `,"max_output_tokens":-1`, 1 + 40},
		"a limit of the session":         {[]string{session(`"max_output_tokens":9`)}, ``, 1 + 9},
		"a limit by its name of before":  {[]string{session(`"max_response_output_tokens":9`)}, ``, 1 + 9},
		"the session takes it back":      {[]string{session(`"max_output_tokens":9`), session(`"max_output_tokens":"inf"`)}, ``, 1 + 40},
		"a limit before the session's":   {[]string{session(`"max_output_tokens":9`)}, `,"max_output_tokens":7`, 1 + 7},
		"what the session says":          {[]string{session(`"instructions":"` + text100 + `"`)}, ``, 100 + 1 + 40},
		"items":                          {[]string{add, add}, ``, 208 + 1 + 40},
		"an item with a sound":           {[]string{`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_audio","audio":"` + strings.Repeat("QUJD", 1000) + `"}]}}`}, ``, 804 + 1 + 40},
		"an input of its own":            {[]string{add}, `,"conversation":"none","input":[` + item + `]`, 104 + 1 + 40},
		"an input that refers to others": {[]string{add}, `,"input":[{"type":"item_reference","id":"i"}]`, 104 + 1 + 1 + 40},
		"after a response":               {[]string{add, `{"type":"response.create"}`}, ``, 30 + 1 + 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(budgetOfMany), AnswerTokens: 40})
			s := r.OpenSocket(realtimePath, realtimeHeaders...)
			if _, reserved := tokensOf(t, r); reserved != 0 {
				t.Errorf("%v are reserved before", reserved)
			}
			for _, message := range row.before {
				s.Send(message)
				if strings.Contains(message, "response.create") {
					until(t, s, "response.done")
				}
			}
			s.Send(`{"type":"response.create","response":{"instructions":"hang"` + row.asked + `}}`)
			until(t, s, "response.created")
			if _, reserved := tokensOf(t, r); reserved != row.want {
				t.Errorf("%v are reserved, want %v", reserved, row.want)
			}
		})
	}
}

// A response that the backend begins by itself reserves what the conversation has by then, and
// ends where there is no room for it.
func TestAResponseThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		budget   int
		reserved float64
	}{"fits": {1000, 840}, "does not fit": {700, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(fmt.Sprintf(", budgets: {day: {tokens: %d}}", row.budget)), AnswerTokens: 40})
			s := r.OpenSocket(realtimePath, realtimeHeaders...)
			s.Send(`{"type":"speak"}`)
			until(t, s, "response.created")
			if row.reserved > 0 {
				if _, reserved := tokensOf(t, r); reserved != row.reserved {
					t.Errorf("%v are reserved", reserved)
				}
				return
			}
			if refused := until(t, s, "error"); gatewaytest.At(t, refused, "error/code") != "budget_exceeded" {
				t.Errorf("%v", refused)
			}
			gatewaytest.Eventually(t, "the response is cancelled and paid", func() bool {
				used, reserved := tokensOf(t, r)
				return used == 30 && reserved == 0
			})
		})
	}
}

// A response that is cut short without a report costs what was sent both ways, as it is
// estimated, and is recorded and counted once.
func TestAResponseThatIsCutIsPaidAsEstimated(t *testing.T) {
	t.Parallel()
	const prompt, said = 105, 5
	for name, row := range map[string]struct {
		cut  func(*gatewaytest.Gateway, *gatewaytest.Socket)
		code string
	}{
		"the client closes": {func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) {
			_ = s.Close(websocket.StatusNormalClosure, "")
		}, "client_cancelled"},
		"the client is gone":  {func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) { _ = s.CloseNow() }, "client_cancelled"},
		"the backend is gone": {func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) { s.Send(`{"type":"die"}`) }, "upstream_stream_truncated"},
		"the backend closes":  {func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) { s.Send(`{"type":"leave"}`) }, "upstream_stream_truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(budgetOfMany), AnswerTokens: 40})
			s := r.OpenSocket(realtimePath, realtimeHeaders...)
			s.Send(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"` + text100 + `"}]}}`)
			s.Send(`{"type":"response.create","response":{"instructions":"mute"}}`)
			for range said {
				until(t, s, "response.output_text.delta")
			}
			row.cut(r, s)
			gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("rt")[0].InFlight() == 0 })
			if used, reserved := tokensOf(t, r); used != prompt+said || reserved != 0 {
				t.Errorf("%v are used and %v reserved", used, reserved)
			}
			requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply {
				return r.Do(http.MethodGet, gatewaytest.LongAgo, "", "Authorization", "Bearer admin-token")
			})
			if requests != 1 || tokens != 0 {
				t.Errorf("the ledger counts %d requests and %d tokens", requests, tokens)
			}
			calls := r.Do(http.MethodGet, "/api/monitoring/calls?door=realtime", "", "Authorization", "Bearer admin-token").Succeeds(t).Body
			if strings.Count(calls, `"errorCode":"`+row.code+`"`) != 1 {
				t.Errorf("%s", calls)
			}
		})
	}
}

// A response that the backend does not begin, go on with or end in time ends with its
// connection, and is paid like one that was cut short.
func TestAResponseThatTakesTooLongEnds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		limits, asked string
		used          float64
	}{
		"it does not begin":        {"first-byte-timeout: 1s", "ignore", 2},
		"nothing is said":          {"first-byte-timeout: 2s, websockets: {idle: 1s, lifetime: 1s}", "ignore", 2},
		"its first token":          {"first-token-timeout: 1s", "ignore", 2},
		"silence":                  {"idle-timeout: 1s", "mute", 1 + 5},
		"in all":                   {"total-timeout: 1s", "mute", 1 + 5},
		"silence, and it is ended": {"idle-timeout: 1s", "hang", 30},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(budgetOfMany) + "limits: {" + row.limits + "}\n", AnswerTokens: 40})
			s := r.OpenSocket(realtimePath, realtimeHeaders...)
			s.Send(`{"type":"response.create","response":{"instructions":"` + row.asked + `"}}`)
			if told := until(t, s, "error"); gatewaytest.At(t, told, "error/code") != "upstream_timeout" {
				t.Errorf("%v", told)
			}
			if code := s.Closed(); code != websocket.StatusInternalError {
				t.Errorf("closed with %d", code)
			}
			gatewaytest.Eventually(t, "the backend's connection is closed", func() bool { return !b.isOpen() })
			gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("rt")[0].InFlight() == 0 })
			if used, reserved := tokensOf(t, r); used != row.used || reserved != 0 {
				t.Errorf("%v are used and %v reserved", used, reserved)
			}
			calls := r.Do(http.MethodGet, "/api/monitoring/calls?door=realtime", "", "Authorization", "Bearer admin-token").Succeeds(t).Body
			if strings.Count(calls, `"errorCode":"upstream_timeout"`) != 1 {
				t.Errorf("%s", calls)
			}
		})
	}
}

// Several responses at a time, cancelled ones and refused ones are each reserved and settled
// once.
func TestEveryResponseIsCountedOnce(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(budgetOfMany), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath, realtimeHeaders...)
	expect := func(when string, wantUsed, wantReserved float64) {
		t.Helper()
		if used, reserved := tokensOf(t, r); used != wantUsed || reserved != wantReserved {
			t.Errorf("%s: %v are used and %v reserved, want %v and %v", when, used, reserved, wantUsed, wantReserved)
		}
	}
	hang := `{"type":"response.create","response":{"instructions":"hang","conversation":"none","input":[]}}`
	s.Send(hang)
	first := until(t, s, "response.created")
	s.Send(hang)
	until(t, s, "response.created")
	expect("two responses", 0, 82)
	s.Send(`{"type":"response.create","event_id":"refused","response":{"instructions":"refuse"}}`)
	until(t, s, "error")
	s.Send(`{"type":"response.cancel","response_id":"` + fmt.Sprint(gatewaytest.At(t, first, "response/id")) + `"}`)
	until(t, s, "response.done")
	expect("one is cancelled, and another was refused", 30, 41)
	s.Send(`{"type":"response.create","response":{"conversation":"none","input":[]}}`)
	until(t, s, "response.done")
	_ = s.CloseNow()
	gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("rt")[0].InFlight() == 0 })
	expect("the end", 90, 0)
	requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply {
		return r.Do(http.MethodGet, gatewaytest.LongAgo, "", "Authorization", "Bearer admin-token")
	})
	if requests != 3 || tokens != 90 {
		t.Errorf("the ledger counts %d requests and %d tokens", requests, tokens)
	}
}

// A response that a client asks for and for which there is no room is refused by itself: the
// backend does not see it, and the connection stays.
func TestAResponseWithoutRoomIsNotAskedFor(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(", budgets: {day: {tokens: 100}}"), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath, realtimeHeaders...)
	s.Event()
	s.Send(`{"type":"response.create","response":{"max_output_tokens":101}}`)
	if refused := s.Event(); gatewaytest.At(t, refused, "error/code") != "budget_exceeded" {
		t.Errorf("%v", refused)
	}
	s.Send(`{"type":"response.create","response":{"max_output_tokens":50}}`)
	until(t, s, "response.done")
	if got := b.messages(); len(got) != 1 {
		t.Errorf("the backend got %q", got)
	}
	const most = 8
	b = startRealtime(t)
	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(""), AnswerTokens: 40})
	s = r.OpenSocket(realtimePath, realtimeHeaders...)
	for range most + 1 {
		s.Send(`{"type":"response.create","response":{"instructions":"hang"}}`)
	}
	if refused := until(t, s, "error"); gatewaytest.At(t, refused, "error/code") != "concurrency_limit_reached" {
		t.Errorf("%v", refused)
	}
}

// The transcripts of a session that is for these count as its responses.
func TestTranscriptsAreCounted(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]float64{"&intent=transcription": 60, "": 0} {
		b := startRealtime(t)
		r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(budgetOfMany), AnswerTokens: 40})
		s := r.OpenSocket(realtimePath+query, realtimeHeaders...)
		for range 2 {
			s.Send(`{"type":"transcribe"}`)
			until(t, s, "conversation.item.input_audio_transcription.completed")
		}
		_ = s.CloseNow()
		gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("rt")[0].InFlight() == 0 })
		if used, reserved := tokensOf(t, r); used != want || reserved != 0 {
			t.Errorf("%q: %v are used and %v reserved", query, used, reserved)
		}
	}
}

// A transcript that a client does not wait for costs what came of it, and one that failed is
// counted once.
func TestTranscriptsThatAreCut(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		ends func(*gatewaytest.Socket)
		code string
		used float64
	}{
		"the client leaves": {func(*gatewaytest.Socket) {}, "client_cancelled", 5},
		"it fails": {func(s *gatewaytest.Socket) {
			s.Send(`{"type":"mumble"}`)
			until(t, s, "conversation.item.input_audio_transcription.failed")
		}, "upstream_error", 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(budgetOfMany), AnswerTokens: 40})
			s := r.OpenSocket(realtimePath+"&intent=transcription", realtimeHeaders...)
			s.Send(`{"type":"dictate"}`)
			for range 5 {
				until(t, s, "conversation.item.input_audio_transcription.delta")
			}
			row.ends(s)
			_ = s.CloseNow()
			gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("rt")[0].InFlight() == 0 })
			if used, reserved := tokensOf(t, r); used != row.used || reserved != 0 {
				t.Errorf("%v are used and %v reserved", used, reserved)
			}
			calls := r.Do(http.MethodGet, "/api/monitoring/calls?door=realtime", "", "Authorization", "Bearer admin-token").Succeeds(t).Body
			if strings.Count(calls, `"errorCode":"`+row.code+`"`) != 1 {
				t.Errorf("%s", calls)
			}
		})
	}
}

// A client may ask for the next response as soon as it has one, also where its key allows one
// at a time.
func TestAResponseAfterTheOther(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(", limits: {concurrent-requests: 1}"), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath, realtimeHeaders...)
	for range 300 {
		s.Send(`{"type":"response.create"}`)
		for {
			event := s.Event()
			if event["type"] == "error" {
				t.Fatalf("%v", event)
			}
			if event["type"] == "response.done" {
				break
			}
		}
	}
}

// The rate limit of a model holds for the responses of an open connection, which no fallback
// takes over.
func TestFallbacksDoNotLiftTheLimitOfAModel(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: strings.NewReplacer(
		"chat: {", "chat: {fallbacks: {rt: [other]}, rate-limit: {enabled: true, scope: model, capacity: 2, refill-rate: 1}, ",
		"instances: [", "instances: ["+gatewaytest.Instance("other", b.URL)+", ",
	).Replace(realtimeYAML(b)), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath)
	var event map[string]any
	for asked := 0; event["type"] != "error"; event = s.Event() {
		if event["type"] == "session.created" || event["type"] == "response.done" {
			if asked++; asked > 100 {
				t.Fatal("a hundred responses were made")
			}
			s.Send(`{"type":"response.create"}`)
		}
	}
	if gatewaytest.At(t, event, "error/code") != "rate_limit_exceeded" {
		t.Errorf("%v", event)
	}
}

// A backend is told with a close frame that its connection ends, with the words of the client
// or those of a stop.
func TestABackendIsToldThatTheConnectionEnds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		more string
		end  func(*gatewaytest.Gateway, *gatewaytest.Socket)
		want websocket.CloseError
	}{
		"with a code":    {"", func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) { _ = s.Close(4001, "enough said") }, websocket.CloseError{Code: 4001, Reason: "enough said"}},
		"without a code": {"", func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) { _ = s.Close(websocket.StatusNoStatusRcvd, "") }, websocket.CloseError{Code: websocket.StatusNoStatusRcvd}},
		"gone":           {"", func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) { _ = s.CloseNow() }, websocket.CloseError{Code: websocket.StatusGoingAway, Reason: "the client has left"}},
		"a stop": {"", func(r *gatewaytest.Gateway, s *gatewaytest.Socket) {
			go r.Stop(context.WithoutCancel(r.T.Context()))
			s.Closed()
		}, websocket.CloseError{Code: websocket.StatusGoingAway, Reason: "the gateway is shutting down"}},
		"idle": {"limits: {websockets: {idle: 1s}}\n", func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) { s.Closed() }, websocket.CloseError{Code: websocket.StatusNormalClosure}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey("") + row.more, AnswerTokens: 40})
			s := r.OpenSocket(realtimePath, realtimeHeaders...)
			s.Event()
			row.end(r, s)
			gatewaytest.Eventually(t, "the backend's connection is closed", func() bool { return !b.isOpen() })
			if len(b.closed) != 1 || b.closed[0] != row.want {
				t.Errorf("the backend was told %+v", b.closed)
			}
		})
	}
}

// Messages take from the memory for bodies while they are passed on, and a message for which
// there is none ends the connection.
func TestMessagesTakeFromTheMemoryForBodies(t *testing.T) {
	t.Parallel()
	large := `{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("QUJD", 64<<10) + `"}`
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(""), AnswerTokens: 40})
	bodies := r.Memory.Bodies()
	bodies.SetLimit(1 << 20)
	s := r.OpenSocket(realtimePath, realtimeHeaders...)
	s.Event()
	for range 8 { // together more than there is
		s.Send(large)
	}
	s.Send(`{"type":"response.create"}`)
	until(t, s, "response.done")
	gatewaytest.Eventually(t, "the memory is free", func() bool { return bodies.Taken() == 0 })
	bodies.SetLimit(64 << 10)
	s.Send(`{"type":"response.create"}`)
	until(t, s, "response.done")
	before := len(b.messages())
	_ = s.Write(gatewaytest.Deadline(t), websocket.MessageText, []byte(large)) // the gateway may close it before all is sent
	if refused := until(t, s, "error"); gatewaytest.At(t, refused, "error/code") != "overloaded" {
		t.Errorf("%v", refused)
	}
	if code := s.Closed(); code != websocket.StatusTryAgainLater {
		t.Errorf("closed with %d", code)
	}
	gatewaytest.Eventually(t, "the backend's connection is closed", func() bool { return !b.isOpen() })
	if got := b.messages(); len(got) != before || bodies.Taken() != 0 {
		t.Errorf("%d bytes are taken, and the backend got %.100q", bodies.Taken(), got[before:])
	}
}
