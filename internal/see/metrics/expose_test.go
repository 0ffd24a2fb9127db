package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// someState is a state of so many instances.
func someState(instances int) State {
	var w State
	for n := range instances {
		w.Instances = append(w.Instances, InstanceView{
			Service: schema.Chat, Label: fmt.Sprintf("m@gpu%d:8000", n), Series: NewInstance(), Weight: 1, Healthy: true,
			Slots: 7, Engine: &EngineView{Queue: 1.5, Waiting: 2, Decoding: 3, Others: 1, Cached: 4096, Calls: 4, HitRate: 0.25, PerToken: 0.001},
		})
	}
	return w
}

// tell tells a state, and a series of every family that only the gateway knows.
func (s *State) tell(to *State) {
	to.Instances = s.Instances
	to.Count("model_router_rate_limit_remaining", 7, "chat")
	to.Count("model_router_rate_limit_remaining", 3, "tts", "192.0.2.1")
	to.Value("model_router_fleet_trust", 0.5)
	to.Flag("model_router_process_state", true, "qwen", "ready")
	to.Flag("model_router_process_state", false, "qwen", "failed")
	for i, f := range families {
		isTold := len(to.to.all[i].Metric) > 0
		if !isTold && f.Category != CategorySystem && f.Name != buildInfo && !slices.Contains(f.Labels, "instance") {
			to.Value(f.Name, 0, f.Labels...)
		}
	}
}

func newRegistry() *Registry {
	settings := DefaultSettings()
	return NewRegistry(&settings)
}

// update changes the settings of a registry unless that breaks a rule.
func update(r *Registry, change func(*Settings)) (err error) {
	next := settings.Clone(*r.Settings())
	change(&next)
	next.Check(func(path string, fault say.Sentence) { err = errors.Join(err, errors.New(path+" "+fault.String())) })
	if err == nil {
		r.Configure(&next)
	}
	return err
}

