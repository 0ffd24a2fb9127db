package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// scene is a primary that fails beside a sibling that is well. The sibling has
// no weight of its own in the first pick: the primary is asked first.
type scene struct {
	*gatewaytest.Gateway
	t                *testing.T
	primary, sibling *simulator.Backend
}

// sixtyWords is the canonical answer: sixty tokens.
var sixtyWords = strings.TrimSpace(strings.Repeat("word ", 60))

// newScene starts a gateway with a primary that plays the steps and a healthy
// sibling; the primary has these timeouts. Its breaker, once open, stays so.
func newScene(t *testing.T, timeouts string, steps ...simulator.Step) *scene {
	t.Helper()
	return newSceneWith(t, timeouts, gatewaytest.Never, steps...)
}

// newSceneWith is newScene with a breaker that recovers.
func newSceneWith(t *testing.T, timeouts string, recovery time.Duration, steps ...simulator.Step) *scene {
	t.Helper()
	primary, sibling := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	for n := range steps {
		if steps[n].Text == "" {
			steps[n].Text = sixtyWords
		}
	}
	primary.ScriptForever(steps...)
	sibling.ScriptForever(simulator.Step{Text: "sibling " + sixtyWords})
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("circuit-breaker: {failure-threshold: 3, recovery-timeout: "+recovery.String()+", success-threshold: 1}, "+gatewaytest.NoChecks,
		gatewaytest.Instance("m", primary.URL(), "weight: 10", "timeouts: {"+timeouts+"}"), gatewaytest.Instance("m", sibling.URL(), "weight: 0.001")))
	return &scene{r, t, primary, sibling}
}

// ask streams one request and returns its events.
func (s *scene) ask(body string) (answer gatewaytest.Reply, events []string) {
	s.t.Helper()
	answer = s.Chat(body)
	if answer.Status == http.StatusOK {
		events = gatewaytest.EventsOf(s.t, answer.Body)
	}
	return answer, events
}

// complete checks that an answer is whole and says from whom it is.
func (s *scene) complete(events []string, by string) {
	s.t.Helper()
	if len(events) == 0 || events[len(events)-1] != "[DONE]" {
		s.t.Fatalf("no complete answer: %v", events)
	}
	want := map[string]string{"primary": sixtyWords, "sibling": "sibling " + sixtyWords}[by]
	if text := gatewaytest.TextOf(s.t, events); text != want {
		s.t.Errorf("the answer is %q, want the one of the %s", text, by)
	}
}

// clearError checks that a stream ended with an error event, after the answer
// had begun, and without the mark of a complete one.
func (s *scene) clearError(events []string, code string) {
	s.t.Helper()
	if len(events) < 2 {
		s.t.Fatalf("events %v", events)
	}
	if fault := gatewaytest.ErrorOf(s.t, events[len(events)-1]); fault.Code != code {
		s.t.Errorf("error %+v, want %s", fault, code)
	}
	if strings.Contains(strings.Join(events, "\n"), "[DONE]") || !strings.HasPrefix(sixtyWords, gatewaytest.TextOf(s.t, events)) {
		s.t.Error("a cut answer looks like a whole one, or like another")
	}
}

// tries checks how many requests reached both.
func (s *scene) tries(primary, sibling int) {
	s.t.Helper()
	if p, b := s.primary.Stats().Arrived, s.sibling.Stats().Arrived; p != primary || b != sibling {
		s.t.Errorf("the primary got %d and the sibling %d, want %d and %d", p, b, primary, sibling)
	}
}

