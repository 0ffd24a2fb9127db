package engine_test

import (
	"math"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// TestForeseenCourseComesTrue compares the foreseen course of the last of some requests with
// its real one, on engines whose speed depends on lengths, batches and slots.
func TestForeseenCourseComesTrue(t *testing.T) {
	attentive, slotted, dragged := spec, spec, spec
	attentive.Attend = 0.001
	slotted.Slots = 1
	dragged.Drag, dragged.Crowd = 0.5, 0.5
	for name, spec := range map[string]engine.Spec{
		"plain": spec, "by context": attentive, "with one slot": slotted, "slower beside others": dragged,
	} {
		e := engine.New(spec)
		jobs := []*engine.Job{job(100, 1, 2), job(300, 1, 2, 3), job(50, 7), job(200, 1, 2, 4)}
		for n, outputs := range []int{20, 4, 100, 3} {
			jobs[n].Outputs = outputs
		}
		ends := map[*engine.Job]float64{}
		for _, j := range jobs[:3] {
			e.Add(j, 0)
		}
		step(e, ends, 1.5)
		last := jobs[3]
		foreseen := e.Foresee(last, 1.5)
		if took := e.Reads(last, foreseen, foreseen.Cached); math.Abs(foreseen.First-foreseen.Starts-took) > 1e-9 {
			t.Errorf("%s: its prefill takes %g, and by itself %g", name, foreseen.First-foreseen.Starts, took)
		}
		e.Add(last, 1.5)
		first := step(e, ends, math.Inf(1))[last] - 1.5
		if math.Abs(first-foreseen.First) > 1e-9 || last.Cached != foreseen.Cached {
			t.Errorf("%s: its first token came after %g with %d tokens cached, foreseen were %g and %d",
				name, first, last.Cached, foreseen.First, foreseen.Cached)
		}
		if ended := ends[last] - 1.5; math.Abs(ended-foreseen.Ends) > 1e-9 {
			t.Errorf("%s: its answer took %g, foreseen were %g", name, ended, foreseen.Ends)
		}
	}
}

// step lets an engine work until a time, and returns when first tokens came. Answers take the pace
// of their first token.
func step(e *engine.Engine, ends map[*engine.Job]float64, until float64) map[*engine.Job]float64 {
	firsts := map[*engine.Job]float64{}
	for {
		next, at := e.Next()
		var ending *engine.Job
		for j, end := range ends {
			if isOpen := j.Outputs > 0; isOpen && (next == nil || end <= at) && (ending == nil || end < ends[ending]) {
				ending = j
			}
		}
		switch {
		case ending != nil && ends[ending] <= until:
			e.End(ending, ending.Outputs, ends[ending])
			ending.Outputs = 0
		case next != nil && ending == nil && at <= until:
			j := e.First()
			firsts[j], ends[j] = at, at+float64(j.Outputs)*e.Pace()
		default:
			return firsts
		}
	}
}
