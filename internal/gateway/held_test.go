package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// startAsleep starts an Ollama that loads its model in so many seconds, or never.
func startAsleep(t *testing.T, load float64, fault engine.Fault) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(simulator.Options{
		Models: []string{"m"}, Kind: simulator.Ollama,
		Engine: &engine.Spec{Block: 16, Cache: 100_000, Request: 0.001, Decode: 0.0001, Room: 1, Load: load},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	b.Engine().SetFault(fault)
	return b
}

func heldYAML(residency string, b *simulator.Backend) string {
	return gatewaytest.PolicyYAML("residency: {enabled: true"+residency+"}, "+gatewaytest.NoBreaker, gatewaytest.Instance("m", b.URL(), "adapter: ollama"))
}

// isHeld waits until a request waits for its model.
func isHeld(t *testing.T, r *gatewaytest.Gateway) {
	t.Helper()
	gatewaytest.Eventually(t, "the request is held", func() bool { return r.ChatPool().Queue.Len() == 1 })
}

// What a request may use is reserved while it waits for its model, and given back if its
// client leaves or the model cannot be loaded, also if the client was told that it waits.
// When the model is there the request is paid exactly, and once.
func TestHeldRequestsArePaidExactly(t *testing.T) {
	t.Parallel()
	for name, residency := range map[string]string{"silent": "", "told": ", hold-notice: 1ms"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startAsleep(t, 0.01, engine.Hangs)
			yaml := withKey(heldYAML(residency, b), "budgets: {day: {tokens: 100000, requests: 100}, total: {cost: 1000}}")
			yaml = strings.Replace(yaml, "enabled: true, keys:", "enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin-token")+"}], keys:", 1)
			r := gatewaytest.Start(t, yaml+"prices: {models: [{model: '*', input: 1000, output: 2000}]}\nquota: {enabled: true}\n")
			const body = `{"model":"m","stream":true,"max_tokens":50,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
			isFree := func(when string) {
				t.Helper()
				gatewaytest.Eventually(t, when+" nothing is reserved", func() bool { _, _, reserved, _ := spentOf(t, r); return reserved == 0 })
				if tokens, cost, _, ledger := spentOf(t, r); tokens != 0 || cost != 0 || ledger.TokenCount != 0 || ledger.Cost != 0 {
					t.Errorf("%s: %d tokens, %d, and the ledger has %+v", when, tokens, cost, ledger)
				}
			}
			ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
			later := r.ChatLater(ctx, body, bearer("secret")...)
			isHeld(t, r)
			if tokens, cost, reserved, _ := spentOf(t, r); reserved < 50 || tokens != 0 || cost != 0 {
				t.Errorf("while it is held: %d tokens, %d, %d reserved", tokens, cost, reserved)
			}
			leave()
			<-later
			isFree("after the client left")
			b.Engine().SetFault(engine.Fails)
			if failed := r.Chat(body, bearer("secret")...); !strings.Contains(failed.Body, "could not be loaded") {
				t.Errorf("a model that cannot be loaded: %d %s", failed.Status, failed.Body)
			}
			isFree("after a load that failed")
			b.Engine().SetFault(engine.Works)
			reply := r.Chat(body, bearer("secret")...).Succeeds(t)
			var reported struct {
				Usage struct {
					Prompt     int64 `json:"prompt_tokens"`
					Completion int64 `json:"completion_tokens"`
				} `json:"usage"`
			}
			for event := range strings.SplitSeq(reply.Body, "\n\n") {
				if data, is := strings.CutPrefix(event, "data: {"); is && strings.Contains(data, `"usage":{`) {
					if err := json.Unmarshal([]byte("{"+data), &reported); err != nil {
						t.Fatal(err)
					}
				}
			}
			used, price := reported.Usage.Prompt+reported.Usage.Completion, 1000*reported.Usage.Prompt+2000*reported.Usage.Completion
			if tokens, cost, reserved, ledger := spentOf(t, r); used == 0 || tokens != used || cost != price || reserved != 0 || ledger.TokenCount != used || ledger.Cost != price {
				t.Errorf("%d tokens and %d, %d reserved, the ledger has %+v, and the answer has %d and %d: %s", tokens, cost, reserved, ledger, used, price, reply.Body)
			}
		})
	}
}

// A gateway that stops serves those who wait for a model that is about to be there. Those
// whose model does not come within the grace are told that it stops: with a status, or with
// an event where they have one.
func TestAStopWhileRequestsAreHeld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault           engine.Fault
		grace, notice   string
		status          int
		says, saysFirst string
	}{
		"the model comes":                {engine.Works, "1m", "0", http.StatusOK, "data: [DONE]", "data: "},
		"the model does not come":        {engine.Hangs, "100ms", "0", http.StatusServiceUnavailable, "The gateway is shutting down.", "{"},
		"the client knows that it waits": {engine.Hangs, "100ms", "1ms", http.StatusOK, "The gateway is shutting down.", ": waiting for the model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startAsleep(t, 1, c.fault)
			r := gatewaytest.Start(t, heldYAML(", hold-notice: "+c.notice, b)+"server: {shutdown-grace: "+c.grace+"}\n")
			later := r.ChatLater(gatewaytest.Deadline(t), gatewaytest.StreamHi)
			isHeld(t, r)
			r.Stop(gatewaytest.Deadline(t))
			reply := <-later
			if reply.Status != c.status || !strings.HasPrefix(reply.Body, c.saysFirst) || !strings.Contains(reply.Body, c.says) {
				t.Errorf("%d %s", reply.Status, reply.Body)
			}
			gatewaytest.Eventually(t, "nothing is loaded any more", func() bool { return len(b.Engine().State().Loading) == 0 })
		})
	}
}

// Gateways that share a host tell each other through Redis what they use. One puts a model to
// sleep that none of them has used, and not one that another uses; without Redis none puts
// anything to sleep.
func TestGatewaysShareTheLastUseBeforeAModelSleeps(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	b := startAsleep(t, 0.01, engine.Works)
	yaml := heldYAML(", sleep-after: 1500ms", b) + redisYAML(redis)
	busy, idle := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
	gatewaytest.Eventually(t, "the gateways know each other", func() bool { return isWith(busy, 1) && isWith(idle, 1) })
	use := func(r *gatewaytest.Gateway) { r.Chat(gatewaytest.PlainHi).Succeeds(t) }
	use(idle)
	began := time.Now()
	gatewaytest.Eventually(t, "one gateway has used the model for longer than it stays unused", func() bool {
		use(busy)
		return time.Since(began) > 4*time.Second
	})
	sleeps := func() (n int64) {
		for _, r := range []*gatewaytest.Gateway{busy, idle} {
			for _, s := range r.Residency.States(time.Now()) {
				n += s.Sleeps
			}
		}
		return n
	}
	if loads := b.Engine().State().Loads; loads != 1 || sleeps() != 0 {
		t.Errorf("a model that one of them uses was put to sleep: %d loads, %d sleeps", loads, sleeps())
	}
	gatewaytest.Eventually(t, "a model that none of them uses is put to sleep", func() bool {
		return sleeps() > 0 && len(b.Engine().State().Models) == 0
	})
	redis.Kill()
	gatewaytest.Eventually(t, "both know that they are alone", func() bool { return !isWith(busy, 1) && !isWith(idle, 1) })
	use(idle)
	slept, alone := sleeps(), time.Now()
	gatewaytest.Eventually(t, "time passes", func() bool { return time.Since(alone) > 4*time.Second })
	if sleeps() != slept { // the engine may have given the model up by itself
		t.Error("without Redis a model was put to sleep")
	}
	redis.Start()
	gatewaytest.Eventually(t, "the gateways know each other again", func() bool { return isWith(busy, 1) && isWith(idle, 1) })
}
