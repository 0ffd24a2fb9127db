package metrics

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram has a bucket for every length of time up to a microsecond, 70 buckets for each
// decade up to 10,000 seconds, and one for anything longer. Within a decade that begins at 1,
// buckets are 0.05 wide up to 2, 0.1 up to 5 and 0.25 up to 10: at most 5 % of their lower
// bound. All bounds that a scrape shows are bounds of buckets.
const (
	shortest    = 1000 // nanoseconds
	decades     = 10
	perDecade   = 70
	BucketCount = 1 + decades*perDecade + 1 // BucketCount is how many buckets a histogram has.

	pageSize = 32
	pages    = (BucketCount + pageSize - 1) / pageSize
)

// powersOfTen has the beginning of each decade, in nanoseconds, and the end of the last one.
var powersOfTen = [decades + 1]int64{1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13}

// BucketOf returns the bucket that counts a length of time. A bound belongs to the bucket below
// it.
func BucketOf(d time.Duration) int {
	if d <= shortest {
		return 0
	}
	if int64(d) > powersOfTen[decades] {
		return BucketCount - 1
	}
	before := uint64(d) - 1
	// A decade has 3.32 bits; the guess is at most one too high.
	decade := int(uint(bits.Len64(before))*1233>>12) - 3
	if before < uint64(powersOfTen[decade]) {
		decade--
	}
	steps := before / uint64(powersOfTen[decade]/20) // from 20 to 199
	within := uint64(0)
	switch {
	case steps < 40:
		within = steps - 20
	case steps < 100:
		within = 20 + (steps-40)/2
	default:
		within = 50 + (steps-100)/5
	}
	return 1 + decade*perDecade + int(within)
}

// boundsOf returns the bounds of a bucket. The last one has no upper bound: both are equal.
func boundsOf(bucket int) (low, high time.Duration) {
	switch bucket {
	case 0:
		return 0, shortest
	case BucketCount - 1:
		return time.Duration(powersOfTen[decades]), time.Duration(powersOfTen[decades])
	}
	step := powersOfTen[(bucket-1)/perDecade] / 20
	within := int64((bucket - 1) % perDecade)
	begin, width := 20+within, int64(1)
	switch {
	case within >= 50:
		begin, width = 100+(within-50)*5, 5
	case within >= 20:
		begin, width = 40+(within-20)*2, 2
	}
	return time.Duration(begin * step), time.Duration((begin + width) * step)
}

// Histogram counts lengths of time by their size. It takes memory for the buckets in use, at
// most 6 KiB. It must not be copied.
type Histogram struct {
	counts       [pages]atomic.Pointer[page]
	sum, longest atomic.Int64
	exemplars    [maxBuckets + 1]atomic.Pointer[exemplar] // one for each bucket that a scrape shows
}

// page holds the counts of neighbouring buckets.
type page [pageSize]atomic.Uint64

// Observe counts one length of time.
func (h *Histogram) Observe(d time.Duration) {
	h.count(BucketOf(d))
	h.sum.Add(int64(d))
	raiseTo(&h.longest, int64(d))
}

// count counts a length of time without adding it up.
func (h *Histogram) count(bucket int) {
	place := &h.counts[bucket/pageSize]
	p := place.Load()
	if p == nil {
		place.CompareAndSwap(nil, new(page))
		p = place.Load()
	}
	p[bucket%pageSize].Add(1)
}

// Seen remembers the counts of a histogram from one look to the next.
type Seen [pages]*[pageSize]uint64

// Since passes on how much the buckets have grown since the last look.
func (h *Histogram) Since(seen *Seen, grown func(bucket int, by uint64)) {
	h.each(func(bucket int, now uint64) {
		page := &seen[bucket/pageSize]
		if *page == nil {
			*page = new([pageSize]uint64)
		}
		if before := &(*page)[bucket%pageSize]; now != *before {
			grown(bucket, now-*before)
			*before = now
		}
	})
}

// each passes on the counts of the buckets that have one.
func (h *Histogram) each(yield func(bucket int, count uint64)) {
	for n := range h.counts {
		p := h.counts[n].Load()
		if p == nil {
			continue
		}
		for i := range p {
			if count := p[i].Load(); count > 0 {
				yield(n*pageSize+i, count)
			}
		}
	}
}

