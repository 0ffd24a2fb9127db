package live

import (
	"fmt"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// Range is a span of time before now with a history of its own.
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
	// window is the number of points that a quantile is taken over: a second holds too few
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

// sums are the numbers that were counted in a span of time.
type sums struct {
	outcomes                       metrics.Outcomes
	tokensIn, tokensOut, failovers int64
	cost                           int64 // in 10^-12 of the currency's unit
}

func (s *sums) add(other *sums) {
	s.outcomes.Add(other.outcomes)
	s.tokensIn += other.tokensIn
	s.tokensOut += other.tokensOut
	s.failovers += other.failovers
	s.cost += other.cost
}

// counts are the counts of a span of time.
type counts struct {
	sums
	duration, firstToken metrics.Buckets
	overhead             metrics.Buckets // of service types and in total only
}

func (c *counts) add(other *counts) {
	c.sums.add(&other.sums)
	c.duration.Add(&other.duration)
	c.firstToken.Add(&other.firstToken)
	c.overhead.Add(&other.overhead)
}

// isZero reports whether nothing was counted.
func (c *counts) isZero() bool { return *c == counts{} }

// difference returns the counts between two readings of an instance.
func difference(now, before *metrics.InstanceTotals) counts {
	return counts{
		sums: sums{
			now.Outcomes.Sub(before.Outcomes), now.TokensIn - before.TokensIn, now.TokensOut - before.TokensOut,
			now.Failovers - before.Failovers, now.Cost - before.Cost,
		},
		duration: now.Duration.Sub(&before.Duration), firstToken: now.FirstToken.Sub(&before.FirstToken),
	}
}

// narrow are buckets in half the memory.
type narrow [len(metrics.Buckets{})]uint32

func (n *narrow) add(b *metrics.Buckets) {
	for i, count := range b {
		n[i] += uint32(count)
	}
}

func (n *narrow) addTo(b *metrics.Buckets) {
	for i, count := range n {
		b[i] += uint64(count)
	}
}

// point holds the counts of one step of a range.
type point struct {
	slot                           int64 // which step it is; others are empty
	counts                         sums
	duration, firstToken, overhead narrow
}

// track is the history of one thing that is counted. It takes no memory before
// the first request.
type track struct {
	points [rangeCount][]point
	last   int64 // the second of the last count
}

// ringSize returns the number of steps that a track keeps of a range: the shown ones, and
// the one that follows them. A request is added to the step of its end, before that second
// is sampled.
func (r Range) ringSize() int64 { return shapes[r].points + 1 }

// add adds the counts of a second.
func (t *track) add(second int64, c *counts) {
	if c.isZero() {
		return
	}
	t.last = second
	for r := range shapes {
		slot, size := second/shapes[r].step, Range(r).ringSize()
		if t.points[r] == nil {
			t.points[r] = make([]point, size)
		}
		p := &t.points[r][slot%size]
		if p.slot != slot {
			*p = point{slot: slot}
		}
		p.counts.add(&c.sums)
		p.duration.add(&c.duration)
		p.firstToken.add(&c.firstToken)
		p.overhead.add(&c.overhead)
	}
}

// sum adds up the counts in the slots of a range from first to last.
func (t *track) sum(r Range, first, last int64) counts {
	var c counts
	if t == nil || t.points[r] == nil {
		return c
	}
	size := r.ringSize()
	for slot := max(first, last-size+1, 0); slot <= last; slot++ { // before the first sample the last is 0
		p := &t.points[r][slot%size]
		if p.slot != slot {
			continue
		}
		c.sums.add(&p.counts)
		p.duration.addTo(&c.duration)
		p.firstToken.addTo(&c.firstToken)
		p.overhead.addTo(&c.overhead)
	}
	return c
}

// tracks are the histories of the parts of one thing.
type tracks []*track

// sum adds up the counts of all parts.
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
