package socket_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// realtimeBackend is a server of the Realtime API. A response.create is answered with a
// response of 30 tokens; with the instructions "hang" it says five pieces and ends only when it
// is cancelled, with "mute" not even then, with "refuse" it is refused, with "thrice" its end is
// told three times, and with "ignore" nothing is said.
type realtimeBackend struct {
	*httptest.Server
	mu       sync.Mutex
	opened   []*http.Request
	got      []string
	closed   []websocket.CloseError // what connections were ended with; the code is -1 without a close frame
	open     int
	refusing bool
	// session are further members of the session that it announces.
	session string
}

func startRealtime(t *testing.T) *realtimeBackend {
	t.Helper()
	b := new(realtimeBackend)
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *realtimeBackend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.opened = append(b.opened, r)
	isRefusing, session := b.refusing, b.session
	b.mu.Unlock()
	if r.URL.Path != "/v1/realtime" || isRefusing {
		http.Error(w, `{"error":{"message":"no realtime here"}}`, http.StatusNotFound)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"realtime"}})
	if err != nil {
		return
	}
	conn.SetReadLimit(-1)
	b.count(1)
	defer b.count(-1)
	say := func(text string) { _ = conn.Write(r.Context(), websocket.MessageText, []byte(text)) }
	const done = `{"type":"response.done","response":{"id":"ID","status":"STATUS","usage":{"total_tokens":30,"input_tokens":10,"output_tokens":20}}}`
	end := func(id, status string) { say(strings.NewReplacer("ID", id, "STATUS", status).Replace(done)) }
	say(`{"type":"session.created","session":{"id":"s","model":"upstream-realtime"` + session + `}}`)
	hanging := []string{}
	for number := 1; ; number++ {
		_, bytes, err := conn.Read(r.Context())
		if err != nil {
			closed := websocket.CloseError{Code: -1}
			errors.As(err, &closed)
			b.mu.Lock()
			b.closed = append(b.closed, closed)
			b.mu.Unlock()
			return
		}
		text := string(bytes)
		b.mu.Lock()
		b.got = append(b.got, text)
		b.mu.Unlock()
		has := func(part string) bool { return strings.Contains(text, part) }
		id := fmt.Sprint("r", number)
		switch {
		case has(`"response.create"`) && has("refuse"):
			say(`{"type":"error","error":{"type":"invalid_request_error","message":"no","event_id":"refused"}}`)
		case has(`"response.create"`) && has("ignore"):
		case has(`"response.create"`) && has("thrice"):
			say(`{"type":"response.created","response":{"id":"` + id + `","status":"in_progress"}}`)
			for range 3 {
				end(id, "completed")
			}
		case has(`"response.create"`):
			say(`{"type":"response.created","response":{"id":"` + id + `","status":"in_progress"}}`)
			if has("hang") || has("mute") {
				for range 5 {
					say(`{"type":"response.output_text.delta","response_id":"` + id + `","delta":"word"}`)
				}
				if has("hang") {
					hanging = append(hanging, id)
				}
				continue
			}
			say(`{"type":"response.output_text.delta","response_id":"` + id + `","delta":"hi"}`)
			end(id, "completed")
		case has(`"response.cancel"`):
			for _, id := range hanging {
				if !has("response_id") || has(`"`+id+`"`) {
					end(id, "cancelled")
				}
			}
		case has(`"speak"`): // as somebody who has stopped speaking
			say(`{"type":"input_audio_buffer.committed","item_id":"i"}`)
			say(`{"type":"response.created","response":{"id":"` + id + `","status":"in_progress"}}`)
			hanging = append(hanging, id)
		case has(`"pause"`), has(`"input_audio_buffer.commit"`): // the response comes later
			say(`{"type":"input_audio_buffer.committed","item_id":"i"}`)
		case has(`"resume"`): // the speech goes on
			say(`{"type":"input_audio_buffer.speech_started","item_id":"i"}`)
		case has(`"chatter"`): // as speak, with a response that is heard
			say(`{"type":"response.created","response":{"id":"` + id + `","status":"in_progress"}}`)
			hanging = append(hanging, id)
			for range 5 {
				say(`{"type":"response.output_text.delta","response_id":"` + id + `","delta":"word"}`)
			}
		case has(`"dictate"`): // and the transcript does not end
			for range 5 {
				say(`{"type":"conversation.item.input_audio_transcription.delta","item_id":"d","delta":"word"}`)
			}
		case has(`"mumble"`):
			say(`{"type":"conversation.item.input_audio_transcription.failed","item_id":"d","error":{"message":"no"}}`)
		case has(`"transcribe"`):
			say(`{"type":"conversation.item.input_audio_transcription.completed","item_id":"` + id + `","transcript":"hi","usage":{"type":"tokens","total_tokens":30,"input_tokens":10,"output_tokens":20}}`)
		case has(`"die"`):
			_ = conn.CloseNow()
			return
		case has(`"leave"`):
			_ = conn.Close(websocket.StatusNormalClosure, "bye")
			return
		}
	}
}

