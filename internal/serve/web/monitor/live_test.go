package monitor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// liveReader reads the live feed.
type liveReader struct {
	t      *testing.T
	lines  *bufio.Reader
	id     string
	cancel context.CancelFunc
}

func openLive(r *gatewaytest.Gateway, query string, headers ...string) *liveReader {
	r.T.Helper()
	return openFeed(r, "/api/monitoring/live"+query, headers...)
}

func openFeed(r *gatewaytest.Gateway, path string, headers ...string) *liveReader {
	r.T.Helper()
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(r.T))
	response := r.Open(ctx, http.MethodGet, path, "", headers...)
	r.T.Cleanup(func() { cancel(); _ = response.Body.Close() })
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream; charset=utf-8" {
		r.T.Fatalf("%d %s", response.StatusCode, kind)
	}
	return &liveReader{t: r.T, lines: bufio.NewReader(response.Body), cancel: cancel}
}

// next returns the next event, or an error at the end of the feed.
func (l *liveReader) next() (name, data string, err error) {
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		line = strings.TrimSuffix(line, "\n")
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "id":
			l.id = value
		case "event":
			name = value
		case "data":
			data = value
		case "":
			if name != "" {
				return name, data, nil
			}
		}
	}
}

// await returns the next event of a name for which the condition holds.
func (l *liveReader) await(name string, holds func(map[string]any) bool) map[string]any {
	l.t.Helper()
	for {
		got, data, err := l.next()
		if err != nil {
			l.t.Fatalf("waiting for %s: %v", name, err)
		}
		if got != name {
			continue
		}
		if event := gatewaytest.DecodeObject(l.t, data); holds(event) {
			return event
		}
	}
}

func has(path string, want any) func(map[string]any) bool {
	return func(event map[string]any) bool {
		value := any(event)
		for key := range strings.SplitSeq(path, "/") {
			value = value.(map[string]any)[key]
		}
		return value == want
	}
}

func TestLiveFeedTellsStateChangesAndCalls(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	feed := openLive(r, "")
	first := feed.await("snapshot", has("configVersion", 1.0))
	if gatewaytest.At(t, first, "instances/0/breaker/state") != "CLOSED" || gatewaytest.At(t, first, "instances/0/model") != "m" {
		t.Errorf("%v", first)
	}
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "mine").Succeeds(t)
	if call := feed.await("call", has("requestId", "mine")); call["model"] != "m" {
		t.Errorf("%v", call)
	}
	counted := feed.await("snapshot", has("total/requests/answered", 1.0))
	for _, of := range []string{"services/0", "models/0", "instances/0"} {
		if gatewaytest.At(t, counted, of+"/requests/answered") != 1.0 {
			t.Errorf("%s: %v", of, counted)
		}
	}
	r.Instances("m")[0].Breaker.Force(breaker.ForcedOpen, breaker.Hold{By: "somebody"}, time.Now())
	feed.await("change", func(c map[string]any) bool {
		return c["kind"] == "breaker" && c["from"] == "CLOSED" && c["to"] == "OPEN" && c["forced"] == true && c["instanceId"] == "m@"+b.URL()
	})
	feed.await("snapshot", func(s map[string]any) bool { return gatewaytest.At(t, s, "instances/0/breaker/state") == "OPEN" })
	r.API(http.MethodPost, gatewaytest.AddInstancePath+"chat", `{"name":"other","baseUrl":"`+b.URL()+`"}`).Is(t, 201)
	feed.await("change", func(c map[string]any) bool { return c["kind"] == "version" && c["from"] == "1" && c["to"] == "2" })
	r.Post("/api/monitoring/degradation/level", `{"level":"PARTIAL"}`).Succeeds(t)
	feed.await("change", func(c map[string]any) bool { return c["kind"] == "degradation" && c["to"] == "PARTIAL" })
	feed.await("snapshot", has("degradation", "PARTIAL"))
}

func TestLiveFeedTellsHealth(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services: {chat: {health-check: {interval: 20ms, timeout: 10s, unhealthy-threshold: 1, healthy-threshold: 1}, instances: ["+gatewaytest.Instance("m", b.URL())+"]}}\n")
	feed := openLive(r, "?topics=change")
	b.SetProbe(simulator.Step{Status: 500})
	feed.await("change", func(c map[string]any) bool {
		return c["kind"] == "health" && c["to"] == "UNHEALTHY" && c["service"] == "chat" && c["reason"] != ""
	})
	b.SetProbe(simulator.Step{})
	feed.await("change", func(c map[string]any) bool { return c["kind"] == "health" && c["to"] == "HEALTHY" })
}

