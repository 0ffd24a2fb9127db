package ratelimit

import "time"

// demand estimates how many permits requests want in a second.
type demand struct {
	last   time.Time // when a request came
	since  time.Time
	wanted int64
	rate   float64
}

// demandTime is over which time demand is measured.
const demandTime = 200 * time.Millisecond

func (d *demand) count(n int64, now time.Time) {
	if d.since.IsZero() {
		d.since = now
	}
	d.last = now
	d.wanted += n
}

func (d *demand) uncount(n int64) { d.wanted = max(0, d.wanted-n) }

// next begins to measure anew after some time.
func (d *demand) next(now time.Time) {
	elapsed := now.Sub(d.since)
	if d.since.IsZero() || elapsed < demandTime {
		return
	}
	d.rate = (d.rate + float64(d.wanted)/elapsed.Seconds()) / 2
	d.since, d.wanted = now, 0
}

func (d *demand) perSecond(now time.Time) float64 {
	return max(d.rate, float64(d.wanted)/max(demandTime, now.Sub(d.since)).Seconds())
}