func (b *realtimeBackend) count(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open += n
}

// messages returns what it got so far.
func (b *realtimeBackend) messages() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

func (b *realtimeBackend) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open > 0
}

const realtimePath = "/v1/realtime?model=rt"

// realtimeYAML serves the model rt from the backend, which has another name for it.
func realtimeYAML(b *realtimeBackend, settings ...string) string {
	settings = append(settings, "upstream-model: upstream-realtime", "api-key: backend-key")
	return gatewaytest.ChatYAML(gatewaytest.Instance("rt", b.URL, settings...)) + "quota: {enabled: true}\n" +
		"prices: {models: [{model: '*', input: 1000000, output: 1000000}]}\n"
}

func realtimeKey(terms string) string {
	return "security: {enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: " + gatewaytest.HashOf("admin-token") +
		"}], keys: [{id: k, key-sha256: " + gatewaytest.HashOf("the-key") + terms + "}]}\n"
}

var realtimeHeaders = []string{"Authorization", "Bearer the-key"}

func TestTheRealtimeAPIIsPassedOn(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(""), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath, append(realtimeHeaders, "OpenAI-Beta", "realtime=v1")...)
	if created := s.Event(); gatewaytest.At(t, created, "session/model") != "rt" {
		t.Errorf("%v", created)
	}
	s.Send(`{"type":"session.update","session":{"model":"rt","voice":"v"}}`)
	for range 2 {
		s.Send(`{"type":"response.create"}`)
		for _, want := range []string{"response.created", "response.output_text.delta", "response.done"} {
			if event := s.Event(); event["type"] != want {
				t.Fatalf("%v, want %s", event, want)
			}
		}
	}
	s.Send(`{`)
	if event := s.Event(); gatewaytest.At(t, event, "error/code") != "invalid_json" {
		t.Errorf("%v", event)
	}
	_ = s.Close(websocket.StatusNormalClosure, "")
	gatewaytest.Eventually(t, "the backend's connection is closed", func() bool { return !b.isOpen() })
	opened := b.opened[0]
	if opened.URL.Query().Get("model") != "upstream-realtime" || opened.Header.Get("Authorization") != "Bearer backend-key" || opened.Header.Get("Openai-Beta") != "realtime=v1" {
		t.Errorf("%s %v", opened.URL, opened.Header)
	}
	if got := b.messages(); got[0] != `{"type":"session.update","session":{"model":"upstream-realtime","voice":"v"}}` {
		t.Errorf("%s", got[0])
	}
	gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("rt")[0].InFlight() == 0 })
	requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply {
		return r.Do(http.MethodGet, gatewaytest.LongAgo, "", "Authorization", "Bearer admin-token")
	})
	if requests != 2 || tokens != 60 {
		t.Errorf("the ledger counts %d requests and %d tokens", requests, tokens)
	}
	if scraped := r.Do(http.MethodGet, "/metrics", "", "Authorization", "Bearer admin-token").Body; !strings.Contains(scraped, `model_router_door_requests_total{door="realtime",service="chat",status="success"} 2`) {
		t.Error("the metrics do not count 2 responses")
	}
	if strings.Contains(r.Logs.String(), "the-key") || strings.Contains(r.Logs.String(), "backend-key") {
		t.Error("the log has a key")
	}
}

