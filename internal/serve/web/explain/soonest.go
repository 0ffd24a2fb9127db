package explain

import (
	"math"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
)

// viewEstimate returns the estimate for an instance, nil if there is none.
func viewEstimate(expected []balance.Expected, of *backend.Instance) *estimateView {
	for _, e := range expected {
		if e.Instance == of {
			return &estimateView{
				ExpectedMs: milliseconds(e.Expected), QueueMs: milliseconds(e.Queue),
				PrefillMs: milliseconds(e.Prefill), LoadMs: milliseconds(e.Load), AnswerMs: milliseconds(e.Answer),
				Matched: math.Round(e.Matched*1000) / 1000, AvoidableMs: milliseconds(e.Avoidable),
				CostMs: milliseconds(e.Cost),
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

// whySoonest says why the first of the instances wins.
func whySoonest(expected []balance.Expected) []say.Sentence {
	first := expected[0]
	said := []say.Sentence{say.New("explain.soonest", "time", duration(first.Expected))}
	if len(expected) == 1 {
		return append(said, say.New("explain.alone"))
	}
	next := expected[1]
	queues := []any{"time", duration(first.Queue), "other", duration(next.Queue)}
	switch {
	case next.Cost-first.Cost < leastSeconds:
		return append(said, say.New("explain.turns"))
	case first.Load < next.Load-leastSeconds:
		return append(said, say.New("explain.load", "time", duration(next.Load)))
	case first.Matched > next.Matched+leastMatched:
		said = append(said,
			say.New("explain.cached", "share", math.Round(100*first.Matched), "other", math.Round(100*next.Matched)))
		if first.Queue > next.Queue+leastSeconds { // and the longer queue is worth the wait
			said = append(said, say.New("explain.worth", queues...))
		}
		return said
	case first.Queue < next.Queue-leastSeconds:
		return append(said, say.New("explain.queue", queues...))
	case first.Prefill < next.Prefill-leastSeconds:
		return append(said, say.New("explain.faster"))
	}
	return append(said, say.New("explain.weight"))
}

// duration returns seconds as people read them.
func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}
