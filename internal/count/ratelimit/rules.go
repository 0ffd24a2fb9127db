package ratelimit

import (
	"math/bits"
	"time"
)

// partsPerRequest is the number of parts that make one request. A bucket that is refilled
// with r requests a second gains exactly r parts a nanosecond: counting loses nothing at
// any rate.
const partsPerRequest = int64(time.Second)

// coldFactor is how many times smaller burst and rate are at the start of a
// warm-up.
const coldFactor = 3

// maxWarmUp is for ever, and leaves room to add to it.
const maxWarmUp = int64(1) << 61

// rules are settings in the units that counting needs: parts, and nanoseconds
// since the limiter began. They never change once made.
type rules struct {
	algorithm Algorithm
	capacity  int
	part      int64 // parts of one request; 1 for a sliding window
	burst     int64 // parts
	rate      int64 // parts a nanosecond

	// A warm-up lasts from warmStart to warmEnd; they are equal where there is none.
	warmStart, warmEnd int64

	// window is the length of a sliding window, marks how many points in time it
	// remembers, and grain how far apart they are at least.
	window, grain int64
	marks         int
}

func newRules(s Settings, warmStart int64, marks int) *rules {
	r := &rules{
		algorithm: s.Algorithm,
		capacity:  s.Capacity,
		part:      partsPerRequest,
		burst:     int64(s.Capacity) * partsPerRequest,
		rate:      int64(s.RefillRate),
		warmStart: warmStart,
		warmEnd:   warmStart,
		marks:     marks,
	}
	if s.Algorithm == WarmUp {
		r.warmEnd += min(int64(s.WarmUpPeriod), maxWarmUp)
	}
	r.window = max(int64(time.Second), divideUp(r.burst, r.rate))
	if r.slides() {
		r.part, r.burst = 1, int64(s.Capacity)
	}
	if s.Capacity > marks {
		r.grain = grainOf(r.window, marks)
	}
	return r
}

// windowRules returns the rules of a sliding window of a length, with marks that share times.
func windowRules(length int64, marks int) rules {
	return rules{algorithm: SlidingWindow, part: 1, window: length, marks: marks, grain: grainOf(length, marks)}
}

func (r *rules) slides() bool { return r.algorithm == SlidingWindow }

// permits returns how many whole permits so many parts are. A division by a constant takes less time.
func (r *rules) permits(parts int64) int {
	if r.slides() {
		return int(parts)
	}
	return int(parts / partsPerRequest)
}

// grainOf returns the distance of marks that makes their number suffice for a window:
// one may have begun before it, and one is not over yet.
func grainOf(window int64, marks int) int64 { return window / int64(marks-2) }

// warmth is the share of burst and rate that is in force during a warm-up.
func (r *rules) warmth(t int64) float64 {
	done := float64(t-r.warmStart) / float64(r.warmEnd-r.warmStart)
	return (1 + (coldFactor-1)*done) / coldFactor
}

// burstAt is how much a bucket can hold: at least one request, or a small
// capacity would refuse everything until the warm-up is over.
func (r *rules) burstAt(t int64) int64 {
	if t >= r.warmEnd {
		return r.burst
	}
	return max(partsPerRequest, int64(float64(r.burst)*r.warmth(t)))
}

// gain is how much flows into a bucket between two times, up to the burst.
func (r *rules) gain(from, to int64) int64 {
	if from >= r.warmEnd {
		return r.steadyGain(to - from)
	}
	ramp := min(to, r.warmEnd)
	mean := (r.warmth(from) + r.warmth(ramp)) / 2
	gained := min(float64(r.burst), float64(r.rate)*float64(ramp-from)*mean)
	return min(r.burst, int64(gained)+r.steadyGain(to-ramp))
}

func (r *rules) steadyGain(elapsed int64) int64 {
	overflow, gained := bits.Mul64(uint64(elapsed), uint64(r.rate))
	if overflow != 0 {
		return r.burst
	}
	return int64(min(gained, uint64(r.burst)))
}

func divideUp(a, b int64) int64 { return (a + b - 1) / b }
