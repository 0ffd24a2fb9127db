package live

import (
	"fmt"
	"slices"
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
	SevenDays
	ThirtyDays

	rangeCount = int(ThirtyDays) + 1
	// sampledRanges are the first ranges, which are in memory. The archive has the others.
	sampledRanges = int(OneDay) + 1
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
	SevenDays:   {"7d", 600, 1008, 1},
	ThirtyDays:  {"30d", 3600, 720, 1},
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

// The lengths of time that have a history.
const (
	duration = iota
	firstToken
	perToken
	overhead // of service types and in total only

	timeCount
)

// times are distributions of lengths of time in a span.
type times [timeCount]metrics.Distribution

// counts are what one second adds to a history.
type counts struct {
	metrics.Totals
	cells []cell
}

// cell is how many lengths of time of a kind fell into a bucket.
type cell struct {
	key uint32 // kind<<bucketBits | bucket
	n   uint64
}

// A point keeps a cell as a number: the key, and a count of at most mostInCell. Further counts
// have another cell with the same key.
const (
	bucketBits = 10
	countBits  = 20
	mostInCell = 1<<countBits - 1
)

// note adds lengths of time.
func (c *counts) note(kind, bucket int, n uint64) {
	c.cells = append(c.cells, cell{uint32(kind<<bucketBits | bucket), n})
}

// take adds how much a histogram has grown.
func (c *counts) take(kind int, from *metrics.Histogram, seen *metrics.Seen) {
	from.Since(seen, func(bucket int, by uint64) { c.note(kind, bucket, by) })
}

func (c *counts) add(other *counts) {
	c.Totals.Add(other.Totals)
	c.cells = append(c.cells, other.cells...)
}

// isZero reports whether nothing was counted.
func (c *counts) isZero() bool { return len(c.cells) == 0 && c.Totals == metrics.Totals{} }

// clear makes room for other counts.
func (c *counts) clear() { *c = counts{cells: c.cells[:0]} }

// point holds the counts of one step of a range.
type point struct {
	slot  int64 // which step it is; others are empty
	sums  metrics.Totals
	cells []uint32 // by key
}

func (p *point) count(c cell) {
	at, _ := slices.BinarySearch(p.cells, c.key<<countBits)
	for c.n > 0 {
		if at == len(p.cells) || p.cells[at]>>countBits != c.key {
			if n := len(p.cells); n == cap(p.cells) { // points are many, so they grow by little
				p.cells = append(make([]uint32, 0, n+n/4+4), p.cells...)
			}
			p.cells = slices.Insert(p.cells, at, c.key<<countBits)
		}
		more := uint32(min(c.n, uint64(mostInCell-p.cells[at]&mostInCell)))
		p.cells[at] += more
		c.n -= uint64(more)
		at++
	}
}

// add adds counts of another point.
func (p *point) add(totals metrics.Totals, cells []uint32) {
	p.sums.Add(totals)
	for _, c := range cells {
		p.count(cell{c >> countBits, uint64(c & mostInCell)})
	}
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
	for r := range Range(sampledRanges) {
		p := t.at(r, second)
		p.sums.Add(c.Totals)
		for _, one := range c.cells {
			p.count(one)
		}
	}
}

// at returns the point of a range that has a second.
func (t *track) at(r Range, second int64) *point {
	slot, size := second/shapes[r].step, r.ringSize()
	if t.points[r] == nil {
		t.points[r] = make([]point, size)
	}
	p := &t.points[r][slot%size]
	if p.slot != slot {
		*p = point{slot: slot, cells: p.cells[:0]}
	}
	return p
}

// within passes on the points of a range with counts, from the slot first to last.
func (t *track) within(r Range, first, last int64, yield func(p *point)) {
	if t == nil || t.points[r] == nil {
		return
	}
	size := r.ringSize()
	for slot := max(first, last-size+1, 0); slot <= last; slot++ { // before the first sample the last is 0
		if p := &t.points[r][slot%size]; p.slot == slot {
			yield(p)
		}
	}
}

// sum adds up the counts in the slots of a range from first to last.
func (t *track) sum(r Range, first, last int64) metrics.Totals {
	var s metrics.Totals
	t.within(r, first, last, func(p *point) { s.Add(p.sums) })
	return s
}

// times adds the lengths of time in the slots of a range to others.
func (t *track) times(r Range, first, last int64, to *times) {
	t.within(r, first, last, func(p *point) {
		for _, c := range p.cells {
			key := c >> countBits
			to[key>>bucketBits].Add(int(key&(1<<bucketBits-1)), uint64(c&mostInCell))
		}
	})
}

// tracks are the histories of the parts of one thing.
type tracks []*track

// sum adds up the counts of all parts.
func (parts tracks) sum(r Range, first, last int64) metrics.Totals {
	var s metrics.Totals
	for _, t := range parts {
		s.Add(t.sum(r, first, last))
	}
	return s
}

// times adds the lengths of time of all parts.
func (parts tracks) times(r Range, first, last int64, to *times) {
	for _, t := range parts {
		t.times(r, first, last, to)
	}
}

// services are the histories of all service types. Together they have no times where more than one
// of them has: a figure of an embedding and of a chat would mean nothing.
type services tracks

func (parts services) sum(r Range, first, last int64) metrics.Totals {
	return tracks(parts).sum(r, first, last)
}

func (parts services) times(r Range, first, last int64, to *times) {
	with := 0
	for _, t := range parts {
		before := to.count()
		if t.times(r, first, last, to); to.count() > before {
			with++
		}
	}
	if with > 1 {
		*to = times{}
	}
}

// count returns how many lengths of time there are.
func (t *times) count() int64 {
	var n int64
	for kind := range t {
		n += t[kind].Count()
	}
	return n
}

// watched remembers how many seconds of each step were sampled.
type watched [rangeCount][]struct{ slot, seconds int64 }

func (w *watched) note(second int64) {
	for r := range Range(sampledRanges) {
		w.add(r, second/shapes[r].step, 1)
	}
}

// add notes that seconds of a step were sampled.
func (w *watched) add(r Range, slot, seconds int64) {
	if w[r] == nil {
		w[r] = make([]struct{ slot, seconds int64 }, shapes[r].points)
	}
	step := &w[r][slot%shapes[r].points]
	if step.slot != slot {
		step.slot, step.seconds = slot, 0
	}
	step.seconds += seconds
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
