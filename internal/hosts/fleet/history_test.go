package fleet

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestAnyHistoryKeepsTheBooks lets anything happen in any order: calls, faults, lies,
// messages of others, edits of the configuration, clocks that jump.
func TestAnyHistoryKeepsTheBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := New(Options{Secret: Secret{1}, Gateway: "f"}, second(0))
		h := &history{T: t, f: f, other: New(Options{Secret: Secret{1}, Gateway: "g"}, second(0))}
		for range rapid.IntRange(1, 4).Draw(t, "instances") {
			h.addInstance()
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			h.now += rapid.SampledFrom([]float64{0, 0.1, 1, 1, 1, 10, -5, 1e9, -1e9}).Draw(t, "time")
			h.step()
			h.check()
		}
	})
}

type history struct {
	*rapid.T
	f, other  *Fleet
	now       float64
	instances []*Instance
	calls     []*Call
	isWeighed bool
}

func (h *history) addInstance() {
	host := strconv.Itoa(rapid.IntRange(0, 3).Draw(h.T, "host"))
	model := rapid.SampledFrom([]string{"a", "b"}).Draw(h.T, "model")
	if i := h.f.Instance(host, model); !slices.Contains(h.instances, i) {
		h.instances = append(h.instances, i)
	}
	h.other.Instance(host, model)
}

func (h *history) instance() *Instance { return rapid.SampledFrom(h.instances).Draw(h.T, "instance") }

func (h *history) number(name string) float64 {
	return rapid.SampledFrom([]float64{0, 1, 5, 100, 1e5, 1e18, -1, math.NaN(), math.Inf(1)}).Draw(h.T, name)
}

func (h *history) ask() *Ask {
	p := NewPrompt(&Secret{1})
	for range rapid.IntRange(0, 3).Draw(h.T, "texts") {
		p.Text(textOf(rapid.IntRange(0, 3000).Draw(h.T, "size"), uint64(rapid.IntRange(0, 3).Draw(h.T, "text"))))
	}
	if rapid.Bool().Draw(h.T, "has hint") {
		p.Hint(strconv.Itoa(rapid.IntRange(0, 3).Draw(h.T, "hint")))
	}
	return &Ask{Prompt: p, Tokens: h.number("tokens"), Whole: rapid.Bool().Draw(h.T, "whole")}
}

func (h *history) step() {
	now := second(h.now)
	switch rapid.IntRange(0, 13).Draw(h.T, "what") {
	default:
		h.choose(h.f)
	case 0, 1:
		if len(h.calls) > 0 {
			rapid.SampledFrom(h.calls).Draw(h.T, "call").First(now)
		}
	case 2, 3:
		if len(h.calls) > 0 {
			n := rapid.IntRange(0, len(h.calls)-1).Draw(h.T, "call")
			whole := rapid.IntRange(-1, 3000)
			h.calls[n].End(Answer{PromptTokens: whole.Draw(h.T, "prompt"), CachedTokens: whole.Draw(h.T, "cached"), OutputTokens: whole.Draw(h.T, "outputs")}, now)
			h.calls = slices.Delete(h.calls, n, n+1)
		}
	case 4:
		if len(h.calls) > 0 {
			rapid.SampledFrom(h.calls).Draw(h.T, "call").Abort(now)
		}
	case 5:
		h.instance().host.Lost()
	case 6:
		h.instance().host.Tell(Told{h.number("waiting"), h.number("running"), h.number("used"), h.number("capacity")}, now)
	case 7:
		h.choose(h.other)
		if message := h.other.Export(now); message != nil {
			if err := h.f.Import("g", message, now); err != nil {
				h.Fatal(err)
			}
		}
		h.f.Export(now)
	case 8:
		h.isWeighed = !h.isWeighed
	case 9:
		host := h.instance().host
		host.SetRoom(rapid.IntRange(-1, 2).Draw(h.T, "room"))
		host.Has(Models{Awake: []string{"a"}, Asleep: []string{rapid.SampledFrom([]string{"a", "b"}).Draw(h.T, "asleep")}}, now)
	case 10:
		if len(h.instances) > 1 {
			n := rapid.IntRange(0, len(h.instances)-1).Draw(h.T, "removed")
			h.instances[n].Remove()
			h.instances = slices.Delete(h.instances, n, n+1)
		}
		h.addInstance()
	case 11:
		h.f.SetSecret(Secret{byte(rapid.IntRange(1, 2).Draw(h.T, "secret"))})
	}
}

// choose makes a gateway choose, and looks whether it takes what it was given.
func (h *history) choose(f *Fleet) {
	from := h.instances
	if f == h.other {
		from = nil
		for _, host := range f.hosts {
			from = append(from, host.instances...)
		}
		slices.SortFunc(from, func(a, b *Instance) int { return int(a.id>>1) - int(b.id>>1) })
	}
	subset := slices.DeleteFunc(slices.Clone(from), func(*Instance) bool { return rapid.Bool().Draw(h.T, "is out") })
	if len(subset) == 0 {
		subset = from[:1]
	}
	ask := h.ask()
	for range len(subset) {
		if h.isWeighed {
			ask.Weights = append(ask.Weights, h.number("weight"))
		}
	}
	call := f.Choose(subset, ask, second(h.now))
	if !slices.Contains(subset, call.Instance) {
		h.Fatal("an instance was chosen that was not to choose from")
	}
	for _, number := range []float64{call.Estimate.Queue, call.Estimate.Prefill, call.Estimate.Load, call.Estimate.Avoidable, call.Estimate.Cost, 1 - call.Estimate.Matched} {
		if !(number >= -1e-9 && number < 1e12) {
			h.Fatalf("%+v", call.Estimate)
		}
	}
	if f == h.f {
		h.calls = append(h.calls, call)
	}
}

// check compares the sums that are kept with what they are sums of.
func (h *history) check() {
	for _, m := range h.f.models {
		m.index.check(h.T)
	}
	for _, host := range h.f.hosts {
		cold, backlog, settled := int32(0), 0.0, 0.0
		for _, call := range h.calls {
			if call.Instance.host == host && call.epoch == host.epoch && call.stage == decodes && !call.isSeen {
				settled += call.takes
			}
		}
		if math.Abs(settled-host.settled) > 1e-6*(1+settled) {
			h.Fatalf("%f s are settled, %f are counted", settled, host.settled)
		}
		for _, call := range host.queue {
			backlog += call.takes
			if call.stage != waits || call.epoch != host.epoch {
				h.Fatal("a call waits that does not wait")
			}
			if call.cold {
				cold++
			}
		}
		if cold != host.cold || math.Abs(backlog-host.backlog) > 1e-6*(1+backlog) {
			h.Fatalf("%d cold calls and %f s are counted, there are %d and %f s", host.cold, host.backlog, cold, backlog)
		}
		for _, i := range host.instances {
			var pending float64
			waiting := int32(0)
			for _, call := range host.queue {
				if call.Instance == i {
					pending += call.need
					waiting++
				}
			}
			if waiting != i.waiting || math.Abs(pending-i.pending) > 1e-6*(1+pending) || i.decoding < 0 {
				h.Fatalf("%d calls with %f tokens are counted and %d decode, %d with %f wait", i.waiting, i.pending, i.decoding, waiting, pending)
			}
			if !(i.perToken > 0 && i.perToken < 1e12) {
				h.Fatalf("a token takes %g s", i.perToken)
			}
		}
	}
}
