package explain

import (
	"fmt"
	"math"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/balance"
)

// viewEstimate returns what is expected of an instance, nil for nothing.
func viewEstimate(expected []balance.Expected, of *backend.Instance) *estimateView {
	for _, e := range expected {
		if e.Instance == of {
			return &estimateView{
				ExpectedMs: milliseconds(e.Expected), QueueMs: milliseconds(e.Queue), PrefillMs: milliseconds(e.Prefill), LoadMs: milliseconds(e.Load),
				Matched: math.Round(e.Matched*1000) / 1000, AvoidableMs: milliseconds(e.Avoidable), CostMs: milliseconds(e.Cost),
			}
		}
	}
	return nil
}

// milliseconds returns seconds as milliseconds, in steps of a microsecond.
func milliseconds(seconds float64) float64 { return math.Round(seconds*1e6) / 1000 }

// The least differences that are named as the reason for a pick: less is noise.
const (
	leastSeconds = 0.001
	leastMatched = 0.01
)

// whySoonest says in one sentence why the first of the instances wins.
func whySoonest(expected []balance.Expected) string {
	first := expected[0]
	text := fmt.Sprintf("least_time would pick it now: its first token is expected after %v", duration(first.Expected))
	if len(expected) == 1 {
		return text + ", and no other instance is ready"
	}
	next := expected[1]
	switch {
	case next.Cost-first.Cost < leastSeconds:
		return text + ", and the next one costs as much, so that it is a matter of turns"
	case first.Load < next.Load-leastSeconds:
		return text + fmt.Sprintf("; the next one would have to load the model first (%v)", duration(next.Load))
	case first.Matched > next.Matched+leastMatched:
		return text + fmt.Sprintf("; %.0f %% of the prompt is in its cache, and %.0f %% in that of the next one%s", 100*first.Matched, 100*next.Matched, longerQueue(first, next))
	case first.Queue < next.Queue-leastSeconds:
		return text + fmt.Sprintf("; its queue is %v, and that of the next one %v", duration(first.Queue), duration(next.Queue))
	case first.Prefill < next.Prefill-leastSeconds:
		return text + "; it works on prompts faster than the next one"
	}
	return text + "; its weight is greater than that of the next one"
}

// longerQueue says that a queue is worth the wait, where it is the longer one.
func longerQueue(first, next balance.Expected) string {
	if first.Queue <= next.Queue+leastSeconds {
		return ""
	}
	return fmt.Sprintf(", which is worth a longer queue (%v, and %v there)", duration(first.Queue), duration(next.Queue))
}

// duration returns seconds as people read them.
func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
}
