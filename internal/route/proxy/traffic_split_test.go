package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// splitYAML is a configuration in which backends of a kind share requests of a service type
// from two inputs on.
func splitYAML(service, kind, more string, backends ...*simulator.Backend) string {
	var list []string
	for _, b := range backends {
		list = append(list, gatewaytest.Instance("m", b.URL(), "adapter: "+kind))
	}
	return splitService(service, more, list...)
}

func splitService(service, more string, instances ...string) string {
	return "services: {" + service + ": {split: {max-split: 8, min-inputs: 1, min-tokens: 1}, " + gatewaytest.NoBreakerNoChecks + more +
		", instances: [\n" + strings.Join(instances, ",\n") + "]}}\n"
}

func startBackends(t *testing.T, count int) []*simulator.Backend {
	t.Helper()
	all := make([]*simulator.Backend, count)
	for n := range all {
		all[n] = gatewaytest.StartBackend(t)
	}
	return all
}

// embedders returns the instances that embed.
func embedders(r *gatewaytest.Gateway) []*backend.Instance {
	return r.Current.Load().Service(schema.Embedding).Find("m").Instances
}

// texts returns a JSON list of texts that all differ.
func texts(count int) string {
	var list []string
	for n := range count {
		list = append(list, fmt.Sprintf("%q", strings.Repeat("the cat sat ", n%7+1)+fmt.Sprint(n)))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// ownIDs matches what differs from answer to answer.
var ownIDs = regexp.MustCompile(`"(id|created)":("[^"]*"|\d+)`)

// An answer that several instances gave is the one that one of them would have given: order,
// numbers, forms and usage, at every door and for every dialect.
func TestSplitAnswersAreThoseOfOne(t *testing.T) {
	t.Parallel()
	embed := func(more string) string { return `{"model":"m","input":` + texts(40) + more + `}` }
	rank := func(more string) string {
		return `{"model":"m","query":"cat 3 7 39","documents":` + texts(40) + more + `}`
	}
	for name, row := range map[string]struct{ service, kind, path, body string }{
		"openai":                  {"embedding", "openai", "/v1/embeddings", embed("")},
		"openai in base64":        {"embedding", "openai", "/v1/embeddings", embed(`,"encoding_format":"base64"`)},
		"openai, dimensions":      {"embedding", "openai", "/v1/embeddings", embed(`,"dimensions":5`)},
		"token ids":               {"embedding", "openai", "/v1/embeddings", `{"model":"m","input":[[1,2],[3],[4,5,6],[7],[8]]}`},
		"vllm":                    {"embedding", "vllm", "/v1/embeddings", embed("")},
		"ollama":                  {"embedding", "ollama", "/v1/embeddings", embed("")},
		"ollama in base64":        {"embedding", "ollama", "/v1/embeddings", embed(`,"encoding_format":"base64"`)},
		"gemini":                  {"embedding", "gemini", "/v1/embeddings", embed("")},
		"rankings of jina":        {"rerank", "jina", "/v1/rerank", rank("")},
		"rankings of cohere":      {"rerank", "cohere", "/v1/rerank", rank(`,"top_n":39`)},
		"rankings of tei":         {"rerank", "tei", "/v1/rerank", rank(`,"top_n":3`)},
		"rankings with documents": {"rerank", "jina", "/v1/rerank", rank(`,"top_n":7,"return_documents":true`)},
		"completions":             {"chat", "openai", "/v1/completions", `{"model":"m","temperature":0,"prompt":` + texts(9) + `}`},
		"completions, n":          {"chat", "vllm", "/v1/completions", `{"model":"m","n":3,"echo":true,"prompt":` + texts(9) + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backends := startBackends(t, 3)
			split := gatewaytest.Start(t, splitYAML(row.service, row.kind, "", backends...))
			whole := gatewaytest.Start(t, gatewaytest.ServiceYAML(row.service, gatewaytest.Instance("m", gatewaytest.StartBackend(t).URL(), "adapter: "+row.kind)))
			got, want := split.Post(row.path, row.body).Succeeds(t), whole.Post(row.path, row.body).Succeeds(t)
			gotText, wantText := ownIDs.ReplaceAllString(got.Body, ""), ownIDs.ReplaceAllString(want.Body, "")
			if row.kind == "cohere" { // each call is billed
				wantText = strings.Replace(wantText, `"search_units":1`, `"search_units":3`, 1)
			}
			if gotText != wantText {
				t.Errorf("got\n%.3000s\nwant\n%.3000s", gotText, wantText)
			}
			if handles := strings.Split(got.Header.Get("X-Router-Instance"), ", "); len(handles) != 3 || got.Header.Get("X-Router-Attempts") != "3" {
				t.Errorf("instances %v, attempts %s", handles, got.Header.Get("X-Router-Attempts"))
			}
			for n, b := range backends {
				if arrived := b.Stats().Arrived; arrived != 1 {
					t.Errorf("backend %d got %d calls", n, arrived)
				}
			}
		})
	}
}

// What has too few inputs, is streamed or has no list goes to one instance, and so does
// everything where nothing is split.
func TestOtherRequestsAreNotSplit(t *testing.T) {
	t.Parallel()
	backends := startBackends(t, 2)
	r := gatewaytest.Start(t, splitYAML("embedding", "openai", "", backends...))
	usual := gatewaytest.Start(t, strings.ReplaceAll(splitYAML("embedding", "openai", "", backends...), "min-inputs: 1, min-tokens: 1", "min-inputs: 0"))
	off := gatewaytest.Start(t, strings.ReplaceAll(splitYAML("embedding", "openai", "", backends...), "max-split: 8", "max-split: 1"))
	chat := gatewaytest.Start(t, splitYAML("chat", "openai", "", backends...))
	for name, answer := range map[string]gatewaytest.Reply{
		"one text": r.Post("/v1/embeddings", `{"model":"m","input":"a"}`),
		"one id":   r.Post("/v1/embeddings", `{"model":"m","input":[1,2,3]}`),
		"few":      usual.Post("/v1/embeddings", `{"model":"m","input":`+texts(31)+`}`),
		"off":      off.Post("/v1/embeddings", `{"model":"m","input":`+texts(100)+`}`),
		"stream":   chat.Post("/v1/completions", `{"model":"m","stream":true,"prompt":`+texts(8)+`}`),
		"chat":     chat.Chat(gatewaytest.PlainHi),
	} {
		answer.Succeeds(t)
		if got := answer.Header.Get("X-Router-Attempts"); got != "1" || strings.Contains(answer.Header.Get("X-Router-Instance"), ",") {
			t.Errorf("%s: %s attempts", name, got)
		}
	}
}

// A piece that fails is tried again alone, by the rules for all attempts, and the record of
// the request has them all.
func TestAPieceThatFailsIsTriedAlone(t *testing.T) {
	t.Parallel()
	backends := startBackends(t, 3)
	r := gatewaytest.Start(t, splitYAML("embedding", "openai", "", backends...))
	backends[1].Script(simulator.Step{Status: http.StatusInternalServerError})
	answer := r.Post("/v1/embeddings", `{"model":"m","input":`+texts(30)+`}`).Succeeds(t)
	if strings.Count(answer.Body, `"index":`) != 30 || answer.Header.Get("X-Router-Attempts") != "4" {
		t.Errorf("%s attempts: %.300s", answer.Header.Get("X-Router-Attempts"), answer.Body)
	}
	if handles := strings.Split(answer.Header.Get("X-Router-Instance"), ", "); len(handles) != 2 {
		t.Errorf("it was answered by %v", handles)
	}
	call := gatewaytest.At(t, r.GetObject("/api/monitoring/calls?limit=1"), "calls/0").(map[string]any)
	tries := call["tries"].([]any)
	if call["attempts"] != 4.0 || call["pieces"] != 3.0 || len(tries) != 4 || call["status"] != "success" {
		t.Errorf("the record has %v attempts, %v pieces and %d tries", call["attempts"], call["pieces"], len(tries))
	}
	failed := slices.IndexFunc(tries, func(try any) bool { return try.(map[string]any)["errorCode"] == "upstream_error" })
	if failed < 0 {
		t.Errorf("no try has failed: %v", tries)
	}
	samples := r.Scrape()
	if got := gatewaytest.Sum(samples, "model_router_split_requests_total"); got != 1 {
		t.Errorf("%v requests were split", got)
	}
	if got := gatewaytest.Sum(samples, "model_router_split_pieces_total"); got != 3 {
		t.Errorf("%v pieces", got)
	}
	if got := gatewaytest.Sum(samples, "model_router_requests_total", `status="success"`); got != 1 {
		t.Errorf("%v requests", got)
	}
}

// A piece that fails in the end fails the request with its error. The others are given up,
// which says nothing about their instances.
func TestAPieceThatFailsInTheEndFailsAll(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		step   simulator.Step
		status int
	}{
		"a fault of the request": {simulator.Step{Status: http.StatusBadRequest}, http.StatusBadRequest},
		"a fault of all":         {simulator.Step{Status: http.StatusNotImplemented}, http.StatusNotImplemented},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backends := startBackends(t, 3)
			r := gatewaytest.Start(t, splitYAML("embedding", "openai", "", backends...)+gatewaytest.QuotaOn)
			backends[0].ScriptForever(simulator.Step{Hang: true})
			backends[1].ScriptForever(row.step)
			answer := r.Post("/v1/embeddings", `{"model":"m","input":`+texts(30)+`}`)
			if answer.Status != row.status {
				t.Fatalf("%d %s", answer.Status, answer.Body)
			}
			if got := gatewaytest.ErrorOf(t, answer.Body); got.Code != "upstream_error" {
				t.Errorf("%+v", got)
			}
			gatewaytest.Eventually(t, "nothing is under way", func() bool {
				return backends[0].Stats().InFlight == 0 && backends[2].Stats().InFlight == 0
			})
			for n, i := range embedders(r) {
				if i.InFlight() != 0 {
					t.Errorf("instance %d holds %d slots", n, i.InFlight())
				}
				if _, failure, _ := gatewaytest.Outcomes(i); n != 1 && failure != 0 {
					t.Errorf("instance %d has failed", n)
				}
			}
		})
	}
}

