package engine

import "slices"

// Foreseen is the course of a request that an engine would be given now, if nothing came
// after it. Times are seconds from now on.
type Foreseen struct {
	Starts float64 // when its prefill begins
	First  float64 // when its first token comes
	Ends   float64 // when its answer is complete
	Cached int     // how many of its tokens are in the cache
	// answers are being written when its prefill begins.
	answers int
}

// Foresee returns the course of a request, by the engine's own speeds, its queue and the length
// of every answer. It reads one prompt at a time, and loads no models.
func (e *Engine) Foresee(j *Job, now float64) Foreseen {
	t := now
	if left := e.left(); left > now-e.clock {
		t = e.clock + left
	}
	var ends []float64
	for _, d := range e.decoding {
		ends = append(ends, d.ends)
	}
	read := map[blockOf]bool{}
	for _, r := range e.running {
		ends = append(ends, t+float64(r.Outputs)*e.pace(len(e.decoding)+1))
		r.remember(read)
	}
	for _, waiting := range e.queue {
		f := e.turn(waiting, t, ends, read)
		t, ends = f.First, append(ends, f.Ends)
		waiting.remember(read)
	}
	f := e.turn(j, t, ends, read)
	f.Starts, f.First, f.Ends = f.Starts-now, f.First-now, f.Ends-now
	return f
}

// Reads returns the seconds of the foreseen prefill if so many tokens were cached.
func (e *Engine) Reads(j *Job, f Foreseen, cached int) float64 {
	return e.prefill(j.Tokens, cached, f.answers)
}

// blockOf is a block of a model's prompts.
type blockOf struct {
	model  string
	number uint64
}

// remember adds the blocks of a request to those that will have been read.
func (j *Job) remember(read map[blockOf]bool) {
	for _, b := range j.Blocks {
		read[blockOf{j.Model, b}] = true
	}
}

// left returns the seconds of work on the prompts that are being read.
func (e *Engine) left() (sum float64) {
	for _, r := range e.running {
		sum += r.left
	}
	return sum
}

// turn returns the course of a request whose turn comes at a time, given when the answers of
// all before it are complete, and the blocks that were read before.
func (e *Engine) turn(j *Job, at float64, ends []float64, read map[blockOf]bool) Foreseen {
	if slots := e.spec.Slots; slots > 0 && len(ends) >= slots {
		slices.Sort(ends)
		at = max(at, ends[len(ends)-slots])
	}
	known, c := 0, e.cache(j.Model)
	for known < len(j.Blocks) && (c.at[j.Blocks[known]] != nil || read[blockOf{j.Model, j.Blocks[known]}]) {
		known++
	}
	f := Foreseen{Starts: at, Cached: e.cached(j, known), answers: after(ends, at)}
	f.First = at + e.prefill(j.Tokens, f.Cached, f.answers)
	f.Ends = f.First + float64(j.Outputs)*e.pace(after(ends, f.First)+1)
	return f
}

// after returns how many times are after another one.
func after(times []float64, t float64) (count int) {
	for _, other := range times {
		if other > t {
			count++
		}
	}
	return count
}