// The sixteen public failure scenarios: a fault on the primary, a healthy sibling
// beside it, and what a caller of a stream must see. S08 and S14 end as a clear
// error; going on with a cut answer elsewhere is not done.
func TestSixteenFailureScenarios(t *testing.T) {
	scenarios := []struct {
		name string
		play func(t *testing.T)
	}{
		{"S01 429 once with Retry-After", scenario01},
		{"S02 429 for ever", scenario02},
		{"S03 500 once", scenario03},
		{"S04 503 for ever", scenario04},
		{"S05 reset before any byte", scenario05},
		{"S06 accepts and never answers", scenario06},
		{"S07 head at once, first token late", scenario07},
		{"S08 dies after 40 of 60 tokens", scenario08},
		{"S09 silent after 20 tokens", scenario09},
		{"S10 tenth event is broken", scenario10},
		{"S11 complete without DONE", scenario11},
		{"S12 context length exceeded", scenario12},
		{"S13 content policy", scenario13},
		{"S14 cut, and the sibling refuses a prefix", scenario14},
		{"S15 away for a while, twenty requests", scenario15},
		{"S16 who answered is who is reported", scenario16},
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.play(t)
		})
	}
}

func scenario01(t *testing.T) {
	s := newScene(t, "", simulator.Step{Status: 429, Header: http.Header{"Retry-After": {"2"}}}, simulator.Step{})
	_, events := s.ask(gatewaytest.StreamHi)
	s.complete(events, "sibling")
	s.tries(1, 1)
	_, events = s.ask(gatewaytest.StreamHi) // a limit is no failure: the primary is asked again
	s.complete(events, "primary")
}

func scenario02(t *testing.T) {
	s := newScene(t, "", simulator.Step{Status: 429})
	_, events := s.ask(gatewaytest.StreamHi)
	s.complete(events, "sibling")
	s.tries(1, 1)
	if got := breakerState(s.Gateway); got != breaker.Closed {
		t.Errorf("the breaker is %v", got)
	}
}

func scenario03(t *testing.T) {
	s := newScene(t, "", simulator.Step{Status: 500}, simulator.Step{})
	_, events := s.ask(gatewaytest.StreamHi)
	s.complete(events, "sibling")
	s.tries(1, 1)
}

func scenario04(t *testing.T) {
	s := newScene(t, "", simulator.Step{Status: 503})
	for range 6 {
		_, events := s.ask(gatewaytest.StreamHi)
		s.complete(events, "sibling")
	}
	s.tries(3, 6) // then its breaker is open
}

func scenario05(t *testing.T) {
	s := newScene(t, "", simulator.Step{Reset: true}, simulator.Step{})
	_, events := s.ask(gatewaytest.StreamHi)
	s.complete(events, "sibling")
	s.tries(1, 1)
}

func scenario06(t *testing.T) {
	s := newScene(t, "first-byte: 300ms", simulator.Step{Hang: true})
	began := time.Now()
	answer, events := s.ask(gatewaytest.StreamHi)
	s.complete(events, "sibling")
	s.tries(1, 1) // the silent one is not asked twice
	if took := time.Since(began); took < 250*time.Millisecond || answer.Header.Get("X-Router-Attempts") != "2" {
		t.Errorf("after %v and %s attempts", took, answer.Header.Get("X-Router-Attempts"))
	}
}

func scenario07(t *testing.T) {
	s := newScene(t, "first-token: 300ms", simulator.Step{FirstDelay: gatewaytest.Never})
	_, events := s.ask(gatewaytest.StreamHi)
	s.complete(events, "sibling")
	s.tries(1, 1)
}

func scenario08(t *testing.T) {
	for name, stop := range map[string]simulator.Stop{"reset": simulator.StopReset, "closed": simulator.StopClose, "ended": simulator.StopEnd} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, "", simulator.Step{Stop: stop, After: 41})
			_, events := s.ask(gatewaytest.StreamHi)
			s.clearError(events, "upstream_stream_truncated")
			s.tries(1, 0)
		})
	}
}

func scenario09(t *testing.T) {
	s := newScene(t, "idle: 1s", simulator.Step{Stop: simulator.StopStall, After: 21}, simulator.Step{})
	_, events := s.ask(gatewaytest.StreamHi)
	s.clearError(events, "upstream_timeout")
	_, events = s.ask(gatewaytest.StreamHi) // healthy afterwards
	s.complete(events, "primary")
}

func scenario10(t *testing.T) {
	s := newScene(t, "", simulator.Step{Inject: simulator.BrokenEvent, After: 9})
	_, events := s.ask(gatewaytest.StreamHi)
	s.clearError(events, "upstream_error")
	s.tries(1, 0)
}