// If one backend reports no usage, the ledger has what the others report, and the money is for that and
// for an estimate of the rest.
func TestPiecesWithoutAReportAreEstimated(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]simulator.Step{
		"nothing": {Usage: simulator.UsageNone}, "zeros": {UsageValue: `{"prompt_tokens":0,"total_tokens":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backends := startBackends(t, 2)
			r := gatewaytest.Start(t, splitYAML("embedding", "openai", "", backends...)+
				"prices: {models: [{model: m, input: 1000}]}\n"+gatewaytest.QuotaOn)
			backends[0].ScriptForever(simulator.Step{UsageValue: `{"prompt_tokens":1000,"total_tokens":1000}`})
			backends[1].ScriptForever(silent)
			r.Post("/v1/embeddings", `{"model":"m","input":`+texts(30)+`}`).Succeeds(t)
			r.HasCounted(1, 1000, "")
			var cost float64
			gatewaytest.Eventually(t, "the call is recorded", func() bool {
				calls := gatewaytest.At(t, r.GetObject("/api/monitoring/calls"), "calls").([]any)
				if len(calls) == 1 {
					cost = gatewaytest.At(t, calls[0], "cost").(float64)
				}
				return len(calls) == 1
			})
			if atOne := 1000.0 * 1000; cost <= atOne || cost >= 2*atOne {
				t.Errorf("got the cost %v, want more than the %v that one backend reported and less than twice that", cost, atOne)
			}
		})
	}
}

// A client that leaves frees all instances.
func TestAClientThatLeavesFreesAllPieces(t *testing.T) {
	t.Parallel()
	backends := startBackends(t, 3)
	r := gatewaytest.Start(t, splitYAML("embedding", "openai", ", load-balancer: least-time", backends...))
	for _, b := range backends {
		b.ScriptForever(simulator.Step{Hang: true})
	}
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	left := make(chan struct{})
	go func() {
		defer close(left)
		if response, err := r.Client.Do(r.Request(ctx, http.MethodPost, "/v1/embeddings", `{"model":"m","input":`+texts(30)+`}`)); err == nil {
			_ = response.Body.Close()
		}
	}()
	gatewaytest.Eventually(t, "all have their pieces", func() bool {
		return !slices.ContainsFunc(backends, func(b *simulator.Backend) bool { return b.Stats().Received != 1 })
	})
	cancel()
	<-left
	gatewaytest.Eventually(t, "all are free", func() bool {
		return !slices.ContainsFunc(backends, func(b *simulator.Backend) bool { return b.Stats().Cancelled != 1 }) && underWay(r) == 0
	})
	for n, i := range embedders(r) {
		gatewaytest.Eventually(t, "the slots are free", func() bool { return i.InFlight() == 0 })
		if i.Ended(breaker.Cancelled) != 1 || i.Ended(breaker.Failure) != 0 {
			t.Errorf("instance %d: cancelled %d", n, i.Ended(breaker.Cancelled))
		}
	}
}

// Only instances with a free slot share a request, and pieces do not wait: however many
// requests come, all are answered, and no instance gets more calls than it has slots.
func TestPiecesUseFreeSlotsOnly(t *testing.T) {
	t.Parallel()
	backends := startBackends(t, 3)
	var list []string
	for _, b := range backends {
		list = append(list, gatewaytest.Instance("m", b.URL(), "max-concurrency: 2"))
	}
	r := gatewaytest.Start(t, splitService("embedding", ", queue: {size: 1000, timeout: 10m}", list...))
	const clients, each = 8, 6
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for range each {
				answer := r.Post("/v1/embeddings", `{"model":"m","input":`+texts(12)+`}`)
				if answer.Status != http.StatusOK || strings.Count(answer.Body, `"index":`) != 12 {
					t.Errorf("%d %.200s", answer.Status, answer.Body)
				}
			}
		})
	}
	running.Wait()
	for n, b := range backends {
		if peak := b.Stats().PeakInFlight; peak > 2 {
			t.Errorf("backend %d had %d calls at a time", n, peak)
		}
	}
	for _, i := range embedders(r) {
		gatewaytest.Eventually(t, "the slots are free", func() bool { return i.InFlight() == 0 })
	}
}

// An instance that is busy gets no piece.
func TestBusyInstancesGetNoPiece(t *testing.T) {
	t.Parallel()
	backends := startBackends(t, 3)
	var list []string
	for _, b := range backends {
		list = append(list, gatewaytest.Instance("m", b.URL(), "max-concurrency: 1"))
	}
	r := gatewaytest.Start(t, splitService("embedding", ", load-balancer: least-connections", list...))
	instances := embedders(r)
	permit, ok := instances[0].Acquire(instances[0].Since())
	if !ok {
		t.Fatal("the first instance is not free")
	}
	answer := r.Post("/v1/embeddings", `{"model":"m","input":`+texts(12)+`}`).Succeeds(t)
	if handles := strings.Split(answer.Header.Get("X-Router-Instance"), ", "); len(handles) != 2 || slices.Contains(handles, instances[0].Handle) {
		t.Errorf("it was answered by %v", handles)
	}
	instances[0].Return(permit, instances[0].Since())
}

// Limits and the ledger count a request once, with the tokens of all its pieces.
func TestSplitRequestsCountOnce(t *testing.T) {
	t.Parallel()
	backends := startBackends(t, 3)
	const body = `{"model":"m","input":["one two","three four five","six","seven eight","nine ten","eleven twelve"]}`
	r := gatewaytest.Start(t, splitYAML("embedding", "openai", ", rate-limit: {capacity: 60, refill-rate: 1, algorithm: sliding-window}", backends...)+gatewaytest.QuotaOn)
	answer := r.Post("/v1/embeddings", body).Succeeds(t)
	if _, left, _ := answer.LimitOf(t); left != 59 || answer.Header.Get("X-Router-Attempts") != "3" {
		t.Errorf("%d requests left after %s attempts", left, answer.Header.Get("X-Router-Attempts"))
	}
	if got := gatewaytest.At(t, gatewaytest.DecodeObject(t, answer.Body), "usage/prompt_tokens"); got != 12.0 {
		t.Errorf("%v tokens", got)
	}
	r.HasCounted(1, 12, "")
}

// A fallback gets the whole request when a piece failed in the end.
func TestAFallbackTakesTheWholeRequest(t *testing.T) {
	t.Parallel()
	a, other := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	a.ScriptForever(simulator.Step{}, simulator.Step{Status: http.StatusServiceUnavailable})
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		gatewaytest.Eventually(t, "the other piece is answered", func() bool { return a.Stats().Arrived > 0 })
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(b.Close)
	r := gatewaytest.Start(t, splitService("embedding", `, fallbacks: {m: [spare]}`,
		gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL), gatewaytest.Instance("spare", other.URL()))+gatewaytest.QuotaOn)
	answer := r.Post("/v1/embeddings", `{"model":"m","input":["one two","three four","five six","seven eight"]}`).Succeeds(t)
	if strings.Count(answer.Body, `"index":`) != 4 || answer.Header.Get("X-Router-Model") != "spare" || answer.Header.Get("X-Router-Attempts") != "4" {
		t.Errorf("model %q, %s attempts: %.300s", answer.Header.Get("X-Router-Model"), answer.Header.Get("X-Router-Attempts"), answer.Body)
	}
	if strings.Contains(answer.Header.Get("X-Router-Instance"), ",") {
		t.Errorf("it was answered by %s", answer.Header.Get("X-Router-Instance"))
	}
	// The piece that was answered has cost its tokens, too.
	r.HasCounted(1, 8+4, "")
}

// Explain says who would get what, and asks nobody.
func TestExplainShowsTheSplit(t *testing.T) {
	t.Parallel()
	backends := startBackends(t, 2)
	r := gatewaytest.Start(t, splitService("embedding", "", gatewaytest.Instance("m", backends[0].URL(), "weight: 3"), gatewaytest.Instance("m", backends[1].URL())))
	answer := r.API(http.MethodPost, "/api/route/explain?door=embeddings", `{"model":"m","input":`+texts(40)+`}`).Is(t, http.StatusOK)
	split := gatewaytest.At(t, gatewaytest.DecodeObject(t, string(answer.Data)), "split").([]any)
	if len(split) != 2 {
		t.Fatalf("%s", answer.Data)
	}
	first, second := gatewaytest.At(t, split[0], "tokens").(float64), gatewaytest.At(t, split[1], "tokens").(float64)
	inputs := gatewaytest.At(t, split[0], "inputs").(float64) + gatewaytest.At(t, split[1], "inputs").(float64)
	if inputs != 40 || first < 2*second || first > 4*second {
		t.Errorf("%v", split)
	}
	if backends[0].Stats().Arrived+backends[1].Stats().Arrived != 0 {
		t.Error("a backend was asked")
	}
}
