package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

const singleFlight = "answer-cache: {single-flight: true}\n"

// coldStream is a stream whose answer can be shared.
const coldStream = `{"model":"m","stream":true,"temperature":0,"messages":[{"role":"user","content":"hi"}]}`

// followersAre waits until so many requests share the call of another one.
func followersAre(t *testing.T, r *gatewaytest.Gateway, n int) {
	t.Helper()
	gatewaytest.Eventually(t, fmt.Sprintf("%d requests follow", n), func() bool {
		return gatewaytest.DataOf[struct {
			Followers int `json:"followers"`
		}](t, r.API(http.MethodGet, "/api/answer-cache", "")).Followers == n
	})
}

// heldAnswers answers every request with the same text when it is told to.
type heldAnswers struct {
	*httptest.Server
	entered chan struct{} // one token for each call
	open    chan struct{} // closed lets all be answered
	left    chan struct{} // one token for each call whose client left
}

func holdAnswers(t *testing.T, status int, body string) *heldAnswers {
	t.Helper()
	h := &heldAnswers{entered: make(chan struct{}, 100), open: make(chan struct{}), left: make(chan struct{}, 100)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method != http.MethodPost {
			return // a health check
		}
		h.entered <- struct{}{}
		select {
		case <-h.open:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		case <-r.Context().Done():
			h.left <- struct{}{}
		}
	}))
	t.Cleanup(h.Close)
	return h
}

