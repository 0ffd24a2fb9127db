package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// setup is the program with simulated engines behind it, for measurements that take too long
// for every run of the tests.
type setup struct {
	*child
	engines []*simulator.Backend
	client  *http.Client
}

// startSetup starts engines, and the program with a service that has the model m at all of
// them. PATCHBAY_GAINS says that these measurements are wanted.
func startSetup(t *testing.T, service, policy, instance, more string, specs ...engine.Spec) *setup {
	t.Helper()
	if os.Getenv("PATCHBAY_GAINS") == "" {
		t.Skip("a measurement, for which PATCHBAY_GAINS must be set")
	}
	var all setup
	var list []string
	for _, spec := range specs {
		b, err := simulator.Start(simulator.Options{Models: []string{"m"}, Kind: simulator.VLLM, Engine: &spec})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		all.engines = append(all.engines, b)
		list = append(list, "{name: m, base-url: '"+b.URL()+"'"+instance+"}")
	}
	args := []string{"--data-dir", t.TempDir(), "--set", "log.access=false", "--set", "services." + service + "={adapter: vllm, " + policy + "instances: [" + strings.Join(list, ", ") + "]}"}
	if more != "" {
		args = append(args, "--set", more)
	}
	all.child = serving(t, args...)
	all.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 400}}
	t.Cleanup(all.client.CloseIdleConnections)
	return &all
}

// post sends a request and returns how long the answer took, and the answer.
func (s *setup) post(path, body string) (time.Duration, gatewaytest.Reply) {
	s.t.Helper()
	began := time.Now()
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(s.t), http.MethodPost, s.url()+path, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0, gatewaytest.Reply{}
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.t.Error(err)
		return 0, gatewaytest.Reply{}
	}
	reply := gatewaytest.ReadReply(response)
	if reply.Status != http.StatusOK {
		s.t.Errorf("%d %s", reply.Status, reply.Body)
	}
	return time.Since(began), reply
}

// arrived returns how many calls the engines got.
func (s *setup) arrived() (calls int) {
	for _, b := range s.engines {
		calls += b.Stats().Arrived
	}
	return calls
}

// crowd has so many clients send requests until all are sent, and returns the times they took.
func (s *setup) crowd(clients, requests int, path string, body func(n int) string) []time.Duration {
	took := make([]time.Duration, requests)
	next := make(chan int, requests)
	for n := range requests {
		next <- n
	}
	close(next)
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for n := range next {
				took[n], _ = s.post(path, body(n))
			}
		})
	}
	running.Wait()
	slices.Sort(took)
	return took
}

// flow sends requests at random times, whether or not others were answered, and returns the
// times they took.
func (s *setup) flow(each time.Duration, requests int, path string, body func(n int) string) []time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	took := make([]time.Duration, requests)
	var running sync.WaitGroup
	for n := range requests {
		<-time.After(time.Duration(random.ExpFloat64() * float64(each)))
		running.Go(func() { took[n], _ = s.post(path, body(n)) })
	}
	running.Wait()
	slices.Sort(took)
	return took
}

// TestGainOfScatter has 2,048 inputs embedded by four engines, with and without sharing.
func TestGainOfScatter(t *testing.T) {
	spec := engine.Spec{Block: 16, Cache: 1 << 20, Token: 0.0001, Request: 0.005, Width: 1}
	inputs := make([]string, 2048)
	for n := range inputs {
		inputs[n] = fmt.Sprintf("%q", strings.Repeat("word ", 5+n%60))
	}
	body := `{"model":"m","dimensions":4,"input":[` + strings.Join(inputs, ",") + `]}`
	var took [2]time.Duration
	for n, policy := range []string{"", "split: {max-split: 4}, "} {
		s := startSetup(t, "embedding", policy, "", "", spec, spec, spec, spec)
		var reply gatewaytest.Reply
		took[n], reply = s.post("/v1/embeddings", body)
		t.Logf("%q: %v, %d calls, x-router-attempts %s", policy, took[n].Round(time.Millisecond), s.arrived(), reply.Header.Get("X-Router-Attempts"))
	}
	t.Logf("%.2f times as fast", took[0].Seconds()/took[1].Seconds())
}

