package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsAreAtMostFivePercentWide(t *testing.T) {
	t.Parallel()
	for bucket := range BucketCount - 1 {
		low, high := boundsOf(bucket)
		if bucket > 0 && float64(high-low) > 0.05*float64(low) {
			t.Errorf("bucket %d: from %v to %v", bucket, low, high)
		}
		for d, want := range map[time.Duration]int{low + 1: bucket, high: bucket, high + 1: bucket + 1} {
			if got := BucketOf(d); got != want {
				t.Errorf("%v is in bucket %d, not %d", d, got, want)
			}
		}
	}
	for d, want := range map[time.Duration]int{-time.Second: 0, 0: 0, 3 * time.Hour: BucketCount - 1, math.MaxInt64: BucketCount - 1} {
		if got := BucketOf(d); got != want {
			t.Errorf("%v is in bucket %d, not %d", d, got, want)
		}
	}
}

// What a scrape shows of a histogram is as exact as counting by its bounds would be.
func TestAScrapeShowsTheSameBucketsAsEver(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for name, one := range map[string]struct {
		bounds []time.Duration
		scale  time.Duration
	}{
		"requests": {requestBounds, 1}, "overhead": {overheadBounds, 1}, "tokens": {tokenBounds, 1}, "ratios": {ratioBounds, ratioScale},
	} {
		var h Histogram
		var want [maxBuckets + 1]uint64
		count := func(d time.Duration) {
			want[shownBucket(one.bounds, d)]++
			h.Observe(d * one.scale)
		}
		for _, bound := range one.bounds {
			count(bound - 1)
			count(bound)
			count(bound + time.Microsecond)
		}
		for range 2000 {
			count(time.Duration(math.Pow(10, 2+9*random.Float64())))
		}
		count(20_000 * time.Second / one.scale)
		got := read(one.bounds, one.scale, &h)
		if got.counts != want || got.count != uint64(3*len(one.bounds)+2001) || got.max != 20_000*time.Second/one.scale {
			t.Errorf("%s: %v, not %v; %d, the longest %v", name, got.counts, want, got.count, got.max)
		}
	}
}

func TestQuantilesAreTrue(t *testing.T) {
	t.Parallel()
	for name, all := range map[string][]time.Duration{
		"a single one":     {34 * time.Millisecond},
		"all alike":        slices.Repeat([]time.Duration{1505 * time.Millisecond}, 40),
		"very short":       {300 * time.Microsecond, 290 * time.Microsecond, 310 * time.Microsecond},
		"two far away":     append(slices.Repeat([]time.Duration{978 * time.Millisecond}, 34), 6*time.Second, 6*time.Second),
		"of every length":  spread(3000),
		"of the last kind": {5000 * time.Second, 9999 * time.Second},
	} {
		var h Histogram
		var seen Seen
		var d Distribution
		for i, one := range all {
			h.Observe(one)
			if i%7 == 0 { // as a sampler looks now and then
				h.Since(&seen, d.Add)
			}
		}
		h.Since(&seen, d.Add)
		slices.Sort(all)
		for _, q := range []float64{0, 0.25, 0.5, 0.75, 0.95, 0.99, 1} {
			want := all[max(int(math.Ceil(q*float64(len(all)))), 1)-1]
			if got := d.Quantile(q); math.Abs(float64(got)/float64(want)-1) > 0.025 {
				t.Errorf("%s: p%v is %v, not %v", name, 100*q, got, want)
			}
		}
		if d.Count() != int64(len(all)) {
			t.Errorf("%s: %d are counted of %d", name, d.Count(), len(all))
		}
	}
	if got := new(Distribution).Quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// spread returns lengths of time from 2 microseconds to 2 hours.
func spread(n int) []time.Duration {
	random := rand.New(rand.NewPCG(3, 4))
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = time.Duration(2000 * math.Exp(random.Float64()*math.Log(3.6e9)))
	}
	return all
}
