package fleettest

import (
	"math"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// Figures are the measures of a run. Times are seconds to the first token.
type Figures struct {
	Requests, Failed, Cut int
	Hit                   float64 // share of all tokens of prompts that came from caches
	Mean, P50, P90, P99   float64
	Answer                float64 // the mean of the seconds to the whole answer
	Learned               float64 // the mean to the first token of requests after the first five minutes
	Soon                  float64 // share of requests with a first token within two seconds
	Busiest               float64 // the busiest engine beside the mean
	Loads                 int     // models that were loaded
	EstimateError         float64 // the median of |estimate - truth| / truth; NaN without estimates
}

// Learning is how many seconds policies have to learn the speeds of engines.
const Learning = 300.0

// soon is the time limit for a good first token.
const soon = 2.0

// Summarize returns the figures of these times to the first token and of the number of
// failed requests.
func Summarize(times []float64, failed int) Figures {
	f := Figures{Requests: len(times), Failed: failed, EstimateError: math.NaN()}
	slices.Sort(times)
	for _, t := range times {
		f.Mean += t / float64(len(times))
		if t <= soon {
			f.Soon += 1 / float64(len(times)+failed)
		}
	}
	f.P50, f.P90, f.P99 = quantile(times, .5), quantile(times, .9), quantile(times, .99)
	return f
}

func (s *simulation) figures() Figures {
	var times, errors, learned []float64
	var cached, tokens, answers, whole float64
	for _, r := range s.finished {
		cached += float64(r.Cached)
		tokens += float64(r.Tokens)
		times = append(times, r.first)
		if r.At >= Learning {
			learned = append(learned, r.first)
		}
		if !math.IsNaN(r.whole) {
			whole, answers = whole+r.whole, answers+1
		}
		if !math.IsNaN(r.expects) && r.first > 0 {
			errors = append(errors, math.Abs(r.expects-r.first)/r.first)
		}
	}
	f := Summarize(times, s.failed)
	var busy, busiest float64
	for _, e := range s.engines {
		f.Cut += e.cut
		f.Loads += e.Loads
		busy += e.Prefill
		busiest = max(busiest, e.Prefill)
	}
	f.Hit, f.Answer, f.Learned = cached/tokens, whole/answers, Summarize(learned, 0).Mean
	f.Busiest = busiest * float64(len(s.engines)) / busy
	slices.Sort(errors)
	f.EstimateError = quantile(errors, .5)
	return f
}

func quantile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// Bound returns the share of tokens that one endless cache for all engines would save.
func Bound(requests []*Request, block int, until float64) float64 {
	hit, total := engine.Bound(func(yield func(int, []uint64) bool) {
		for _, r := range requests {
			for ; r != nil && (until == 0 || r.At < until); r = r.Next {
				if !yield(r.Tokens, r.Blocks) {
					return
				}
			}
		}
	}, block)
	return float64(hit) / float64(total)
}
