package gateway_test

import (
	"bufio"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// known is a gateway of which the test knows all traffic: llama at two backends, qwen and the
// embeddings of e at the first of them.
type known struct {
	*gatewaytest.Gateway
	a, b *simulator.Backend
}

func startKnown(t *testing.T) known {
	t.Helper()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.QuotaOn+"prices:\n  models: [{model: llama, input: 2, output: 10}, {model: qwen, input: 1, output: 3}, {model: e, input: 0.5}]\n"+
		"services:\n  chat: {"+gatewaytest.NoChecks+", instances: ["+gatewaytest.Instance("llama", a.URL())+", "+gatewaytest.Instance("llama", b.URL())+", "+gatewaytest.Instance("qwen", a.URL())+"]}\n"+
		"  embedding: {"+gatewaytest.NoChecks+", instances: ["+gatewaytest.Instance("e", a.URL())+"]}\n")
	return known{r, a, b}
}

func hostAt(b *simulator.Backend) string { return strings.TrimPrefix(b.URL(), "http://") }

// snapshot returns the first snapshot of the live feed.
func (k known) snapshot() map[string]any {
	k.T.Helper()
	response := k.Open(gatewaytest.Deadline(k.T), http.MethodGet, "/api/monitoring/live?topics=snapshot", "")
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			return gatewaytest.DecodeObject(k.T, data)
		}
	}
	k.T.Fatalf("the feed ended: %v", lines.Err())
	return nil
}

// objectsIn returns a member that is a list of objects.
func objectsIn(t *testing.T, of map[string]any, name string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, one := range of[name].([]any) {
		all = append(all, one.(map[string]any))
	}
	return all
}

// whoIs returns who a figure is about: a service, with its model, instance or host.
func whoIs(of map[string]any) string {
	for _, member := range []string{"instanceId", "id", "host", "model"} {
		if id, ok := of[member].(string); ok {
			return fmt.Sprintf("%v %s", of["service"], id)
		}
	}
	return fmt.Sprint(of["service"])
}

// told returns the windows that every operation with figures tells, by where and who.
func (k known) told() map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, by := range []string{"total", "service", "model", "instance", "host"} {
		for _, within := range []string{"5m", "1h", "24h"} {
			for _, one := range objectsIn(k.T, k.GetObject("/api/monitoring/series?metric=whole&by="+by+"&range="+within), "series") {
				all[by+" "+whoIs(one)+" in series of "+within] = one["whole"].(map[string]any)
			}
			if by == "total" {
				continue
			}
			for _, one := range objectsIn(k.T, k.GetObject("/api/monitoring/figures?by="+by+"&range="+within), "figures") {
				who := whoIs(one)
				if by == "instance" {
					who = fmt.Sprintf("%v %v", one["service"], one["instanceId"])
				}
				all[by+" "+who+" in figures of "+within] = one
			}
		}
	}
	live := k.snapshot()
	all["total <nil> in live"] = live["total"].(map[string]any)["lastMinute"].(map[string]any)
	for by, member := range map[string]string{"service": "services", "model": "models", "instance": "instances"} {
		for _, one := range objectsIn(k.T, live, member) {
			if minute := one["lastMinute"].(map[string]any); minute["requests"] != 0.0 {
				all[by+" "+whoIs(one)+" in live"] = minute
			}
		}
	}
	return all
}

