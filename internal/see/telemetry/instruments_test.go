package telemetry

import (
	"strconv"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// called returns the record of a call that two instances were asked for, of which the second
// answered.
func called(model string) calls.Record {
	started := time.Now()
	c := calls.Record{
		Started: started, Routed: true, Model: model, Streamed: true, Ended: 3 * time.Second, FirstToken: 250 * time.Millisecond,
		PerToken: 30 * time.Millisecond, Usage: schema.Usage{Prompt: 16, Completion: 17, Total: 33, Known: true},
	}
	c.Begin(model+"@http://gpu1:8000", "vllm", started)
	c.Fail("upstream_error", "", say.Plain(""))
	c.Try().Provider, c.Try().Ended = "vllm", 10*time.Millisecond
	c.Begin(model+"@http://gpu2:8000", "vllm", started.Add(20*time.Millisecond))
	c.Try().Provider, c.Try().Ended = "vllm", 2*time.Second
	return c
}

// points returns the measurements of a batch by the names of their instruments.
func points(batch ...calls.Record) map[string][]*metricspb.HistogramDataPoint {
	var m measurements
	m.note(batch)
	found := map[string][]*metricspb.HistogramDataPoint{}
	for _, metric := range m.metrics(time.Now(), time.Now()) {
		found[metric.Name] = metric.GetHistogram().DataPoints
	}
	return found
}

func valueOf(point *metricspb.HistogramDataPoint, key string) string {
	for _, a := range point.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func TestMeasurementsOfTheConventions(t *testing.T) {
	t.Parallel()
	found := points(called("m"), called("m"))
	if calls := found["gen_ai.client.operation.duration"]; len(calls) != 2 {
		t.Errorf("calls: %v", calls)
	} else {
		for _, point := range calls {
			isFailed := valueOf(point, "error.type") == "upstream_error"
			if point.Count != 2 || isFailed != (valueOf(point, "server.address") == "gpu1") || valueOf(point, "gen_ai.provider.name") != "vllm" {
				t.Errorf("a call: %v", point)
			}
		}
	}
	for name, want := range map[string]struct {
		sum    float64
		bucket int
	}{
		"gen_ai.server.request.duration":      {6, 9},
		"gen_ai.server.time_to_first_token":   {0.5, 8}, // a bound belongs to the bucket below it
		"gen_ai.server.time_per_output_token": {0.06, 2},
	} {
		if got := found[name]; len(got) != 1 || got[0].Count != 2 || got[0].GetSum() != want.sum || got[0].BucketCounts[want.bucket] != 2 ||
			valueOf(got[0], "gen_ai.operation.name") != "chat" || valueOf(got[0], "gen_ai.response.model") != "m" || valueOf(got[0], "error.type") != "" {
			t.Errorf("%s: %v", name, got)
		}
	}
	tokens := map[string]float64{}
	for _, point := range found["gen_ai.client.token.usage"] {
		tokens[valueOf(point, "gen_ai.token.type")] = point.GetSum()
	}
	if len(tokens) != 2 || tokens["input"] != 32 || tokens["output"] != 34 {
		t.Errorf("tokens: %v", tokens)
	}
}

func TestWhatWasNotAnsweredHasNoTokens(t *testing.T) {
	t.Parallel()
	failed := called("m")
	failed.Code = "upstream_error"
	refused := called("m")
	refused.Routed = false
	found := points(failed, refused)
	if got := found["gen_ai.server.request.duration"]; len(got) != 1 || got[0].Count != 1 || valueOf(got[0], "error.type") != "upstream_error" {
		t.Errorf("%v", got)
	}
	for _, name := range []string{"gen_ai.client.token.usage", "gen_ai.server.time_to_first_token", "gen_ai.server.time_per_output_token"} {
		if found[name] != nil {
			t.Errorf("%s: %v", name, found[name])
		}
	}
	kept := calls.Record{Routed: true, Model: "m", Ended: time.Second, Usage: schema.Usage{Total: 1, Known: true}} // the cache of answers has it
	found = points(kept)
	if got := found["gen_ai.server.request.duration"]; len(got) != 1 || valueOf(got[0], "gen_ai.provider.name") != "patchbay" || found["gen_ai.client.token.usage"] != nil {
		t.Errorf("%v", found)
	}
}

func TestMeasurementsAreBounded(t *testing.T) {
	t.Parallel()
	var m measurements
	for i := range maxSeries {
		m.note([]calls.Record{called(strconv.Itoa(i))})
	}
	if len(m.series) != maxSeries {
		t.Errorf("%d series", len(m.series))
	}
}

func TestAttributesOfSpans(t *testing.T) {
	t.Parallel()
	c := called("m")
	c.Asked, c.User, c.Session, c.Conversation = "an-alias", "ann", "s-1", "conv_1"
	c.Door, c.Route = schema.DoorCompletions, "/v1/completions"
	c.Usage.Cached, c.Usage.IsCachedTold = 9, true
	spans := new(Exporter).callSpans(&c)
	texts, numbers := map[string]string{}, map[string]int64{}
	for _, a := range spans[0].Attributes {
		texts[a.Key], numbers[a.Key] = a.Value.GetStringValue(), a.Value.GetIntValue()
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": "text_completion", "gen_ai.request.model": "an-alias", "gen_ai.response.model": "m", "gen_ai.provider.name": "vllm",
		"user.id": "ann", "session.id": "s-1", "gen_ai.conversation.id": "conv_1", "http.route": "/v1/completions",
	} {
		if texts[key] != want {
			t.Errorf("%s is %q, want %q", key, texts[key], want)
		}
	}
	if numbers["gen_ai.usage.cache_read.input_tokens"] != 9 || spans[0].Name != "POST /v1/completions" {
		t.Errorf("%v", spans[0])
	}
	c = called("m")
	for _, a := range new(Exporter).callSpans(&c)[0].Attributes {
		switch a.Key {
		case "user.id", "session.id", "gen_ai.conversation.id", "gen_ai.usage.cache_read.input_tokens":
			t.Errorf("%s is there although nobody said it", a.Key)
		}
	}
}
