package fleet

import "math"

const (
	// pauseSpans is the number of classes of pauses by length: from 1 to 2 s, from 2 to 4 s
	// and so on. The last one is about three days and has longer ones, too.
	pauseSpans = 18
	// pauseHalf is the number of seconds after which a pause counts half as much, and
	// pauseAged the number of seconds between two computations of that.
	pauseHalf = 86_400.0
	pauseAged = 600.0
	// firstPauses is the number of imagined pauses beside the observed ones. An imagined
	// pause lasts twice as long again as it has lasted, and leastPause seconds at least.
	firstPauses = 2.0
	leastPause  = 30.0
	// recentUse is the number of seconds after its last use that protect a model: it leaves
	// for another one then only where all others were used as recently.
	recentUse = 5.0
)

// pauses holds the lengths of pauses between two uses of a model, on any host. They show how
// soon a model that is not used now is needed again: one that is used in sessions comes back
// within a minute or not for hours, and one that is used all day comes back soon although
// another one was used later.
type pauses struct {
	counts [pauseSpans]float64 // of each length
	used   float64             // when the last use ended, 0 if there was none
	aged   float64             // when the counts were last reduced
}

// end notes that the model is used from now on.
func (p *pauses) end(now float64) {
	if p.used != 0 && now >= p.used {
		if now-p.aged > pauseAged {
			p.age(now)
		}
		p.counts[pauseSpan(now-p.used)]++
	}
	p.begin(now)
}

// begin notes that the model is not used from now on.
func (p *pauses) begin(now float64) { p.used = max(p.used, now) }

// age lets pauses count the less the longer they are ago.
func (p *pauses) age(now float64) {
	share := math.Exp2((p.aged - now) / pauseHalf)
	for n := range p.counts {
		p.counts[n] *= share
	}
	p.aged = now
}

// pauseSpan returns the place of a length among the counts.
func pauseSpan(seconds float64) int {
	if seconds < 2 {
		return 0
	}
	return min(math.Ilogb(seconds), pauseSpans-1)
}

// left returns the expected rest of a pause that has lasted for some seconds, as the binary
// logarithm of seconds. It is the mean rest of all longer pauses at that point.
func (p *pauses) left(lasted float64) float64 {
	lasted = max(lasted, 1)
	weight := firstPauses
	sum := weight * math.Log2(2*max(lasted, leastPause))
	for n := math.Ilogb(lasted); n < pauseSpans; n++ {
		if p.counts[n] == 0 {
			continue
		}
		width := math.Ldexp(1, n)
		from, till := max(width, lasted), 2*width
		count := p.counts[n] * (till - from) / width
		sum += count * math.Log2(1+(from+till)/2-lasted)
		weight += count
	}
	return sum / weight
}

// use notes that the model is used.
func (i *Instance) use(now float64) {
	i.model.pauses.end(now)
	i.memory.used = max(i.memory.used, now)
}

// pauseLeft returns the expected time until the next use of the model at this instance, by
// the pauses of the model, as the binary logarithm of seconds. Right after a use it is -1,
// and it grows to 0 within recentUse.
func (i *Instance) pauseLeft(now float64) float64 {
	lasted := max(now-i.memory.used, 0)
	if lasted < recentUse && i.memory.used != 0 {
		return lasted/recentUse - 1
	}
	return i.model.pauses.left(lasted)
}