// TestKnownTrafficIsToldNumberByNumber: requests, failures, tokens and money of every kind are the
// same everywhere.
func TestKnownTrafficIsToldNumberByNumber(t *testing.T) {
	gatewaytest.Needs(t, "spend")
	t.Parallel()
	k := startKnown(t)
	chat := func(model string, status int) {
		t.Helper()
		if got := k.Chat(`{"model":"` + model + `",` + gatewaytest.SomeMessages + `}`); got.Status != status {
			t.Fatalf("%s: %d, not %d: %s", model, got.Status, status, got.Body)
		}
	}
	answer := func(in, out int) simulator.Step {
		return simulator.Step{Body: fmt.Sprintf(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`, in, out, in+out, in/4)}
	}
	k.a.Script(answer(100, 50), answer(100, 50), answer(100, 50), simulator.Step{Status: 500}, simulator.Step{Status: 500})
	for n := range 5 {
		chat("qwen", []int{200, 200, 200, 500, 500}[n])
	}
	vector := simulator.Step{Body: `{"object":"list","model":"e","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":8,"total_tokens":8}}`}
	k.a.Script(vector, vector, vector, vector)
	for range 4 {
		k.Post("/v1/embeddings", `{"model":"e","input":"hi"}`).Succeeds(t)
	}
	k.a.Script(answer(1000, 500), answer(1000, 500), answer(1000, 500), answer(1000, 500))
	k.b.ScriptForever(simulator.Step{Status: 503})
	for range 4 {
		chat("llama", 200) // rescued by the first backend where the other one was tried
	}
	tried := float64(k.b.Stats().Arrived)
	if tried == 0 {
		t.Fatal("the failing backend was never tried")
	}
	chat("nobody", 503)
	for range 2 {
		if got := k.Chat(`{"model":"llama"}`); got.Status != 400 {
			t.Errorf("without messages: %d", got.Status)
		}
	}
	k.Chat(`{"model":`).FailsWith(t, 400, gatewaytest.InvalidRequest, "invalid_json", "")

	a, b := k.a.URL(), k.b.URL()
	// requests, answered, errors, tokens in, out and cached
	want := map[string][6]float64{
		"total <nil>":                   {17, 11, 3, 4332, 2150, 1075},
		"service chat":                  {13, 7, 3, 4300, 2150, 1075},
		"service embedding":             {4, 4, 0, 32, 0, 0},
		"model chat qwen":               {5, 3, 2, 300, 150, 75},
		"model chat llama":              {4, 4, 0, 4000, 2000, 1000},
		"model embedding e":             {4, 4, 0, 32, 0, 0},
		"instance chat qwen@" + a:       {5, 3, 2, 300, 150, 75},
		"instance chat llama@" + a:      {4, 4, 0, 4000, 2000, 1000},
		"instance chat llama@" + b:      {tried, 0, tried, 0, 0, 0},
		"instance embedding e@" + a:     {4, 4, 0, 32, 0, 0},
		"host chat " + hostAt(k.a):      {9, 7, 2, 4300, 2150, 1075},
		"host chat " + hostAt(k.b):      {tried, 0, tried, 0, 0, 0},
		"host embedding " + hostAt(k.a): {4, 4, 0, 32, 0, 0},
	}
	gatewaytest.Eventually(t, "all requests are in the history", func() bool {
		whole := gatewaytest.At(t, k.GetObject("/api/monitoring/series?metric=whole"), "series/0/whole").(map[string]any)
		return whole["requests"] == want["total <nil>"][0]
	})
	seen := map[string]int{}
	for where, one := range k.told() {
		who, _, _ := strings.Cut(where, " in ")
		numbers, isKnown := want[who]
		if seen[who]++; !isKnown {
			t.Errorf("%s is not known: %v", where, one)
			continue
		}
		for n, member := range []string{"requests", "answered", "errors", "tokensIn", "tokensOut", "tokensCached"} {
			if one[member] != numbers[n] {
				t.Errorf("%s: %v %s, not %v", where, one[member], member, numbers[n])
			}
		}
	}
	for who := range want {
		if seen[who] < 4 {
			t.Errorf("%s is told %d times", who, seen[who])
		}
	}
	k.tellsTheSameOfMoney(t)
	k.agrees(t, tried)
}

// tellsTheSameOfMoney compares costs, in millionths.
func (k known) tellsTheSameOfMoney(t *testing.T) {
	t.Helper()
	const qwen, llama, e = 3 * (100*1 + 50*3), 4 * (1000*2 + 500*10), 4 * 8 / 2
	for query, want := range map[string]float64{
		"by=total": qwen + llama + e, "by=service&service=chat": qwen + llama, "by=model&model=e": e, "by=instance&instanceId=llama@" + k.a.URL(): llama,
		"by=host&service=chat&host=" + hostAt(k.a): qwen + llama, "by=host&host=" + hostAt(k.b): 0,
	} {
		sum := 0.0
		for _, cost := range objectsIn(t, k.GetObject("/api/monitoring/series?metric=cost&range=1h&"+query), "series")[0]["cost"].([]any) {
			if cost != nil {
				sum += cost.(float64)
			}
		}
		if sum != want {
			t.Errorf("series %s: cost %v, not %v", query, sum, want)
		}
	}
	if got := gatewaytest.Sum(k.Scrape(), "model_router_cost_total"); math.Abs(got-(qwen+llama+e)/1e6) > 1e-12 {
		t.Errorf("the scrape has a cost of %v", got)
	}
	gatewaytest.Eventually(t, "the ledger has counted all", func() bool {
		spent := gatewaytest.At(t, k.GetObject("/api/monitoring/spend?by=model"), "data").(map[string]any)
		if spent["complete"] != true {
			return false
		}
		costs := map[string]any{}
		for _, group := range objectsIn(t, spent, "groups") {
			costs[group["name"].(string)] = group["cost"]
		}
		return gatewaytest.At(t, spent, "total/cost") == float64(qwen+llama+e) && costs["qwen"] == float64(qwen) && costs["llama"] == float64(llama) && costs["e"] == float64(e)
	})
	k.HasCounted(13, 4332+2150, "")
}

// agrees compares the operations that count since the start.
func (k known) agrees(t *testing.T, tried float64) {
	t.Helper()
	counts := map[string][2]float64{"qwen@" + k.a.URL(): {5, 2}, "llama@" + k.a.URL(): {4, 0}, "llama@" + k.b.URL(): {tried, tried}, "e@" + k.a.URL(): {4, 0}}
	for _, service := range []string{"chat", "embedding"} {
		for _, one := range objectsIn(t, gatewaytest.At(t, k.GetObject("/api/monitoring/instances"), "services/"+service).(map[string]any), "instances") {
			if want := counts[one["id"].(string)]; one["requestCount"] != want[0] || one["errorCount"] != want[1] {
				t.Errorf("instances: %v", one)
			}
		}
	}
	for _, one := range objectsIn(t, k.GetObject("/api/monitoring/shares?range=1h"), "shares") {
		if want := counts[one["instanceId"].(string)]; one["requests"] != want[0] || one["errors"] != want[1] {
			t.Errorf("shares: %v", one)
		}
	}
	scrape := k.Scrape()
	for family, want := range map[string][]float64{"model_router_requests_total": {14}, "model_router_rejected_requests_total": {3}, "model_router_failovers_total": {tried}, "model_router_cached_prompt_tokens_total": {1075}} {
		if got := gatewaytest.Sum(scrape, family); got != want[0] {
			t.Errorf("%s is %v, not %v", family, got, want[0])
		}
	}
	if in, out := gatewaytest.Sum(scrape, "model_router_tokens_total", `direction="input"`), gatewaytest.Sum(scrape, "model_router_tokens_total", `direction="output"`); in != 4332 || out != 2150 {
		t.Errorf("the scrape has %v tokens in, %v out", in, out)
	}
	if got := len(k.GetObject("/api/monitoring/calls?limit=100")["calls"].([]any)); got != 17 {
		t.Errorf("%d calls are kept of 17", got)
	}
}

// TestKnownTimesAreTrueEverywhere: each percentile is within 5 % of that of the calls themselves,
// for services, models, instances and hosts, in every operation.
func TestKnownTimesAreTrueEverywhere(t *testing.T) {
	t.Parallel()
	k := startKnown(t)
	took := map[string]*knownTimes{}
	table := k.Current.Load()
	count := func(service schema.ServiceType, model string, at *simulator.Backend, n int, c calls.Record) {
		t.Helper()
		id := model + "@" + at.URL()
		c.Unified, c.Service, c.Door, c.Model, c.Routed, c.Started = true, service, schema.Door(service), model, true, time.Now().Add(-c.Ended)
		wait := c.Queued
		c.Begin(id, "openai", c.Started.Add(wait))
		c.Series = knownInstance(t, table, service, model, id).Series
		for range n {
			k.Recorder.Finish(&c)
		}
		for who, before := range map[string]time.Duration{
			"service " + service.String(): 0, "model " + service.String() + " " + model: 0,
			"instance " + service.String() + " " + id: wait, "host " + service.String() + " " + hostAt(at): wait,
		} {
			if took[who] == nil {
				took[who] = new(knownTimes)
			}
			took[who].add(n, c.Ended-before, c.FirstToken-before, c.PerToken, c.Streamed)
		}
	}
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	for n := range 40 {
		count(schema.Chat, "llama", k.a, 1, calls.Record{Ended: ms(60.9 + float64(n)/15)})
		count(schema.Chat, "llama", k.b, 1, calls.Record{Ended: ms(1501 + float64(n)/10)})
		count(schema.Chat, "qwen", k.a, 2, calls.Record{Ended: ms(978), Streamed: true, FirstToken: ms(34 + float64(n)), PerToken: ms(7 + float64(n)/8)})
		count(schema.Embedding, "e", k.a, 3, calls.Record{Ended: ms(0.3 + float64(n)/4000)})
	}
	count(schema.Chat, "qwen", k.a, 2, calls.Record{Ended: ms(6000), Streamed: true, FirstToken: ms(5000), PerToken: ms(90)})
	count(schema.Chat, "llama", k.a, 1, calls.Record{Ended: ms(20_070), Queued: ms(20_000)}) // not the fault of the instance
	gatewaytest.Eventually(t, "all requests are in the history", func() bool {
		whole := gatewaytest.At(t, k.GetObject("/api/monitoring/series?metric=whole"), "series/0/whole").(map[string]any)
		return whole["requests"] == 283.0
	})
	seen := map[string]int{}
	for where, one := range k.told() {
		who, _, _ := strings.Cut(where, " in ")
		if who == "total <nil>" {
			for _, figure := range []string{"latency", "ttft", "perToken", "tokensPerSecond", "overhead"} {
				if one[figure] != nil {
					t.Errorf("%s mixes services: %s %v", where, figure, one[figure])
				}
			}
			continue
		}
		seen[who]++
		took[who].compare(t, where, one)
	}
	for who := range took {
		if seen[who] < 6 {
			t.Errorf("%s is told %d times", who, seen[who])
		}
	}
	for _, one := range objectsIn(t, k.GetObject("/api/monitoring/shares"), "shares") {
		isWithinFivePercent(t, "shares of "+whoIs(one), one["p95"], trueQuantile(took["instance "+whoIs(one)].duration, 0.95))
	}
	k.showsTimes(t, took)
	slowness := regexp.MustCompile(`llama at ` + regexp.QuoteMeta(hostAt(k.b)) + ` takes 1\.5\d? s`)
	var slow []map[string]any
	gatewaytest.Eventually(t, "a slow instance is found", func() bool {
		slow = objectsIn(t, k.GetObject("/api/monitoring/figures"), "slow")
		return len(slow) > 0
	})
	if len(slow) != 1 || slow[0]["instanceId"] != "llama@"+k.b.URL() || !slowness.MatchString(slow[0]["text"].(string)) || !strings.Contains(slow[0]["text"].(string), " s for a call, 2") {
		t.Errorf("slow: %v", slow)
	}
	for query, want := range map[string]string{"": "slow", "?instance=llama@" + k.b.URL(): "slow", "?host=" + hostAt(k.b): "slow", "?instance=llama@" + k.a.URL(): ""} {
		wrong, found := k.GetObject("/api/monitoring/problems"+query), ""
		for _, group := range objectsIn(t, wrong, "groups") {
			found += group["kind"].(string)
		}
		if headline := gatewaytest.At(t, wrong, "headline/text").(string); found != want || slowness.MatchString(headline) != (want != "") {
			t.Errorf("problems%s: %q, %s", query, found, headline)
		}
	}
	first := objectsIn(t, k.GetObject("/api/monitoring/figures?by=host&service=chat"), "figures")[0]
	if first["host"] != hostAt(k.b) {
		t.Errorf("the slowest host is %v", first)
	}
}

// showsTimes compares the history and the scrape.
func (k known) showsTimes(t *testing.T, took map[string]*knownTimes) {
	t.Helper()
	for _, by := range []string{"service", "model", "instance", "host"} {
		for _, one := range objectsIn(t, k.GetObject("/api/monitoring/series?range=1h&metric=latency,ttft,perToken&by="+by), "series") {
			want := took[by+" "+whoIs(one)]
			for metric, all := range map[string][]time.Duration{"latency": want.duration, "ttft": want.first, "perToken": want.pace} {
				for part, q := range map[string]float64{"p50": 0.5, "p95": 0.95, "p99": 0.99} {
					points, counts := gatewaytest.At(t, one, metric+"/"+part).([]any), gatewaytest.At(t, one, metric+"/count").([]any)
					most := 0 // the point with all requests
					for at := range counts {
						if counts[at].(float64) > counts[most].(float64) {
							most = at
						}
					}
					if counts[most] != float64(len(all)) {
						t.Errorf("%s %s: %s of %v, not %d", by, whoIs(one), metric, counts[most], len(all))
					} else if len(all) > 0 {
						isWithinFivePercent(t, by+" "+whoIs(one)+" "+metric+" "+part, points[most], trueQuantile(all, q))
					}
				}
			}
		}
	}
	scrape := k.Scrape()
	label := `instance="llama@` + hostAt(k.b) + `"`
	for bound, want := range map[string]float64{"1": 0, "2.5": 40, "+Inf": 40} {
		if got := gatewaytest.Sum(scrape, "model_router_request_duration_seconds_bucket", label, `le="`+bound+`"`); got != want {
			t.Errorf("the scrape has %v requests up to %s", got, bound)
		}
	}
	var sum time.Duration
	for _, one := range took["instance chat llama@"+k.b.URL()].duration {
		sum += one
	}
	if got := gatewaytest.Sum(scrape, "model_router_request_duration_seconds_sum", label); math.Abs(got-sum.Seconds()) > 1e-6 {
		t.Errorf("the scrape has %v seconds, not %v", got, sum)
	}
}

type knownTimes struct{ duration, first, pace []time.Duration }

func (k *knownTimes) add(n int, duration, first, pace time.Duration, streamed bool) {
	k.duration = append(k.duration, slices.Repeat([]time.Duration{duration}, n)...)
	if streamed {
		k.first = append(k.first, slices.Repeat([]time.Duration{first}, n)...)
		k.pace = append(k.pace, slices.Repeat([]time.Duration{pace}, n)...)
	}
}

// trueQuantile returns the true one, in milliseconds.
func trueQuantile(all []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(int(math.Ceil(q*float64(len(sorted)))), 1)-1].Seconds() * 1000
}

func (k *knownTimes) compare(t *testing.T, where string, told map[string]any) {
	t.Helper()
	if k == nil {
		t.Errorf("%s is not known: %v", where, told)
		return
	}
	for figure, all := range map[string][]time.Duration{"latency": k.duration, "ttft": k.first, "perToken": k.pace} {
		got, isTold := told[figure].(map[string]any)
		if isTold != (len(all) > 0) {
			t.Errorf("%s: %s is %v of %d", where, figure, told[figure], len(all))
		}
		if !isTold {
			continue
		}
		if got["count"] != float64(len(all)) {
			t.Errorf("%s: %s of %v, not %d", where, figure, got["count"], len(all))
		}
		for part, q := range map[string]float64{"p50": 0.5, "p95": 0.95, "p99": 0.99} {
			isWithinFivePercent(t, where+" "+figure+" "+part, got[part], trueQuantile(all, q))
			if figure == "perToken" {
				isWithinFivePercent(t, where+" tokens/s "+part, told["tokensPerSecond"].(map[string]any)[part], 1000/trueQuantile(all, q))
			}
		}
	}
}

func isWithinFivePercent(t *testing.T, where string, got any, want float64) {
	t.Helper()
	if number, ok := got.(float64); !ok || math.Abs(number/want-1) > 0.05 {
		t.Errorf("%s: %v, not %.4g", where, got, want)
	}
}

func knownInstance(t *testing.T, table *routing.Table, service schema.ServiceType, model, id string) *backend.Instance {
	t.Helper()
	for _, i := range table.Service(service).Find(model).Instances {
		if i.ID == id {
			return i
		}
	}
	t.Fatalf("there is no instance %s", id)
	return nil
}
