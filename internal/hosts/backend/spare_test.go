package backend_test

import (
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func spareInstance(t *testing.T, edit func(*backend.Settings)) *backend.Instance {
	t.Helper()
	settings := backend.DefaultSettings()
	settings.Name, settings.BaseURL, settings.Adapter = "m", "http://gpu.test", "vllm"
	edit(&settings)
	i, err := backend.New(settings, schema.Chat, backend.Policy{Breaker: breaker.DefaultSettings(), Limit: ratelimit.DefaultSettings()}, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	i.Activate(time.Now())
	return i
}

func TestSettingsOfSlotsForBatches(t *testing.T) {
	t.Parallel()
	number := func(n int) *int { return &n }
	for _, c := range []struct {
		max   backend.Concurrency
		batch *int
		slots int
		fault string
	}{
		{0, nil, 2, ""}, {8, nil, 2, ""}, {1, nil, 1, ""}, {0, number(0), 0, ""}, {0, number(500), 500, ""},
		{8, number(8), 8, ""}, {8, number(9), 8, "must not be more than maxConcurrency, which is 8"},
		{0, number(-1), -1, "must not be negative; 0 is for no lines of batches"},
		{backend.AutoConcurrency, number(9), 2, ""}, // it begins with 2
	} {
		i := spareInstance(t, func(s *backend.Settings) { s.MaxConcurrency, s.BatchConcurrency = c.max, c.batch })
		if got := i.SpareSlots(); got != c.slots {
			t.Errorf("%+v: %d slots", c, got)
		}
		var faults []string
		i.Settings.Check(func(path string, fault say.Sentence) {
			if path == "batchConcurrency" {
				faults = append(faults, fault.String())
			}
		})
		if c.fault == "" && faults != nil || c.fault != "" && !slices.Equal(faults, []string{c.fault}) {
			t.Errorf("%+v: %q", c, faults)
		}
	}
	// The last release does not know the setting, and is not shown it where it is not set.
	if stored, err := json.Marshal(backend.DefaultSettings()); err != nil || slices.Contains(membersOf(t, stored), "batchConcurrency") {
		t.Errorf("%s, %v", stored, err)
	}
}

func membersOf(t *testing.T, object []byte) (names []string) {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(object, &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		names = append(names, name)
	}
	return names
}

// With least_time a line comes only where a new request would find nothing before it, so that
// it finds at most one line.
func TestLinesOfBatchesLeaveAnEngineAloneThatHasWork(t *testing.T) {
	t.Parallel()
	i := spareInstance(t, func(*backend.Settings) {})
	now := time.Now()
	f := fleet.New(fleet.Options{}, now)
	i.Join(f)
	if o := i.SpareObstacle(now); o != backend.NoObstacle {
		t.Fatalf("an idle engine: %v", o)
	}
	prompt := f.Borrow("")
	call := f.Choose([]*fleet.Instance{i.Engine()}, &fleet.Ask{Prompt: prompt, Tokens: 1000}, now)
	f.Return(prompt)
	if i.SpareObstacle(now) != backend.NoSlot || i.Obstacle(now) != backend.NoObstacle {
		t.Errorf("an engine that works on a prompt: %v, for others %v", i.SpareObstacle(now), i.Obstacle(now))
	}
	call.First(now.Add(time.Second))
	if o := i.SpareObstacle(now.Add(time.Second)); o != backend.NoObstacle {
		t.Errorf("an engine that writes an answer: %v", o)
	}
	call.End(fleet.Answer{PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}, now.Add(2*time.Second))
}