// A page cannot set headers, so that its key comes as the name of a protocol. It is not passed
// on.
func TestAKeyAsAProtocol(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey("") + "server: {cors-origins: ['https://app.example']}\n", AnswerTokens: 40})
	conn, response, err := websocket.Dial(gatewaytest.Deadline(t), "ws"+strings.TrimPrefix(r.URL, "http")+realtimePath, &websocket.DialOptions{
		Subprotocols: []string{"realtime", "openai-insecure-api-key.the-key", "openai-organization.o"}, HTTPHeader: http.Header{"Origin": {"https://app.example"}},
	})
	if err != nil || conn.Subprotocol() != "realtime" {
		t.Fatal(response, err)
	}
	defer func() { _ = conn.CloseNow() }()
	if offered := strings.Join(b.opened[0].Header["Sec-Websocket-Protocol"], ","); strings.Contains(offered, "key") || !strings.Contains(offered, "realtime") {
		t.Errorf("the backend is offered %q", offered)
	}
	for _, headers := range [][]string{
		{"Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key.wrong"},
		{},
	} {
		if s, reply := r.Dial(realtimePath, headers...); s != nil || reply.Status != http.StatusUnauthorized {
			t.Errorf("%v: %d %s", headers, reply.Status, reply.Body)
		}
	}
	if s, reply := r.Dial(realtimePath, append(realtimeHeaders, "Origin", "https://evil.example")...); s != nil || reply.Status != http.StatusForbidden {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	if strings.Contains(r.Logs.String(), "the-key") {
		t.Error("the log has the key")
	}
}

// Every response is let in by the limits and budgets of its key, the first before the
// backend is asked.
func TestBudgetsHoldForEachResponse(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		terms, code string
		again       int // the status of a connection after that
	}{
		"tokens":   {", budgets: {day: {tokens: 125}}", "budget_exceeded", http.StatusSwitchingProtocols}, // 30 and 30, and then the conversation of 30 and 40 are reserved
		"requests": {", limits: {requests-per-minute: 2}", "key_rate_limited", http.StatusTooManyRequests},
		"cost":     {", budgets: {total: {cost: 125}}", "budget_exceeded", http.StatusSwitchingProtocols},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startRealtime(t)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(row.terms), AnswerTokens: 40})
			s := r.OpenSocket(realtimePath, realtimeHeaders...)
			s.Event()
			for range 2 {
				s.Send(`{"type":"response.create"}`)
				for range 3 {
					s.Event()
				}
			}
			s.Send(`{"type":"response.create"}`)
			refused := s.Event()
			if code, _ := gatewaytest.At(t, refused, "error/code").(string); code != row.code && !(row.code == "budget_exceeded" && code == "budget_reserved") {
				t.Errorf("%v", refused)
			}
			s.Send(`{`) // the connection stays
			if event := s.Event(); gatewaytest.At(t, event, "error/code") != "invalid_json" {
				t.Errorf("%v", event)
			}
			_ = s.Close(websocket.StatusNormalClosure, "")
			gatewaytest.Eventually(t, "the backend's connection is closed", func() bool { return !b.isOpen() })
			before := len(b.opened)
			if _, reply := r.Dial(realtimePath, realtimeHeaders...); reply.Status != row.again || (len(b.opened) != before) != (row.again == http.StatusSwitchingProtocols) {
				t.Errorf("%d %s", reply.Status, reply.Body)
			}
		})
	}
}

// What a session reserved and did not use is given back, and a client that leaves in the
// middle of a response pays what the backend says that it took.
func TestWhatASessionDoesNotUseIsGivenBack(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey(", budgets: {day: {requests: 2}}"), AnswerTokens: 40})
	for range 3 {
		s := r.OpenSocket(realtimePath, realtimeHeaders...)
		s.Event()
		_ = s.Close(websocket.StatusNormalClosure, "")
		gatewaytest.Eventually(t, "the backend's connection is closed", func() bool { return !b.isOpen() })
		gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("rt")[0].InFlight() == 0 })
	}
	s := r.OpenSocket(realtimePath, realtimeHeaders...)
	s.Event()
	s.Send(`{"type":"response.create","response":{"instructions":"hang"}}`)
	if event := s.Event(); event["type"] != "response.created" {
		t.Fatalf("%v", event)
	}
	_ = s.CloseNow()
	gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("rt")[0].InFlight() == 0 })
	got := b.messages()
	if last := got[len(got)-1]; last != `{"type":"response.cancel"}` {
		t.Errorf("the backend was told %s", last)
	}
	requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply {
		return r.Do(http.MethodGet, gatewaytest.LongAgo, "", "Authorization", "Bearer admin-token")
	})
	if requests != 1 || tokens != 30 {
		t.Errorf("the ledger counts %d requests and %d tokens", requests, tokens)
	}
	if body := r.Do(http.MethodGet, "/api/monitoring/budgets", "", "Authorization", "Bearer admin-token").Body; !strings.Contains(body, `"used":1,"reserved":0`) {
		t.Errorf("%s", body)
	}
}