func TestLiveFeedResumesWhereTheReaderWas(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	feed := openLive(r, "?topics=change,call")
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "before").Succeeds(t)
	feed.await("call", has("requestId", "before"))
	feed.cancel()
	breakerOf := r.Instances("m")[0].Breaker
	breakerOf.Force(breaker.ForcedOpen, breaker.Hold{By: "somebody"}, time.Now())
	breakerOf.Force(breaker.Auto, breaker.Hold{By: "somebody"}, time.Now())
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "meanwhile").Succeeds(t)
	gatewaytest.Eventually(t, "the call is recorded", func() bool {
		return r.Do(http.MethodGet, "/api/monitoring/calls/meanwhile", "").Status == http.StatusOK
	})
	for name, open := range map[string]func() *liveReader{
		"by-header": func() *liveReader { return openLive(r, "?topics=change,call", "Last-Event-ID", feed.id) },
		"by-query":  func() *liveReader { return openLive(r, "?topics=change,call&lastEventId="+feed.id) },
	} {
		t.Run(name, func(t *testing.T) {
			again := open()
			r.Chat(gatewaytest.PlainHi, "X-Request-Id", "after-"+name).Succeeds(t)
			var got []string
			for {
				event, data, err := again.next()
				if err != nil {
					t.Fatal(err)
				}
				object := gatewaytest.DecodeObject(t, data)
				if event == "change" && object["kind"] != "breaker" {
					continue
				}
				if event == "call" && strings.HasPrefix(object["requestId"].(string), "after") {
					if object["requestId"] == "after-"+name {
						break
					}
					continue
				}
				got = append(got, fmt.Sprint(event, " ", object["to"], object["requestId"]))
			}
			list := strings.Join(got, ", ")
			for _, want := range []string{"change OPEN<nil>", "change CLOSED<nil>", "call <nil>meanwhile"} {
				if strings.Count(list, want) != 1 {
					t.Errorf("%s is not once in %s", want, list)
				}
			}
			if strings.Contains(list, "before") {
				t.Errorf("told again: %s", list)
			}
		})
	}
	fresh := openLive(r, "?topics=change,call", "Last-Event-ID", "another-1-1")
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "new").Succeeds(t)
	if event, data, err := fresh.next(); err != nil || event != "call" || !strings.Contains(data, `"new"`) {
		t.Errorf("an id of another run: %s %s %v", event, data, err)
	}
}

func TestLiveFeedSaysHowManyCallsItLeftOut(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "monitoring: {calls: 3}\n"+gatewaytest.PoolYAML(b))
	feed := openLive(r, "?topics=call")
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "0").Succeeds(t)
	feed.await("call", has("requestId", "0"))
	feed.cancel()
	for i := range 5 {
		r.Chat(gatewaytest.PlainHi, "X-Request-Id", fmt.Sprint(i+1)).Succeeds(t)
	}
	gatewaytest.Eventually(t, "the calls are recorded", func() bool {
		return r.Do(http.MethodGet, "/api/monitoring/calls/5", "").Status == http.StatusOK
	})
	again := openLive(r, "?topics=call", "Last-Event-ID", feed.id)
	if event, data, err := again.next(); err != nil || event != "dropped" || data != `{"topic":"call","count":2}` {
		t.Errorf("%s %s %v", event, data, err)
	}
	for _, id := range []string{"3", "4", "5"} {
		if event, data, err := again.next(); err != nil || event != "call" || !strings.Contains(data, `"requestId":"`+id+`"`) {
			t.Errorf("%s: %s %s %v", id, event, data, err)
		}
	}
}

func TestLiveFeedIsForThoseWhoMayReadIt(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	if got := r.Do(http.MethodGet, "/api/monitoring/live", "").Status; got != http.StatusUnauthorized {
		t.Errorf("without a token: %d", got)
	}
	openLive(r, "", "Authorization", "Bearer viewer-token").await("snapshot", has("configVersion", 1.0))
	if got := r.Do(http.MethodGet, "/api/monitoring/live?topics=snapshot,secrets", "", "Authorization", "Bearer viewer-token").Status; got != http.StatusBadRequest {
		t.Errorf("an unknown topic: %d", got)
	}
}