const answerOfSeven = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`

// The first of equal requests in flight pays, the others are counted as cached, and
// everybody who looks is told.
func TestEqualRequestsInFlightShareOneCall(t *testing.T) {
	t.Parallel()
	for _, charged := range []bool{false, true} {
		b := holdAnswers(t, http.StatusOK, answerOfSeven)
		policy := "rate-limit: {enabled: true, algorithm: sliding-window, capacity: 3600, refill-rate: 1}"
		r := gatewaytest.Start(t, gatewaytest.PolicyYAML(policy, gatewaytest.Instance("m", b.URL))+gatewaytest.QuotaOn+
			fmt.Sprintf("answer-cache: {single-flight: true, charge-hits: %t}\nprices: {models: [{model: m, input: 10, output: 100}]}\n", charged))
		first := r.ChatLater(gatewaytest.Deadline(t), cold("1"))
		<-b.entered
		var others []<-chan gatewaytest.Reply
		for range 4 {
			others = append(others, r.ChatLater(gatewaytest.Deadline(t), ` `+cold("1")))
		}
		followersAre(t, r, 4)
		close(b.open)
		led := cacheIs(t, <-first, "miss")
		for _, other := range others {
			reply := cacheIs(t, <-other, "shared")
			if reply.Body != led.Body || reply.Header.Get("Content-Length") != led.Header.Get("Content-Length") ||
				reply.Header.Get("X-Router-Attempts") != "0" || reply.Header.Get("X-Router-Instance") != "" {
				t.Errorf("a follower got %v %s", reply.Header, reply.Body)
			}
		}
		if n := len(b.entered); n != 0 {
			t.Errorf("%d calls too many", n)
		}
		cost := int64(430)
		if charged {
			cost *= 5
		}
		if got := counted(t, r); got.RequestCount != 5 || got.TokenCount != 35 || got.Cost != cost {
			t.Errorf("charged %t: the ledger has %+v", charged, got)
		}
		if _, remaining, _ := cacheIs(t, r.Chat(cold("2")), "miss").LimitOf(t); remaining != 3594 {
			t.Errorf("%d requests remain", remaining)
		}
		if calls := r.Do("GET", "/api/monitoring/calls", "").Body; strings.Count(calls, `"cache":"shared"`) != 4 || strings.Count(calls, `"cache":"miss"`) != 2 {
			t.Errorf("calls: %s", calls)
		}
		if n := r.Scrape()[`model_router_answer_cache_requests_total{result="shared",service="chat"}`]; n != 4 {
			t.Errorf("%v shared requests are counted", n)
		}
		if explained := r.Do("GET", "/api/route/explain?service=chat&model=m", "").Body; !strings.Contains(explained, `"singleFlight":true`) || !strings.Contains(explained, `"answerCache":false`) {
			t.Errorf("explain: %s", explained)
		}
	}
}

// Every follower gets each event when it comes, from the first one on, however late it
// joined.
func TestFollowersGetEventsAsTheyCome(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL))+singleFlight)
	var streams []*gatewaytest.EventReader
	for n := range 4 {
		stream := r.Stream(gatewaytest.Deadline(t), coldStream)
		if event, err := stream.Next(); err != nil || !strings.Contains(event, "first") {
			t.Fatalf("stream %d begins with %q, %v", n, event, err)
		}
		streams = append(streams, stream)
	}
	close(b.Open)
	for n, stream := range streams {
		if rest, err := stream.Rest(); err != nil || len(rest) != 2 || !strings.Contains(rest[0], " last") || rest[1] != "[DONE]" {
			t.Errorf("stream %d goes on with %q, %v", n, rest, err)
		}
	}
	if n := len(b.Entered); n != 1 {
		t.Errorf("%d calls", n)
	}
	gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("m")[0].InFlight() == 0 })
}

// The call goes on while one of its clients is there, also when the first has left, which
// pays all the same; and it ends with the last.
func TestTheCallOutlivesItsFirstClient(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		b := gatewaytest.StartHeldBackend(t)
		held := holdAnswers(t, http.StatusOK, answerOfSeven)
		url, body := held.URL, cold("hi")
		if begun {
			url, body = b.URL, coldStream
		}
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", url))+singleFlight+gatewaytest.QuotaOn+"prices: {models: [{model: m, input: 10, output: 100}]}\n")
		ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
		t.Cleanup(leave)
		first := r.ChatLater(ctx, body)
		if begun {
			<-b.Entered
		} else {
			<-held.entered
		}
		second := r.ChatLater(gatewaytest.Deadline(t), body)
		followersAre(t, r, 1)
		leave()
		<-first
		followersAre(t, r, 1)
		if n := r.Instances("m")[0].InFlight(); n != 1 {
			t.Errorf("%d calls run after the first client left", n)
		}
		close(b.Open)
		close(held.open)
		cacheIs(t, <-second, "shared")
		gatewaytest.Eventually(t, "both are recorded", func() bool {
			return strings.Count(r.Do("GET", "/api/monitoring/calls", "").Body, `"requestId"`) == 2
		})
		if got := counted(t, r); got.RequestCount != 2 || !begun && got.Cost != 430 || begun && got.Cost == 0 {
			t.Errorf("the ledger has %+v", got)
		}
		if success, failure, cancelled := gatewaytest.Outcomes(r.Instances("m")[0]); success != 1 || failure+cancelled != 0 {
			t.Errorf("%d, %d, %d", success, failure, cancelled)
		}
	}
}

// When the last client has left, the backend is let go.
func TestTheCallEndsWithItsLastClient(t *testing.T) {
	t.Parallel()
	b := holdAnswers(t, http.StatusOK, answerOfSeven)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL))+singleFlight)
	ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
	defer leave()
	first := r.ChatLater(ctx, cold("1"))
	<-b.entered
	second := r.ChatLater(ctx, cold("1"))
	followersAre(t, r, 1)
	leave()
	<-first
	<-second
	<-b.left
	gatewaytest.Eventually(t, "the slot is free", func() bool { return r.Instances("m")[0].InFlight() == 0 })
	followersAre(t, r, 0)
}

// What is not equal, not deterministic, of another tenant, or not to be kept is asked for
// itself.
func TestWhichRequestsAreNotShared(t *testing.T) {
	t.Parallel()
	b := holdAnswers(t, http.StatusOK, answerOfSeven)
	keys := "security: {enabled: true, keys: ["
	for _, key := range [][2]string{{"a1", "a"}, {"a2", "a"}, {"b", "b"}, {"c", ""}, {"d", ""}} {
		keys += fmt.Sprintf("{id: %s, tenant: %q, key-sha256: %s},", key[0], key[1], gatewaytest.HashOf("key-"+key[0]))
	}
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL))+singleFlight+keys+"]}\n")
	var replies []<-chan gatewaytest.Reply
	want := map[string]int{}
	for _, c := range []struct{ key, body, header, cache string }{
		{"a1", cold("1"), "", "miss"},
		{"b", cold("1"), "", "miss"},
		{"c", cold("1"), "", "miss"},
		{"d", cold("1"), "", "miss"},
		{"a1", cold("2"), "", "miss"},
		{"a1", cold("1"), "no-store", "bypass"},
		{"a1", strings.Replace(cold("1"), ":0", ":1", 1), "", "bypass"},
	} {
		replies = append(replies, r.ChatLater(gatewaytest.Deadline(t), c.body, "Authorization", "Bearer key-"+c.key, "Cache-Control", c.header))
		<-b.entered
		want[c.cache]++
	}
	replies = append(replies, r.ChatLater(gatewaytest.Deadline(t), cold("1"), "Authorization", "Bearer key-a2"))
	want["shared"]++
	gatewaytest.Eventually(t, "one follows", func() bool { return r.Scrape() != nil && len(b.entered) == 0 })
	close(b.open)
	got := map[string]int{}
	for _, reply := range replies {
		got[(<-reply).Succeeds(t).Header.Get("X-Router-Cache")]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the requests were %v, want %v", got, want)
	}
}

// A failure of the backend is the same for all; where another model may take over, each
// request asks for itself.
func TestHowFlightsFail(t *testing.T) {
	t.Parallel()
	b := holdAnswers(t, http.StatusBadRequest, `{"error":{"message":"no such thing"}}`)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL))+singleFlight)
	first := r.ChatLater(gatewaytest.Deadline(t), cold("1"))
	<-b.entered
	second := r.ChatLater(gatewaytest.Deadline(t), cold("1"))
	followersAre(t, r, 1)
	close(b.open)
	for n, reply := range []gatewaytest.Reply{<-first, <-second} {
		if reply.Status != http.StatusBadRequest || !strings.Contains(reply.Body, "no such thing") {
			t.Errorf("request %d: %d %s", n, reply.Status, reply.Body)
		}
	}
	if n := len(b.entered); n != 0 {
		t.Errorf("%d calls too many", n)
	}

	broken, other := holdAnswers(t, http.StatusServiceUnavailable, `{}`), gatewaytest.StartBackend(t)
	r = gatewaytest.Start(t, gatewaytest.PolicyYAML("fallbacks: {m: [n]}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", broken.URL), gatewaytest.Instance("n", other.URL()))+singleFlight)
	first = r.ChatLater(gatewaytest.Deadline(t), cold("1"))
	<-broken.entered
	second = r.ChatLater(gatewaytest.Deadline(t), cold("1"))
	followersAre(t, r, 1)
	close(broken.open)
	cacheIs(t, <-first, "bypass")
	cacheIs(t, <-second, "bypass")
	if n := len(other.Requests()); n != 2 {
		t.Errorf("%d calls of the fallback", n)
	}
}

// A stream that breaks off ends for followers as it does for the first, in the form of
// their door.
func TestSharedStreamsBreakOffForAll(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/v1/chat/completions": coldStream,
		"/v1/messages":         strings.Replace(coldStream, `"stream"`, `"max_tokens":9,"stream"`, 1),
		"/v1/responses":        `{"model":"m","stream":true,"temperature":0,"store":false,"input":"hi"}`,
	} {
		b := gatewaytest.StartHeldBackend(t)
		r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL))+singleFlight)
		var replies []<-chan gatewaytest.Reply
		for n := range 3 {
			later := make(chan gatewaytest.Reply, 1)
			go func() { later <- gatewaytest.ReadReply(r.Open(gatewaytest.Deadline(t), http.MethodPost, path, body)) }()
			replies = append(replies, later)
			if n == 0 {
				<-b.Entered
			}
		}
		followersAre(t, r, 2)
		_ = b.Server.Close()
		first := <-replies[0]
		if !strings.Contains(first.Body, "error") && !strings.Contains(first.Body, "failed") {
			t.Errorf("%s: %s", path, first.Body)
		}
		for _, later := range replies[1:] {
			reply := <-later
			if path == "/v1/messages" || path == "/v1/responses" {
				own := strings.ReplaceAll(first.Body, first.Header.Get("X-Request-Id"), reply.Header.Get("X-Request-Id"))
				if reply.Body != own {
					t.Errorf("%s: a follower got\n%s\nwant\n%s", path, reply.Body, own)
				}
			} else if !strings.Contains(reply.Body, "upstream_stream_truncated") {
				t.Errorf("%s: %s", path, reply.Body)
			}
		}
	}
}

// Where answers are kept as well, that of a flight is kept once, and the next request is a
// hit.
func TestASharedAnswerIsKeptOnce(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL))+"answer-cache: {services: [chat], single-flight: true}\n")
	first := r.ChatLater(gatewaytest.Deadline(t), coldStream)
	<-b.Entered
	second := r.ChatLater(gatewaytest.Deadline(t), coldStream)
	followersAre(t, r, 1)
	close(b.Open)
	cacheIs(t, <-first, "miss")
	led := cacheIs(t, <-second, "shared")
	if hit := cacheIs(t, r.Chat(coldStream), "hit"); hit.Body != led.Body {
		t.Errorf("a hit is %s, the shared answer was %s", hit.Body, led.Body)
	}
}

// A gateway that stops frees everybody.
func TestFlightsEndWithTheGateway(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL))+singleFlight+"server: {shutdown-grace: 1ms}\n")
	first := r.ChatLater(gatewaytest.Deadline(t), coldStream)
	<-b.Entered
	second := r.ChatLater(gatewaytest.Deadline(t), coldStream)
	followersAre(t, r, 1)
	r.Halt()
	for n, reply := range []gatewaytest.Reply{<-first, <-second} {
		if strings.Contains(reply.Body, simulator.DoneEvent) {
			t.Errorf("request %d: %s", n, reply.Body)
		}
	}
}

// flownDoors are the doors with streams that are shared: a request at each.
var flownDoors = map[string]string{
	"/v1/chat/completions": coldStream,
	"/v1/completions":      `{"model":"m","stream":true,"temperature":0,"prompt":"hi"}`,
	"/v1/messages":         strings.Replace(coldStream, `"stream"`, `"max_tokens":9,"stream"`, 1),
	"/v1/responses":        `{"model":"m","stream":true,"temperature":0,"store":false,"input":"hi"}`,
}

// The first request is stopped, or its run is ended, while others share its call: its client
// gets the reason, and the others the whole answer without a trace of it.
func TestAnEndOfTheFirstIsNotThatOfTheOthers(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs")
	ends := map[string]func(*testing.T, *gatewaytest.Gateway){
		"stopped_by_operator": func(t *testing.T, r *gatewaytest.Gateway) {
			r.Do(http.MethodPost, "/api/monitoring/running/first/stop", "{}").Succeeds(t)
		},
		"run_ended": func(t *testing.T, r *gatewaytest.Gateway) {
			runs := gatewaytest.DataOf[[]struct {
				ID string `json:"id"`
			}](t, r.API(http.MethodGet, "/api/runs", ""))
			r.API(http.MethodPost, "/api/runs/"+runs[0].ID+"/end?now=true", "").Is(t, http.StatusOK)
		},
	}
	for path, body := range flownDoors {
		for code, end := range ends {
			t.Run(code+path, func(t *testing.T) {
				t.Parallel()
				b := gatewaytest.StartHeldBackend(t)
				r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL))+singleFlight+"runs: {enabled: true}\n")
				ask := func(header ...string) <-chan gatewaytest.Reply {
					later := make(chan gatewaytest.Reply, 1)
					go func() {
						later <- gatewaytest.ReadReply(r.Open(gatewaytest.Deadline(t), http.MethodPost, path, body, header...))
					}()
					return later
				}
				first := ask("X-Router-Run", "own", "X-Request-Id", "first")
				<-b.Entered
				second := ask("X-Request-Id", "second")
				followersAre(t, r, 1)
				end(t, r)
				close(b.Open)
				if reply := <-second; !strings.Contains(reply.Body, " last") || strings.Contains(reply.Body, "run_") || strings.Contains(reply.Body, "rror\":{") {
					t.Errorf("the other got %d %s", reply.Status, reply.Body)
				}
				told := code
				if path == "/v1/responses" {
					told = "response.failed"
				}
				if reply := <-first; !strings.Contains(reply.Body, told) && !strings.Contains(reply.Body, code) {
					t.Errorf("the first got %d %s, want %s", reply.Status, reply.Body, code)
				}
				gatewaytest.Eventually(t, "both are recorded", func() bool {
					calls := r.Do(http.MethodGet, "/api/monitoring/calls", "").Body
					return strings.Count(calls, `"requestId"`) == 2 && strings.Count(calls, `"outcome":"answered"`) == 1 && strings.Contains(calls, code)
				})
				if n := len(b.Entered); n != 0 {
					t.Errorf("%d calls too many", n)
				}
			})
		}
	}
}

// Before the answer begins, the client of a stopped request gets the error with its status.
func TestAStopOfTheFirstBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	b := holdAnswers(t, http.StatusOK, answerOfSeven)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL))+singleFlight)
	first := r.ChatLater(gatewaytest.Deadline(t), cold("1"), "X-Request-Id", "first")
	<-b.entered
	second := r.ChatLater(gatewaytest.Deadline(t), cold("1"))
	followersAre(t, r, 1)
	r.Do(http.MethodPost, "/api/monitoring/running/first/stop", "{}").Succeeds(t)
	close(b.open)
	cacheIs(t, <-second, "shared")
	if reply := <-first; reply.Status != http.StatusServiceUnavailable || !strings.Contains(reply.Body, "stopped_by_operator") {
		t.Errorf("the first got %d %s", reply.Status, reply.Body)
	}
}

// Every client that waits for the same model is told so, also those that share the call.
func TestFollowersOfAHeldCallAreTold(t *testing.T) {
	t.Parallel()
	b := startAsleep(t, 0.01, engine.Hangs)
	r := gatewaytest.Start(t, heldYAML(", hold-notice: 1ms", b)+singleFlight)
	ask := func() *http.Response {
		return r.Open(gatewaytest.Deadline(t), http.MethodPost, "/v1/chat/completions", coldStream)
	}
	for n := range 2 {
		response := ask() // the head of an answer that has not begun
		t.Cleanup(func() { _ = response.Body.Close() })
		text := make([]byte, len(": waiting"))
		if _, err := io.ReadFull(response.Body, text); err != nil || string(text) != ": waiting" {
			t.Errorf("request %d: %q, %v", n, text, err)
		}
		followersAre(t, r, n)
	}
}
