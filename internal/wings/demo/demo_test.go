package demo_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/wings/demo"
)

// startDemo starts a gateway in front of two backends of the demo.
func startDemo(t *testing.T, traffic bool) (*gatewaytest.Gateway, *demo.Demo, []*simulator.Backend) {
	t.Helper()
	var backends []*simulator.Backend
	for _, name := range []string{"A", "B"} {
		options := simulator.Demo(name, 0)
		options.TokenDelay = 0
		b, err := simulator.Start(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		backends = append(backends, b)
	}
	d := demo.New(backends, traffic, false)
	t.Cleanup(d.Close)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{
		YAML: "services: {chat: {" + gatewaytest.NoChecks + ", circuit-breaker: {failure-threshold: 2, success-threshold: 1, recovery-timeout: 10ms}, instances: [" +
			gatewaytest.Instance(simulator.DemoChat, backends[0].URL()) + "," + gatewaytest.Instance(simulator.DemoChat, backends[1].URL()) + "]}}\n",
		Demo: true, Routes: d.Routes(),
	})
	return r, d, backends
}

const chat = `{"model":"demo-chat",` + gatewaytest.SomeMessages + `}`

func TestBreakingAnInstanceOpensItsBreakerAndMendingClosesIt(t *testing.T) {
	t.Parallel()
	r, _, backends := startDemo(t, false)
	id := simulator.DemoChat + "@" + backends[0].URL()
	first := r.Instances(simulator.DemoChat)[0]
	r.API(http.MethodPost, "/api/demo/fault", `{"instanceId":"`+id+`","fault":"down","seconds":3600}`).Is(t, 200, `"faults":[{"instanceId":"`+id+`","fault":"down"`)
	for range 6 {
		r.Chat(chat).Succeeds(t) // the other instance helps
	}
	if state := first.Breaker.Snapshot(); state.FailureCount < 2 {
		t.Errorf("%+v", state)
	}
	r.API(http.MethodPost, "/api/demo/fault", `{"instanceId":"`+id+`","fault":"none"}`).Is(t, 200, `"faults":[]`)
	gatewaytest.Eventually(t, "the breaker closes", func() bool {
		r.Chat(chat).Succeeds(t)
		return first.Breaker.Snapshot().State == breaker.Closed
	})
}

// Somebody breaks the instance that writes an answer, and another one goes on with it.
func TestAnAnswerGoesOnWhenItsInstanceIsBroken(t *testing.T) {
	t.Parallel()
	var backends []*simulator.Backend
	for _, name := range []string{"A", "B"} {
		options := simulator.Demo(name, 0)
		options.TokenDelay = 2 * time.Millisecond
		b, err := simulator.Start(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		backends = append(backends, b)
	}
	d := demo.New(backends, false, false)
	t.Cleanup(d.Close)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{
		YAML: "services: {chat: {streams: {resume: continue}, " + gatewaytest.NoChecks + ", instances: [" +
			gatewaytest.Instance(simulator.DemoChat, backends[0].URL(), "adapter: vllm") + "," + gatewaytest.Instance(simulator.DemoChat, backends[1].URL(), "adapter: vllm", "tier: 1") + "]}}\n",
		Demo: true, Routes: d.Routes(),
	})
	stream := r.Stream(gatewaytest.Deadline(t), `{"model":"demo-chat","stream":true,"messages":[{"role":"user","content":"a LONG answer"}]}`)
	for range 10 {
		if _, err := stream.Next(); err != nil {
			t.Fatal(err)
		}
	}
	r.API(http.MethodPost, "/api/demo/fault", `{"instanceId":"`+simulator.DemoChat+"@"+backends[0].URL()+`","fault":"down"}`).Is(t, 200)
	rest, err := stream.Rest()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(rest, "\n")
	for _, want := range []string{": resumed attempt=2 how=continued", "goes", "24", "[DONE]"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}
}

func TestFaultsEndByThemselves(t *testing.T) {
	t.Parallel()
	r, _, backends := startDemo(t, false)
	id := simulator.DemoChat + "@" + backends[1].URL()
	r.API(http.MethodPost, "/api/demo/fault", `{"instanceId":"`+id+`","fault":"down","seconds":1}`).Is(t, 200)
	gatewaytest.Eventually(t, "the fault is over", func() bool {
		return string(r.API(http.MethodGet, "/api/demo", "").Data) == `{"traffic":false,"requestsPerSecond":2.5,"faults":[]}`
	})
	failures := len(backends[1].Requests())
	for range 4 {
		r.Chat(chat).Succeeds(t)
	}
	if len(backends[1].Requests()) == failures {
		t.Error("the instance gets no requests")
	}
}

func TestFaultsAreForInstancesOfTheDemo(t *testing.T) {
	t.Parallel()
	r, _, backends := startDemo(t, false)
	id := simulator.DemoChat + "@" + backends[0].URL()
	r.API(http.MethodPost, "/api/demo/fault", `{"instanceId":"m@http://127.0.0.1:1","fault":"down"}`).Is(t, 404, "instanceId")
	for _, body := range []string{`{}`, `[`, `{"instanceId":"` + id + `","fault":"gone"}`, `{"instanceId":"` + id + `","fault":"down","seconds":-1}`, `{"instanceId":"` + id + `","fault":"down","more":1}`} {
		r.API(http.MethodPost, "/api/demo/fault", body).Is(t, 400)
	}
	r.API(http.MethodPost, "/api/demo/fault?dryRun=true", `{"instanceId":"`+id+`","fault":"down"}`).Is(t, 400, "dryRun")
	if r.GetObject("/actuator/info")["demo"] != true {
		t.Error("the info does not tell the demo")
	}
	plain := gatewaytest.Start(t, "")
	plain.API(http.MethodPost, "/api/demo/fault", `{}`).Is(t, 404)
	if _, told := plain.GetObject("/actuator/info")["demo"]; told {
		t.Error("a gateway that is no demo says it is one")
	}
}

func TestTrafficIsSwitchedOnAndOff(t *testing.T) {
	t.Parallel()
	r, d, backends := startDemo(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx, r.URL)
	}()
	served := func() int { return len(backends[0].Requests()) + len(backends[1].Requests()) }
	r.API(http.MethodPost, "/api/demo/traffic", `{"enabled":true}`).Is(t, 200, `"traffic":true`)
	gatewaytest.Eventually(t, "requests come", func() bool { return served() > 1 })
	r.API(http.MethodPost, "/api/demo/traffic", `{"enabled":false}`).Is(t, 200, `"traffic":false`)
	r.API(http.MethodPost, "/api/demo/traffic", `{}`).Is(t, 400, "enabled")
	cancel()
	select {
	case <-ended:
	case <-time.After(gatewaytest.Timeout):
		t.Error("the traffic does not end")
	}
}