func expose(t testing.TB, r *Registry, w State) *Exposition {
	t.Helper()
	e, err := NewExposition(Options{Registry: r, State: w.tell, Families: []Family{
		{Name: "model_router_process_state", Dotted: "model.router.process.state", Help: "help", Labels: []string{"process", "state"}, Kind: KindGauge, Category: CategoryCustom},
	}, Build: Build{"1.0", "abc", "1.26"}, Failed: func() { t.Error("some series could not be gathered") }})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// scrapeText returns a scrape as text, after it was parsed again.
func scrapeText(t testing.TB, e *Exposition) (string, map[string]*dto.MetricFamily) {
	t.Helper()
	all, err := e.Scrape()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range all {
		if err := encoder.Encode(f); err != nil {
			t.Fatal(err)
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	parsed, err := parser.TextToMetricFamilies(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	return out.String(), parsed
}

func TestEveryFamilyIsThereAtZero(t *testing.T) {
	text, parsed := scrapeText(t, expose(t, newRegistry(), someState(1)))
	for _, f := range families {
		got := parsed[f.Name]
		if got == nil {
			t.Errorf("%s is missing", f.Name)
			continue
		}
		if got.GetHelp() != f.Help || !strings.EqualFold(got.GetType().String(), f.Kind.String()) {
			t.Errorf("%s is a %v: %s", f.Name, got.GetType(), got.GetHelp())
		}
	}
	for _, line := range []string{
		`model_router_requests_total{instance="m@gpu0:8000",service="chat",status="success"} 0`,
		`model_router_requests_total{instance="m@gpu0:8000",service="chat",status="error"} 0`,
		`model_router_requests_total{instance="m@gpu0:8000",service="chat",status="timeout"} 0`,
		`model_router_requests_total{instance="m@gpu0:8000",service="chat",status="circuit_breaker"} 0`,
		`model_router_requests_total{instance="none",service="chat",status="error"} 0`,
		`model_router_requests_total{instance="none",service="chat",status="circuit_breaker"} 0`,
		`model_router_request_duration_seconds_bucket{instance="m@gpu0:8000",service="chat",le="0.005"} 0`,
		`model_router_request_duration_seconds_bucket{instance="m@gpu0:8000",service="chat",le="120"} 0`,
		`model_router_request_duration_seconds_bucket{instance="m@gpu0:8000",service="chat",le="+Inf"} 0`,
		`model_router_circuit_breaker_state{instance="m@gpu0:8000",service="chat"} 0`,
		`model_router_rate_limit_remaining{service="chat"} 7`,
		`model_router_rate_limit_remaining{client_ip="192.0.2.1",service="tts"} 3`,
		`model_router_load_balancer_weight{instance="m@gpu0:8000",service="chat"} 1`,
		`model_router_rejected_requests_total{reason="rate_limit",service="chat"} 0`,
		`model_router_fleet_queue_seconds{instance="m@gpu0:8000",service="chat"} 1.5`,
		`model_router_fleet_calls{instance="m@gpu0:8000",service="chat",stage="waiting"} 2`,
		`model_router_fleet_calls{instance="m@gpu0:8000",service="chat",stage="decoding"} 3`,
		`model_router_fleet_calls{instance="m@gpu0:8000",service="chat",stage="others"} 1`,
		`model_router_fleet_cached_bytes{instance="m@gpu0:8000",service="chat"} 4096`,
		`model_router_fleet_hit_ratio{instance="m@gpu0:8000",service="chat"} 0.25`,
		`model_router_fleet_prompt_token_seconds{instance="m@gpu0:8000",service="chat"} 0.001`,
		`model_router_fleet_trust 0.5`,
		`model_router_process_state{process="qwen",state="ready"} 1`,
		`model_router_process_state{process="qwen",state="failed"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

func TestPromtoolAgrees(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	text, _ := scrapeText(t, expose(t, newRegistry(), someState(2)))
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestChangesOfTheSettingsLoseNoCount(t *testing.T) {
	r := newRegistry()
	state := someState(1)
	e := expose(t, r, state)
	count := func() {
		r.Count(state.Instances[0].Series, &Request{Service: schema.Chat, Duration: time.Second})
	}
	has := func(line string, want bool) {
		t.Helper()
		if text, _ := scrapeText(t, e); strings.Contains(text, line+"\n") != want {
			t.Errorf("%q is there: %v", line, !want)
		}
	}
	change := func(change func(*Settings)) {
		t.Helper()
		if err := update(r, change); err != nil {
			t.Fatal(err)
		}
	}
	count()
	has(`model_router_requests_total{instance="m@gpu0:8000",service="chat",status="success"} 1`, true)
	change(func(s *Settings) { s.Prefix = "acme" })
	count()
	has(`acme_requests_total{instance="m@gpu0:8000",service="chat",status="success"} 2`, true)
	has(`# TYPE model_router_requests_total counter`, false)
	change(func(s *Settings) { s.CustomTags = map[string]string{"env": "pro\"d", "team": "9"} })
	count()
	has(`acme_requests_total{env="pro\"d",instance="m@gpu0:8000",service="chat",status="success",team="9"} 3`, true)
	has(`acme_build_info{commit="abc",env="pro\"d",go_version="1.26",team="9",version="1.0"} 1`, true)
	change(func(s *Settings) { s.EnabledCategories = []Category{CategorySystem} })
	count()
	has(`# TYPE acme_requests_total counter`, false)
	has(`# TYPE go_goroutines gauge`, true)
	change(func(s *Settings) {
		s.EnabledCategories, s.CustomTags, s.Prefix = []Category{CategoryRequest}, nil, "model_router"
	})
	has(`# TYPE go_goroutines gauge`, false)
	has(`# TYPE model_router_circuit_breaker_state gauge`, false)
	has(`model_router_requests_total{instance="m@gpu0:8000",service="chat",status="success"} 4`, true)
	change(func(s *Settings) { s.Enabled = false })
	if text, _ := scrapeText(t, e); text != "" {
		t.Errorf("switched off it shows %s", text)
	}
	count() // is not counted: nothing is recorded
	change(func(s *Settings) { s.Enabled = true })
	has(`model_router_requests_total{instance="m@gpu0:8000",service="chat",status="success"} 4`, true)
	if err := update(r, func(s *Settings) { s.Prefix = "9" }); err == nil || r.Settings().Prefix != "model_router" {
		t.Errorf("a bad prefix was taken: %v", err)
	}
	change(func(s *Settings) { s.EnabledCategories, s.Prefix = Categories(), "go" })
	scrapeText(t, e) // names that collide must not break the scrape
}

func TestInstancesOfOneAddressAreOneSeries(t *testing.T) {
	r := newRegistry()
	state := someState(1)
	twin := state.Instances[0]
	twin.Series, twin.Breaker = NewInstance(), 1
	twin.Engine = &EngineView{Queue: 3, Waiting: 1, Calls: 12, HitRate: 0.75, PerToken: 0.0001}
	state.Instances = append(state.Instances, twin)
	for _, i := range state.Instances {
		r.Count(i.Series, &Request{Service: schema.Chat, Duration: 3 * time.Second, Usage: schema.Usage{Prompt: 2, Cached: 1, Completion: 3, Total: 5, Known: true}, Estimate: 1.4})
	}
	text, _ := scrapeText(t, expose(t, r, state))
	for _, line := range []string{
		`model_router_requests_total{instance="m@gpu0:8000",service="chat",status="success"} 2`,
		`model_router_request_duration_seconds_bucket{instance="m@gpu0:8000",service="chat",le="5"} 2`,
		`model_router_request_duration_seconds_bucket{instance="m@gpu0:8000",service="chat",le="2.5"} 0`,
		`model_router_request_duration_seconds_sum{instance="m@gpu0:8000",service="chat"} 6`,
		`model_router_request_duration_seconds_max{instance="m@gpu0:8000",service="chat"} 3`,
		`model_router_tokens_total{direction="input",instance="m@gpu0:8000",service="chat"} 4`,
		`model_router_tokens_total{direction="output",instance="m@gpu0:8000",service="chat"} 6`,
		`model_router_circuit_breaker_state{instance="m@gpu0:8000",service="chat"} 1`,
		`model_router_cached_prompt_tokens_total{instance="m@gpu0:8000",service="chat"} 2`,
		`model_router_first_token_estimate_ratio_bucket{instance="m@gpu0:8000",service="chat",le="1.25"} 0`,
		`model_router_first_token_estimate_ratio_bucket{instance="m@gpu0:8000",service="chat",le="1.5"} 2`,
		`model_router_fleet_queue_seconds{instance="m@gpu0:8000",service="chat"} 3`,
		`model_router_fleet_calls{instance="m@gpu0:8000",service="chat",stage="waiting"} 3`,
		`model_router_fleet_hit_ratio{instance="m@gpu0:8000",service="chat"} 0.625`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// openMetrics returns a scrape in that format.
func openMetrics(t *testing.T, e *Exposition) string {
	t.Helper()
	all, err := e.Scrape()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeOpenMetrics))
	for _, f := range all {
		if err := encoder.Encode(f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// OpenMetrics names a counter without its ending, so names that differ in text
// can be the same there.
func TestNamesAreUniqueInOpenMetrics(t *testing.T) {
	for _, prefix := range []string{defaultPrefix, "go", "process", "jvm"} {
		r := newRegistry()
		if err := update(r, func(s *Settings) { s.Prefix = prefix }); err != nil {
			t.Fatal(err)
		}
		text := openMetrics(t, expose(t, r, someState(1)))
		kinds, samples := map[string]string{}, map[string]string{}
		family := ""
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
				name, kind, _ := strings.Cut(strings.TrimSpace(rest), " ")
				if before, twice := kinds[name]; twice {
					t.Errorf("prefix %s: %s is a %s and a %s", prefix, name, before, kind)
				}
				family, kinds[name] = name, kind
				continue
			}
			if strings.HasPrefix(line, "#") {
				continue
			}
			name := line[:strings.IndexAny(line, "{ ")]
			if owner, known := samples[name]; known && owner != family {
				t.Errorf("prefix %s: %s is a sample of %s and of %s", prefix, name, owner, family)
			}
			samples[name] = family
		}
		if kinds["go_memstats_alloc_bytes"] != "counter" || kinds["go_memstats_heap_alloc_bytes"] != "gauge" {
			t.Errorf("prefix %s: the allocations are a %q, the allocated bytes a %q",
				prefix, kinds["go_memstats_alloc_bytes"], kinds["go_memstats_heap_alloc_bytes"])
		}
		if len(kinds) < len(families) {
			t.Errorf("prefix %s: only %d families", prefix, len(kinds))
		}
	}
}

// What was counted is shown also when the service type is configured no longer;
// where its limits stand is not.
func TestServicesThatAreNotConfiguredAreCounted(t *testing.T) {
	r := newRegistry()
	r.Count(nil, &Request{Service: schema.Rerank, Duration: time.Second, Result: schema.ResultFailed})
	r.Count(nil, &Request{Service: schema.Rerank, Result: schema.ResultInvalid})
	r.Shed(schema.Rerank, ShedOverload)
	text, _ := scrapeText(t, expose(t, r, State{}))
	for _, line := range []string{
		`model_router_requests_total{instance="none",service="rerank",status="error"} 1`,
		`model_router_request_duration_seconds_count{instance="none",service="rerank"} 1`,
		`model_router_rejected_requests_total{reason="invalid_request",service="rerank"} 1`,
		`model_router_shed_requests_total{reason="overload",service="rerank"} 1`,
		`model_router_requests_total{instance="none",service="embedding",status="error"} 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

func TestLongestTimesAreKept(t *testing.T) {
	runtime.GC()
	r := newRegistry()
	waited := Request{Service: schema.Chat, Queued: 2 * time.Second, Duration: 3 * time.Second, Overhead: time.Second}
	r.Count(nil, &waited)
	inVain := Request{Service: schema.Chat, Queued: 7 * time.Second, Duration: 7 * time.Second, Result: schema.ResultNoSlot}
	r.Count(nil, &inVain)
	text, parsed := scrapeText(t, expose(t, r, someState(1)))
	for _, line := range []string{
		`model_router_queue_wait_seconds_count{service="chat"} 2`, // also who waited in vain has waited
		`model_router_queue_wait_seconds_sum{service="chat"} 9`,
		`model_router_queue_wait_seconds_max{service="chat"} 7`,
		`model_router_gateway_overhead_seconds_max{service="chat"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	pauses := parsed["jvm_gc_pause_seconds"].Metric[0].GetSummary()
	longest := parsed["jvm_gc_pause_seconds_max"].Metric[0].GetGauge().GetValue()
	if longest <= 0 || longest > pauses.GetSampleSum() {
		t.Errorf("the longest pause is %v, all of them together %v", longest, pauses.GetSampleSum())
	}
}

// A tag of the name of a label would say the wrong thing on some series.
func TestTagsCannotTakeTheNameOfALabel(t *testing.T) {
	all, err := expose(t, newRegistry(), someState(1)).Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"le": true, "quantile": true}
	for _, f := range all {
		for _, m := range f.Metric {
			for _, label := range m.Label {
				names[label.GetName()] = true
			}
		}
	}
	for _, built := range []string{"version", "commit", "go_version"} { // those of what was built
		delete(names, built)
		r := newRegistry()
		if err := update(r, func(s *Settings) { s.CustomTags = map[string]string{built: "x"} }); err != nil {
			t.Errorf("the tag %s: %v", built, err)
		}
		tagged, err := expose(t, r, someState(1)).Scrape()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range tagged {
			for _, m := range f.Metric {
				if n := countLabels(m, built); n != 1 {
					t.Errorf("%s has %d labels %s", f.GetName(), n, built)
				}
			}
		}
	}
	for _, name := range []string{"direction", "client_ip", "uri", "outcome", "store", "area"} {
		if !names[name] {
			t.Errorf("no series has a label %s", name)
		}
	}
	for name := range names {
		r := newRegistry()
		if err := update(r, func(s *Settings) { s.CustomTags = map[string]string{name: "x"} }); err == nil {
			t.Errorf("the tag %s was accepted", name)
		}
	}
}

func countLabels(m *dto.Metric, name string) (n int) {
	for _, label := range m.Label {
		if label.GetName() == name {
			n++
		}
	}
	return n
}

// Outcomes agree with the statuses of requests_total; who left is neither.
func TestOutcomesFollowTheStatuses(t *testing.T) {
	r, i := newRegistry(), NewInstance()
	for _, c := range []Request{
		{Result: schema.ResultSuccess}, {Result: schema.ResultSuccess}, {Result: schema.ResultFailed}, {Result: schema.ResultTimedOut},
		{Result: schema.ResultSuccess, Cancelled: true}, {Result: schema.ResultFailed, Cancelled: true},
	} {
		r.Count(i, &c)
	}
	i.Failovers.Add(3)
	if good, bad := i.Outcomes(); good != 2 || bad != 5 {
		t.Errorf("%d went well, %d badly", good, bad)
	}
	if n := i.cancelledRequests(); n != 2 {
		t.Errorf("%d clients left", n)
	}
}

func BenchmarkScrape200Instances(b *testing.B) {
	e := expose(b, newRegistry(), someState(200))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Scrape(); err != nil {
			b.Fatal(err)
		}
	}
}

// Instances that no strategy looks at have nothing of the fleet in the scrape.
func TestOnlyTheFleetHasSeriesOfTheFleet(t *testing.T) {
	state := someState(1)
	state.Instances[0].Engine = nil
	_, parsed := scrapeText(t, expose(t, newRegistry(), state))
	for _, name := range []string{"first_token_estimate_ratio", "fleet_queue_seconds", "fleet_calls", "fleet_cached_bytes", "fleet_hit_ratio", "fleet_prompt_token_seconds"} {
		if parsed["model_router_"+name] != nil {
			t.Errorf("there is a series of %s", name)
		}
	}
}

// Costs beyond what can be counted stay at the greatest number: a counter does not fall.
func TestCostsDoNotOverflow(t *testing.T) {
	var c Counter
	for range 3 {
		c.AddUpTo(math.MaxInt64 - 1)
	}
	if c.Value() != math.MaxInt64 {
		t.Errorf("%d", c.Value())
	}
}
