package live

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// peers configures instances of one model on the hosts gpu1, gpu2 and so on.
func (r *rig) peers(n int) {
	r.t.Helper()
	chat := r.doc.Services[schema.Chat]
	chat.Instances = nil
	for i := range n {
		one := backend.DefaultSettings()
		one.Name, one.BaseURL = "llama", fmt.Sprintf("http://gpu%d:8000", i+1)
		chat.Instances = append(chat.Instances, one)
	}
	r.doc.Services[schema.Chat] = chat
	table, err := routing.Compile(r.doc.Routed(), r.current.Load(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.current.Store(table)
}

// at counts a call at an instance.
func (r *rig) at(gpu int, call metrics.Request) {
	call.Service, call.Result, call.Overhead = schema.Chat, schema.ResultSuccess, -1
	r.registry.Count(r.current.Load().Service(schema.Chat).Find("llama").Instances[gpu-1].Series, &call)
}

// said returns what is said of slow instances now.
func (r *rig) said() string {
	var all []string
	for _, one := range r.Slow(r.now) {
		all = append(all, one.Text)
	}
	return strings.Join(all, "\n")
}

func tokens(prompt, cached, completion int64) schema.Usage {
	return schema.Usage{Known: true, Prompt: prompt, Cached: cached, Completion: completion}
}

func TestAnInstanceFarSlowerThanItsPeersIsNamedWithWhatIsKnownOfWhy(t *testing.T) {
	t.Parallel()
	fast := metrics.Request{Duration: 60 * time.Millisecond, Usage: tokens(100, 80, 10)}
	stream := metrics.Request{Duration: time.Second, FirstToken: 100 * time.Millisecond, PerToken: 10 * time.Millisecond, Usage: tokens(100, 80, 90)}
	for name, test := range map[string]struct {
		first, second, third metrics.Request
		want                 string
	}{
		"all alike": {fast, fast, fast, ""},
		"a slow one": {fast, fast, metrics.Request{Duration: 1505 * time.Millisecond, Usage: tokens(100, 80, 10)},
			"llama at gpu3:8000 takes 1.53 s for a call, 26 times as long as at gpu1:8000 (58.8 ms; 6 calls): prompts, caches and queues as far as they are known do not explain it; look at the host"},
		"longer prompts": {fast, fast, metrics.Request{Duration: 300 * time.Millisecond, Usage: tokens(900, 720, 10)},
			"its prompts have 900 tokens, those of the other one 100"},
		"fewer cached tokens": {fast, fast, metrics.Request{Duration: 300 * time.Millisecond, Usage: tokens(100, 10, 10)},
			"10 % of the tokens of its prompts come from its cache, 80 % at the other one"},
		"longer answers":    {fast, fast, metrics.Request{Duration: 600 * time.Millisecond, Usage: tokens(100, 80, 100)}, ""},
		"not worth a word":  {metrics.Request{Duration: time.Millisecond}, metrics.Request{Duration: time.Millisecond}, metrics.Request{Duration: 5 * time.Millisecond}, ""},
		"not its own fault": {fast, fast, metrics.Request{Duration: 10060 * time.Millisecond, Picked: 10 * time.Second, Usage: tokens(100, 80, 10)}, ""},
		"slower decode": {stream, stream, metrics.Request{Duration: 4 * time.Second, FirstToken: 110 * time.Millisecond, PerToken: 43 * time.Millisecond, Usage: tokens(100, 80, 90)},
			"llama at gpu3:8000 takes 42.5 ms for an output token, 4.3 times as long as at gpu1:8000 (9.88 ms; 6 calls)"},
		"a late first token": {stream, stream, metrics.Request{Duration: 4 * time.Second, FirstToken: time.Second, PerToken: 30 * time.Millisecond, Usage: tokens(100, 80, 90)},
			"takes 988 ms to the first token, 10 times as long as at gpu1:8000 (98.8 ms; 6 calls): it takes 29.5 ms for an output token, the other one 9.88 ms"},
		"a stream with a longer answer": {stream, stream, metrics.Request{Duration: 9 * time.Second, FirstToken: 100 * time.Millisecond, PerToken: 10 * time.Millisecond, Usage: tokens(100, 80, 90)}, ""},
		"loading": {stream, stream, metrics.Request{Duration: 9 * time.Second, FirstToken: 8 * time.Second, PerToken: 10 * time.Millisecond, Held: 2 * time.Second, Usage: tokens(100, 80, 90)},
			"calls waited 12 s in all for the model to load"},
	} {
		r := newRig(t)
		r.peers(3)
		for range 6 {
			r.at(1, test.first)
			r.at(2, test.second)
			r.at(3, test.third)
		}
		r.pass(slowEvery)
		if got := r.said(); test.want == "" && got != "" || !strings.Contains(got, test.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, not %q", name, got, test.want)
		}
	}
}

// An engine that becomes slow is found within ten seconds, since then, and until it is as fast as
// the others again.
func TestASlowInstanceIsFoundSoonAndForgottenWhenItIsFastAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.peers(2)
	second := func(slow time.Duration) {
		for range 2 {
			r.at(1, metrics.Request{Duration: 100 * time.Millisecond})
			r.at(2, metrics.Request{Duration: slow})
		}
		r.pass(1)
	}
	for range 300 {
		second(110 * time.Millisecond)
	}
	if r.said() != "" {
		t.Fatalf("before: %s", r.said())
	}
	began := r.now
	for range 10 {
		second(time.Second)
	}
	found := r.Slow(r.now)
	if len(found) != 1 || found[0].InstanceID != "llama@http://gpu2:8000" || found[0].Since.Before(began) || found[0].Since.After(r.now) {
		t.Fatalf("after ten seconds: %+v", found)
	}
	for range 20 {
		second(180 * time.Millisecond) // nearly
	}
	if again := r.Slow(r.now); len(again) != 1 || again[0].Since != found[0].Since {
		t.Errorf("where it is nearly as fast: %+v", again)
	}
	for range 20 {
		second(110 * time.Millisecond)
	}
	if r.said() != "" {
		t.Errorf("where it is fast: %s", r.said())
	}
	for range 10 {
		second(time.Second)
	}
	r.peers(1)
	if r.said() != "" {
		t.Errorf("without the peer: %s", r.said())
	}
}

// Two slow ones of three are both slow: each is compared with the faster one of the others.
func TestTheFewFastPeersAreTheMeasure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.peers(3)
	for range fewest {
		r.at(1, metrics.Request{Duration: time.Second})
		r.at(2, metrics.Request{Duration: 50 * time.Millisecond})
		r.at(3, metrics.Request{Duration: time.Second})
	}
	r.at(2, metrics.Request{Duration: 60 * time.Millisecond})
	r.pass(slowEvery)
	if found := r.Slow(r.now); len(found) != 2 || found[0].InstanceID != "llama@http://gpu1:8000" || found[1].InstanceID != "llama@http://gpu3:8000" {
		t.Errorf("%+v", found)
	}
	for range fewest {
		r.at(1, metrics.Request{Duration: 40 * time.Millisecond}) // as often as not
	}
	r.pass(2 * slowEvery)
	if got := r.said(); strings.Contains(got, "gpu1:8000 takes") {
		t.Errorf("where some calls are fast: %s", got)
	}
}