func scenario11(t *testing.T) {
	s := newScene(t, "idle: 1h", simulator.Step{NoDone: true})
	_, events := s.ask(strings.Replace(gatewaytest.StreamHi, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1))
	s.complete(events, "primary")
	if last := gatewaytest.DecodeChunk(t, events[len(events)-2]); !strings.Contains(string(last.Usage), "completion_tokens") {
		t.Errorf("no usage: %s", events[len(events)-2])
	}
}

func scenario12(t *testing.T) {
	s := newScene(t, "", simulator.Step{Status: 400, Body: simulator.ErrorObject("This model's maximum context length is 8192 tokens.", "invalid_request_error", "context_length_exceeded")})
	answer, _ := s.ask(gatewaytest.StreamHi)
	fault := answer.FailsWith(t, 400, gatewaytest.InvalidRequest, "context_length_exceeded", "")
	if !strings.Contains(string(fault.Details), "maximum context length is 8192") {
		t.Errorf("details %s", fault.Details)
	}
	s.tries(1, 0)
}

func scenario13(t *testing.T) {
	s := newScene(t, "", simulator.Step{Status: 400, Body: simulator.ErrorObject("Rejected by the content policy.", "invalid_request_error", "content_policy_violation")})
	answer, _ := s.ask(gatewaytest.StreamHi)
	fault := answer.FailsWith(t, 400, gatewaytest.InvalidRequest, "upstream_error", "")
	if !strings.Contains(string(fault.Details), "Rejected by the content policy.") {
		t.Errorf("details %s", fault.Details)
	}
	s.tries(1, 0)
}

func scenario14(t *testing.T) {
	s := newScene(t, "", simulator.Step{Stop: simulator.StopReset, After: 41})
	s.sibling.ScriptForever(simulator.Step{Status: 400, Body: simulator.ErrorObject("The last message must be of the user.", "invalid_request_error", "")})
	_, events := s.ask(gatewaytest.StreamHi)
	s.clearError(events, "upstream_stream_truncated") // never the sibling's 400
	s.tries(1, 0)
}

func scenario15(t *testing.T) {
	// On a busy machine the pause may be over before the ten requests are.
	var s *scene
	for pause, took := 500*time.Millisecond, gatewaytest.Never; took >= pause; pause *= 4 {
		s = newSceneWith(t, "", pause, simulator.Step{Status: 503})
		began := time.Now()
		for range 10 {
			_, events := s.ask(gatewaytest.StreamHi)
			s.complete(events, "sibling")
		}
		if took = time.Since(began); took < pause {
			s.tries(3, 10)
			break
		}
	}
	s.primary.ScriptForever(simulator.Step{Text: sixtyWords})
	first := s.Instances("m")[0]
	gatewaytest.Eventually(t, "the pause is over", func() bool { return first.Breaker.Ready(time.Now()) })
	for range 10 {
		_, events := s.ask(gatewaytest.StreamHi)
		s.complete(events, "primary")
	}
	if got := breakerState(s.Gateway); got != breaker.Closed {
		t.Errorf("the breaker is %v", got)
	}
}

func scenario16(t *testing.T) {
	s := newScene(t, "", simulator.Step{Status: 503})
	answer := s.Chat(gatewaytest.PlainHi).Succeeds(t)
	if answer.Header.Get("X-Router-Instance") != s.Instances("m")[1].Handle || answer.Header.Get("X-Router-Attempts") != "2" {
		t.Errorf("headers %v", answer.Header)
	}
	direct := gatewaytest.OnlyRequest(t, s.sibling)
	if !strings.Contains(answer.Body, `"completion_tokens":61`) || !strings.Contains(string(direct.Body), `"m"`) {
		t.Errorf("the usage is not the sibling's: %s", answer.Body)
	}
	if success, failed, _ := gatewaytest.Outcomes(s.Instances("m")[0]); success != 0 || failed != 1 {
		t.Errorf("%d successes and %d failures of the primary", success, failed)
	}
}