// Sessions end with their key, with their backend, when nothing is said for too long, and
// when the gateway stops.
func TestHowSessionsEnd(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, more string) (*realtimeBackend, *gatewaytest.Gateway, *gatewaytest.Socket) {
		t.Helper()
		b := startRealtime(t)
		r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b) + realtimeKey("") + more, AnswerTokens: 40})
		issued := gatewaytest.DataOf[struct {
			Key string `json:"key"`
		}](t, r.API(http.MethodPost, "/api/auth/keys", `{"id":"issued"}`, "Authorization", "Bearer admin-token").Is(t, http.StatusCreated))
		s := r.OpenSocket(realtimePath, "Authorization", "Bearer "+issued.Key)
		s.Event()
		return b, r, s
	}
	for name, row := range map[string]struct {
		more  string
		cause func(*gatewaytest.Gateway, *gatewaytest.Socket)
		error string
		code  websocket.StatusCode
	}{
		"revoked": {"", func(r *gatewaytest.Gateway, _ *gatewaytest.Socket) {
			r.API(http.MethodDelete, "/api/auth/keys/issued", "", "Authorization", "Bearer admin-token").Is(r.T, http.StatusOK)
		}, "invalid_api_key", websocket.StatusPolicyViolation},
		"idle":               {"limits: {websockets: {idle: 1s}}\n", nil, "", websocket.StatusNormalClosure},
		"old":                {"limits: {websockets: {lifetime: 1s}}\n", nil, "websocket_connection_limit_reached", websocket.StatusNormalClosure},
		"the backend leaves": {"", func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) { s.Send(`{"type":"leave"}`) }, "", websocket.StatusNormalClosure},
		"the backend dies":   {"", func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) { s.Send(`{"type":"die"}`) }, "upstream_stream_truncated", websocket.StatusInternalError},
		"the backend dies, and the client goes on": {"", func(_ *gatewaytest.Gateway, s *gatewaytest.Socket) {
			s.Send(`{"type":"die"}`)
			for range 100 {
				_ = s.Write(context.WithoutCancel(t.Context()), websocket.MessageText, []byte(`{"type":"input_audio_buffer.append","audio":"`+strings.Repeat("QUJD", 1000)+`"}`)) // it is closed some time
			}
		}, "upstream_stream_truncated", websocket.StatusInternalError},
		"a stop": {"", func(r *gatewaytest.Gateway, _ *gatewaytest.Socket) { go r.Stop(context.WithoutCancel(r.T.Context())) }, "", websocket.StatusGoingAway},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r, s := open(t, row.more)
			if row.cause != nil {
				row.cause(r, s)
			}
			if row.error != "" {
				if event := s.Event(); gatewaytest.At(t, event, "error/code") != row.error {
					t.Errorf("%v", event)
				}
			}
			if code := s.Closed(); code != row.code {
				t.Errorf("closed with %d", code)
			}
			gatewaytest.Eventually(t, "the backend's connection is closed", func() bool { return !b.isOpen() })
		})
	}
}

// A message that is too large ends the session, and is not passed on.
func TestMessagesOfASessionAreBounded(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: realtimeYAML(b), AnswerTokens: 40})
	s := r.OpenSocket(realtimePath)
	s.Event()
	_ = s.Write(gatewaytest.Deadline(t), websocket.MessageText, []byte(`{"type":"`+strings.Repeat("x", 2<<20)+`"}`)) // the gateway may close it before all is sent
	gatewaytest.Eventually(t, "the backend's connection is closed", func() bool { return !b.isOpen() })
	if got := b.messages(); len(got) != 0 {
		t.Errorf("the backend got %.100q", got)
	}
}

// A session that cannot be opened is an error of HTTP.
func TestSessionsThatAreNotOpened(t *testing.T) {
	t.Parallel()
	b := startRealtime(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: strings.Replace(realtimeYAML(b), "instances: [", "instances: ["+gatewaytest.Instance("other", b.URL, "adapter: ollama")+", ", 1), AnswerTokens: 40})
	if reply := r.Do(http.MethodGet, realtimePath, ""); reply.Status != http.StatusUpgradeRequired {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	for path, want := range map[string]int{
		"/v1/realtime":               http.StatusBadRequest,
		"/v1/realtime?model=other":   http.StatusBadRequest,
		"/v1/realtime?model=unknown": http.StatusServiceUnavailable,
	} {
		if s, reply := r.Dial(path); s != nil || reply.Status != want {
			t.Errorf("%s: %d %s", path, reply.Status, reply.Body)
		}
	}
	b.mu.Lock()
	b.refusing = true
	b.mu.Unlock()
	if s, reply := r.Dial(realtimePath); s != nil || reply.Status < 400 || !strings.Contains(reply.Body, "404") {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
}