// Distribution is the counts of the buckets of a histogram as plain numbers, which can be added.
type Distribution struct {
	counts [BucketCount]uint64
	total  uint64
}

// Add counts lengths of time of a bucket.
func (d *Distribution) Add(bucket int, n uint64) {
	d.counts[bucket] += n
	d.total += n
}

// Count returns how many lengths of time were counted.
func (d *Distribution) Count() int64 { return int64(min(d.total, math.MaxInt64)) }

// Quantile returns the length of time that a part q of those counted did not exceed: the middle
// of the bucket with that one. It is at most 2.5 % off between a microsecond and 10,000 seconds,
// and 0 where nothing was counted.
func (d *Distribution) Quantile(q float64) time.Duration {
	rank := max(uint64(math.Ceil(q*float64(d.total))), 1)
	for bucket := range d.counts {
		if n := d.counts[bucket]; n < rank {
			rank -= n
			continue
		}
		low, high := boundsOf(bucket)
		return (low + high) / 2
	}
	return 0
}

// maxBuckets is the largest number of bounds that a scrape shows of a histogram.
const maxBuckets = 14

// requestBounds are the bounds for whole requests: from a cached embedding to a
// long answer.
var requestBounds = []time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, 60 * time.Second, 120 * time.Second,
}

// overheadBounds are the bounds for the time that the gateway itself takes.
var overheadBounds = []time.Duration{
	25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond,
	500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

// tokenBounds are the bounds for the time per output token: from a small model on a fast
// GPU to a large one on a processor.
var tokenBounds = []time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 15 * time.Millisecond,
	20 * time.Millisecond, 30 * time.Millisecond, 40 * time.Millisecond, 50 * time.Millisecond, 75 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

const (
	// ratio is a ratio of 1 in a scrape, which shows it as 1.
	ratio = time.Second
	// mostRatio keeps a ratio that means nothing from filling the sum.
	mostRatio = 1000
	// ratioScale is the length of time that counts a ratio of 1, in seconds: with 6 all
	// ratioBounds are bounds of buckets.
	ratioScale = 6
)

// ratioBounds are the bounds for the actual value divided by the expected one.
var ratioBounds = []time.Duration{
	ratio / 10, ratio / 5, ratio / 3, ratio / 2, ratio * 2 / 3, ratio * 4 / 5, ratio,
	ratio * 5 / 4, ratio * 3 / 2, ratio * 2, ratio * 3, ratio * 5, ratio * 10, ratio * 30,
}

// exemplar is an observation that can be looked up as a trace.
type exemplar struct {
	trace string
	took  time.Duration
	at    time.Time
}

// keepExemplar keeps an observation as the example of its bucket among bounds.
func (h *Histogram) keepExemplar(bounds []time.Duration, e exemplar) {
	h.exemplars[shownBucket(bounds, e.took)].Store(&e)
}

// shownBucket returns the place of a length of time among bounds that a scrape shows.
func shownBucket(bounds []time.Duration, d time.Duration) int {
	for i, bound := range bounds {
		if d <= bound {
			return i
		}
	}
	return maxBuckets
}

// reading is what a scrape shows of histograms, with few bounds. Its count is the sum of its
// buckets, whatever is counted meanwhile.
type reading struct {
	bounds    []time.Duration
	counts    [maxBuckets + 1]uint64
	exemplars [maxBuckets + 1]*exemplar
	count     uint64
	sum, max  time.Duration
}

// read adds up histograms of quantities that are scale times too large.
func read(bounds []time.Duration, scale time.Duration, histograms ...*Histogram) reading {
	r := reading{bounds: bounds}
	for _, h := range histograms {
		r.sum += time.Duration(h.sum.Load()) / scale
		r.max = max(r.max, time.Duration(h.longest.Load())/scale)
		h.each(func(bucket int, count uint64) {
			_, high := boundsOf(bucket)
			if bucket == BucketCount-1 {
				high = math.MaxInt64
			}
			r.counts[shownBucket(bounds, high/scale)] += count
			r.count += count
		})
		for i := range h.exemplars {
			if r.exemplars[i] == nil {
				r.exemplars[i] = h.exemplars[i].Load()
			}
		}
	}
	return r
}