// Every feed of the management API ends when its token is revoked, also with its session,
// and the others go on.
func TestFeedsEndWithTheirToken(t *testing.T) {
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	admin := []string{"Authorization", "Bearer admin-token"}
	issued := r.API(http.MethodPost, "/api/auth/tokens", `{"name":"page","role":"VIEWER"}`, admin...).Is(t, 201)
	bearer := []string{"Authorization", "Bearer " + gatewaytest.DataOf[struct {
		Token string `json:"token"`
	}](t, issued).Token}
	session := r.API(http.MethodPost, "/api/auth/session", "", bearer...).Is(t, 201)
	cookie := []string{"Cookie", strings.Split(session.Header.Get("Set-Cookie"), ";")[0]}
	var feeds []*http.Response
	for _, route := range r.Routes {
		method, path, _ := strings.Cut(route.Pattern, " ")
		if _, isFeed := route.Media["text/event-stream"]; isFeed && route.Permission != access.ByKey {
			for _, headers := range [][]string{bearer, cookie} {
				feeds = append(feeds, r.Open(gatewaytest.Deadline(t), method, path, "", headers...))
			}
		}
	}
	if len(feeds) != 4 {
		t.Fatalf("%d feeds", len(feeds))
	}
	other := openLive(r, "?topics=snapshot", admin...)
	r.API(http.MethodDelete, "/api/auth/tokens/page", "", admin...).Is(t, 200)
	for _, feed := range feeds {
		if _, err := io.Copy(io.Discard, feed.Body); feed.StatusCode != http.StatusOK || err != nil {
			t.Errorf("%s: %d %v", feed.Request.URL.Path, feed.StatusCode, err)
		}
		_ = feed.Body.Close()
	}
	for range 3 {
		other.await("snapshot", has("configVersion", 1.0))
	}
}

func TestLiveFeedHasFewReadersAndEndsAtShutdown(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	var feeds []*liveReader
	for range 32 {
		feeds = append(feeds, openLive(r, "?topics=change"))
	}
	if got := r.Do(http.MethodGet, "/api/monitoring/live", ""); got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d", got.Status)
	}
	r.Halt()
	for _, feed := range feeds {
		for {
			_, _, err := feed.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("the feed broke: %v", err)
			}
		}
	}
}

func TestHistoryIsServed(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	total := func(query string) (sum float64) {
		h := r.GetObject("/api/monitoring/series" + query)
		for _, one := range h["series"].([]any) {
			for _, n := range gatewaytest.At(t, one, "requests/answered").([]any) {
				if n != nil {
					sum += n.(float64)
				}
			}
		}
		return sum
	}
	for _, query := range []string{"", "?by=service&range=1h", "?by=instance&range=24h&metric=requests", "?by=model&model=m&metric=requests,whole", "?by=instance&service=chat&instanceId=m@" + b.URL()} {
		gatewaytest.Eventually(t, "the request is in the history "+query, func() bool { return total(query) == 1 })
	}
	if got := total("?by=instance&instanceId=other"); got != 0 {
		t.Errorf("another instance has %v", got)
	}
	for _, query := range []string{"?metric=requests,errors", "?by=key", "?range=1d", "?service=video"} {
		if got := r.Do(http.MethodGet, "/api/monitoring/series"+query, "").Status; got != http.StatusBadRequest {
			t.Errorf("%s: %d", query, got)
		}
	}
}

func TestSharesAreExpectedAndActual(t *testing.T) {
	t.Parallel()
	one, two := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, "services: {chat: {"+gatewaytest.NoChecks+", instances: ["+gatewaytest.Instance("m", one.URL(), "weight: 3")+","+gatewaytest.Instance("m", two.URL())+"]}}\n")
	for range 8 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	var list []any
	gatewaytest.Eventually(t, "all calls are counted", func() bool {
		list = r.GetObject("/api/monitoring/shares?range=1h")["shares"].([]any)
		return list[0].(map[string]any)["requests"].(float64)+list[1].(map[string]any)["requests"].(float64) == 8
	})
	for n, want := range []float64{0.75, 0.25} {
		if share := list[n].(map[string]any); share["share"] != want || share["expectedShare"] != want || share["p95"] == nil || share["errors"] != 0.0 {
			t.Errorf("%v", share)
		}
	}
	r.Instances("m")[0].Breaker.Force(breaker.ForcedOpen, breaker.Hold{By: "somebody"}, time.Now())
	list = r.GetObject("/api/monitoring/shares")["shares"].([]any)
	if list[0].(map[string]any)["expectedShare"] != 0.0 || list[0].(map[string]any)["reason"] == nil || list[1].(map[string]any)["expectedShare"] != 1.0 {
		t.Errorf("%v", list)
	}
}
