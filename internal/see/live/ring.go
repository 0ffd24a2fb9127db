package live

import (
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// Range is a span of time before now of which a history is kept.
type Range uint8

// The ranges.
const (
	FiveMinutes Range = iota
	OneHour
	OneDay

	rangeCount = int(OneDay) + 1
)

// shapes say how each range is kept and shown.
var shapes = [rangeCount]struct {
	name   string
	step   int64 // seconds of a point
	points int64
	// window is over how many points a quantile is taken: a second holds too few
	// requests.
	window int64
}{
	FiveMinutes: {"5m", 1, 300, 10},
	OneHour:     {"1h", 15, 240, 2},
	OneDay:      {"24h", 300, 288, 1},
}

// Names returns the name of every range.
func (Range) Names() []string {
	names := make([]string, rangeCount)
	for r := range shapes {
		names[r] = shapes[r].name
	}
	return names
}

// String returns the name.
func (r Range) String() string { return shapes[r].name }

// MarshalText writes the name.
func (r Range) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// ParseRange reads a name.
func ParseRange(name string) (Range, error) {
	for r := range shapes {
		if shapes[r].name == name {
			return Range(r), nil
		}
	}
	return 0, fmt.Errorf("want one of %s", strings.Join(Range(0).Names(), ", "))
}

// counts are what was counted in a span of time.
type counts struct {
	outcomes             metrics.Outcomes
	tokensIn, tokensOut  int64
	failovers            int64
	cost                 int64 // in 10^-12 of the currency's unit
	duration, firstToken metrics.Buckets
	overhead             metrics.Buckets // of service types and in total only
}

func (c *counts) add(other *counts) {
	c.outcomes.Add(other.outcomes)
	c.tokensIn += other.tokensIn
	c.tokensOut += other.tokensOut
	c.failovers += other.failovers
	c.cost += other.cost
	c.duration.Add(&other.duration)
	c.firstToken.Add(&other.firstToken)
	c.overhead.Add(&other.overhead)
}

// isZero tells whether nothing was counted.
func (c *counts) isZero() bool { return *c == counts{} }

// difference returns what was counted between two readings of an instance.
func difference(now, before *metrics.InstanceTotals) counts {
	return counts{
		outcomes: now.Outcomes.Sub(before.Outcomes),
		tokensIn: now.TokensIn - before.TokensIn, tokensOut: now.TokensOut - before.TokensOut,
		failovers: now.Failovers - before.Failovers, cost: now.Cost - before.Cost,
		duration: now.Duration.Sub(&before.Duration), firstToken: now.FirstToken.Sub(&before.FirstToken),
	}
}

// point is what was counted in one step of a range, in half the memory of counts.
type point struct {
	slot                                             int64 // which step it is; others are empty
	answered, failed, breakerOpen, limited, rejected uint32
	failovers                                        uint32
	tokensIn, tokensOut, cost                        int64
	duration, firstToken                             [len(metrics.Buckets{})]uint32
}

func (p *point) add(c *counts) {
	p.answered += uint32(c.outcomes.Answered)
	p.failed += uint32(c.outcomes.Failed)
	p.breakerOpen += uint32(c.outcomes.BreakerOpen)
	p.limited += uint32(c.outcomes.Limited)
	p.rejected += uint32(c.outcomes.Rejected)
	p.failovers += uint32(c.failovers)
	p.cost += c.cost
	p.tokensIn += c.tokensIn
	p.tokensOut += c.tokensOut
	for i := range p.duration {
		p.duration[i] += uint32(c.duration[i])
		p.firstToken[i] += uint32(c.firstToken[i])
	}
}

func (p *point) addTo(c *counts) {
	c.outcomes.Add(metrics.Outcomes{
		Answered: int64(p.answered), Failed: int64(p.failed), BreakerOpen: int64(p.breakerOpen), Limited: int64(p.limited), Rejected: int64(p.rejected),
	})
	c.failovers += int64(p.failovers)
	c.cost += p.cost
	c.tokensIn += p.tokensIn
	c.tokensOut += p.tokensOut
	for i := range p.duration {
		c.duration[i] += uint64(p.duration[i])
		c.firstToken[i] += uint64(p.firstToken[i])
	}
}

// overheads are the buckets of the gateway's own time in one step.
type overheads struct {
	slot   int64
	counts [len(metrics.Buckets{})]uint32
}

// track is the history of one thing that is counted. It takes no memory before
// the first request.
type track struct {
	points    [rangeCount][]point
	overheads [rangeCount][]overheads
	last      int64 // the second in which something was counted last
}

// ringSize returns how many steps of a range a track has: those that are shown, and the one that
// follows them. A request is added to the step in which it ended, before that second is sampled.
func (r Range) ringSize() int64 { return shapes[r].points + 1 }

// add adds what was counted in a second.
func (t *track) add(second int64, c *counts) {
	if c.isZero() {
		return
	}
	t.last = second
	hasOverhead := c.overhead != metrics.Buckets{}
	for r := range shapes {
		slot, size := second/shapes[r].step, Range(r).ringSize()
		if t.points[r] == nil {
			t.points[r] = make([]point, size)
		}
		p := &t.points[r][slot%size]
		if p.slot != slot {
			*p = point{slot: slot}
		}
		p.add(c)
		if !hasOverhead {
			continue
		}
		if t.overheads[r] == nil {
			t.overheads[r] = make([]overheads, size)
		}
		o := &t.overheads[r][slot%size]
		if o.slot != slot {
			*o = overheads{slot: slot}
		}
		for i, n := range c.overhead {
			o.counts[i] += uint32(n)
		}
	}
}

// sum adds up what was counted in the slots of a range from first to last.
func (t *track) sum(r Range, first, last int64) counts {
	var c counts
	if t == nil || t.points[r] == nil {
		return c
	}
	size := r.ringSize()
	for slot := max(first, last-size+1, 0); slot <= last; slot++ { // before the first sample the last is 0
		if p := &t.points[r][slot%size]; p.slot == slot {
			p.addTo(&c)
		}
		if t.overheads[r] == nil {
			continue
		}
		if o := &t.overheads[r][slot%size]; o.slot == slot {
			for i, n := range o.counts {
				c.overhead[i] += uint64(n)
			}
		}
	}
	return c
}

// tracks are the histories of the parts of one thing.
type tracks []*track

// sum adds up what was counted of all parts.
func (parts tracks) sum(r Range, first, last int64) counts {
	var c counts
	for _, t := range parts {
		own := t.sum(r, first, last)
		c.add(&own)
	}
	return c
}

// watched remembers how many seconds of each step were sampled.
type watched [rangeCount][]struct{ slot, seconds int64 }

func (w *watched) note(second int64) {
	for r := range shapes {
		if w[r] == nil {
			w[r] = make([]struct{ slot, seconds int64 }, shapes[r].points)
		}
		slot := second / shapes[r].step
		step := &w[r][slot%shapes[r].points]
		if step.slot != slot {
			step.slot, step.seconds = slot, 0
		}
		step.seconds++
	}
}

// seconds returns how many seconds of a step were sampled.
func (w *watched) seconds(r Range, slot int64) int64 {
	if w[r] == nil || slot <= 0 {
		return 0
	}
	if step := w[r][slot%shapes[r].points]; step.slot == slot {
		return step.seconds
	}
	return 0
}