// TestGainOfHedging makes one of four engines 20 times slower.
func TestGainOfHedging(t *testing.T) {
	spec := engine.Spec{Block: 16, Cache: 1 << 20, Token: 0.0005, Request: 0.005, Width: 4}
	body := func(n int) string {
		return fmt.Sprintf(`{"model":"m","dimensions":4,"input":["%d %s"]}`, n, strings.Repeat("word ", 80+n%40))
	}
	var worst [2]time.Duration
	for n, policy := range []string{"load-balancer: least-time, ", "load-balancer: least-time, hedge: {enabled: true}, "} {
		s := startSetup(t, "embedding", policy, "", "", spec, spec, spec, spec)
		s.flow(60*time.Millisecond, 600, "/v1/embeddings", body)
		before := s.arrived()
		s.engines[3].Engine().Slow(20)
		took := s.flow(60*time.Millisecond, 1000, "/v1/embeddings", body)
		worst[n] = took[989]
		t.Logf("%q: p50 %v, p95 %v, p99 %v, %d calls for 1000 requests", policy, took[499].Round(time.Millisecond), took[949].Round(time.Millisecond), worst[n].Round(time.Millisecond), s.arrived()-before)
	}
	t.Logf("p99 is %.1f times less", worst[0].Seconds()/worst[1].Seconds())
}

// TestGainOfSingleFlight has 200 clients ask the same at once.
func TestGainOfSingleFlight(t *testing.T) {
	spec := engine.Spec{Block: 16, Cache: 1 << 20, Token: 0.0001, Request: 0.02, Decode: 0.01, Width: 4, Slots: 8}
	for _, more := range []string{"", "answer-cache.single-flight=true"} {
		s := startSetup(t, "chat", "", "", more, spec)
		s.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"warm"}]}`)
		before := s.arrived()
		began := time.Now()
		took := s.crowd(200, 200, "/v1/chat/completions", func(int) string {
			return `{"model":"m","stream":true,"temperature":0,"max_tokens":50,"ignore_eos":true,"messages":[{"role":"user","content":"the same"}]}`
		})
		t.Logf("%q: %d calls, all answered in %v, p50 %v", more, s.arrived()-before, time.Since(began).Round(time.Millisecond), took[99].Round(time.Millisecond))
	}
}

// TestGainOfLearnedSlots has 24 clients ask an engine with 6 slots for 90 seconds each.
func TestGainOfLearnedSlots(t *testing.T) {
	spec := engine.Spec{Block: 16, Cache: 1 << 20, Token: 0.0001, Request: 0.01, Decode: 0.03, Width: 6, Slots: 6}
	for _, limit := range []string{"6", "auto", "2", "24"} {
		s := startSetup(t, "chat", "queue: {size: 100, timeout: 10m}, ", ", max-concurrency: "+limit, "", spec)
		var mu sync.Mutex
		answers, until := 0, time.Now().Add(90*time.Second)
		measured := until.Add(-30 * time.Second)
		var running sync.WaitGroup
		for n := range 24 {
			running.Go(func() {
				for time.Now().Before(until) {
					s.post("/v1/chat/completions", fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":40,"ignore_eos":true,"messages":[{"role":"user","content":"client %d"}]}`, n))
					mu.Lock()
					if now := time.Now(); now.After(measured) && now.Before(until) {
						answers++
					}
					mu.Unlock()
				}
			})
		}
		running.Wait()
		why := regexp.MustCompile(`"why":"[^"]*"`).FindString(s.ask(http.MethodGet, "/api/monitoring/instances", "").Body)
		t.Logf("max-concurrency %s: %.0f tokens a second %s", limit, float64(answers*40)/30, why)
	}
}
