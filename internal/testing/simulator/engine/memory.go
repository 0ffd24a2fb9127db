package engine

import "slices"

// Fault is a way to fail when a model is loaded or woken up.
type Fault int

// Faults of loading.
const (
	Works Fault = iota
	Hangs       // it never ends
	Fails       // it ends with an error
	Dies        // the engine is started anew in the middle of it
	Lies        // a client that only asks to load is told that it is done, and nothing happens
)

const (
	// forever is longer than any test waits, in seconds.
	forever = 1e8
	// soon is how long an idle model stays that is to be unloaded.
	soon = 1e-9
)

// resident is a model in memory, or one that is being loaded.
type resident struct {
	name string
	keep float64 // how long it stays when it is idle; for ever unless above 0
	used float64 // when it was last in use
}

// Models returns the models in memory, including models that are being loaded, the one
// used last at the end.
func (e *Engine) Models() (names []string) {
	for _, r := range e.residents {
		names = append(names, r.name)
	}
	return names
}

// Loading returns the models that are being loaded; Models has them, too.
func (e *Engine) Loading() (names []string) {
	for _, j := range e.loading {
		names = append(names, j.Model)
	}
	return names
}

// isAsleep reports whether the engine sleeps, or is waking up.
func (e *Engine) isAsleep() bool {
	return e.asleep != 0 || slices.ContainsFunc(e.loading, func(j *Job) bool { return j.wakes != 0 })
}

// SetFault chooses the fault of model loads from now on.
func (e *Engine) SetFault(f Fault) { e.fault = f }

func (e *Engine) find(model string) int {
	return slices.IndexFunc(e.residents, func(r *resident) bool { return r.name == model })
}

// has reports whether a model is being loaded, or is there.
func (e *Engine) has(model string) (isLoading, isThere bool) {
	isLoading = slices.ContainsFunc(e.loading, func(j *Job) bool { return j.Model == model })
	return isLoading, !isLoading && e.find(model) >= 0
}

// hasRoom reports whether a model can be loaded without throwing out one that is in use.
func (e *Engine) hasRoom() bool {
	return e.spec.Room == 0 || len(e.residents) < e.spec.Room || e.idlest() >= 0
}

// idlest returns which of the models that are not in use was used least recently, -1 if all
// are in use.
func (e *Engine) idlest() int {
	return slices.IndexFunc(e.residents, func(r *resident) bool { return !e.isInUse(r.name) })
}

func (e *Engine) isInUse(model string) bool {
	of := func(j *Job) bool { return j.Model == model }
	return slices.ContainsFunc(e.loading, of) || slices.ContainsFunc(e.running, of) ||
		slices.ContainsFunc(e.decoding, of)
}

// bring makes the model of a request the one that was used last. It reports whether the
// model was not in memory.
func (e *Engine) bring(j *Job) (isNew bool) {
	at := e.find(j.Model)
	if isNew = at < 0; isNew {
		if e.spec.Room > 0 && len(e.residents) >= e.spec.Room {
			e.throwOut(e.idlest())
			e.Evictions++
		}
		e.residents = append(e.residents, &resident{name: j.Model, keep: e.spec.Keep})
		at = len(e.residents) - 1
	}
	r := e.residents[at]
	if r.used = e.clock; j.Keep != 0 {
		r.keep = j.Keep
	}
	e.residents = append(slices.Delete(e.residents, at, at+1), r)
	return isNew
}

// touch records that a model is in use now.
func (e *Engine) touch(model string) {
	if at := e.find(model); at >= 0 {
		e.residents[at].used = e.clock
	}
}

// throwOut takes a model out of memory, with its cache.
func (e *Engine) throwOut(at int) {
	delete(e.caches, e.residents[at].name)
	e.residents = slices.Delete(e.residents, at, at+1)
}

// startLoad begins to load the model of a request, or to wake the engine up.
func (e *Engine) startLoad(j *Job) {
	j.Loading = 0
	if e.bring(j) && e.spec.Room > 0 {
		j.Loading = e.spec.Load
		e.Loads++
	}
	if e.asleep != 0 {
		if j.Loading = e.spec.Wake; e.asleep > 1 {
			j.Loading = e.spec.Load // the weights are gone
		}
		j.wakes = e.asleep
		e.asleep = 0
		e.Wakes++
	}
	j.stage, j.fault, j.due = isLoading, Works, e.clock+j.Loading
	if j.Loading > 0 {
		switch j.fault = e.fault; j.fault {
		case Hangs:
			j.due = e.clock + forever
		case Dies:
			j.due = e.clock + j.Loading/2
		case Lies:
			j.fault = Works // a request that needs the model gets it
		}
	}
	e.loading = append(e.loading, j)
}

// endLoad ends a load. It returns the request if that has come to its end, too.
func (e *Engine) endLoad(j *Job) *Job {
	switch {
	case j.fault != Works:
		j.Failed = true
		e.giveUpLoad(j)
	case !j.LoadOnly:
		e.loading = without(e.loading, j)
		j.stage = waits
		e.queue = slices.Insert(e.queue, 0, j)
		e.fill(true)
		return nil
	default:
		e.loading = without(e.loading, j)
		e.touch(j.Model)
	}
	j.stage = gone
	e.fill(true)
	return j
}

// giveUpLoad ends a load without its model.
func (e *Engine) giveUpLoad(j *Job) {
	e.loading = without(e.loading, j)
	if e.asleep = j.wakes; e.asleep != 0 {
		return
	}
	if at := e.find(j.Model); at >= 0 && j.Loading > 0 {
		e.throwOut(at)
	}
}

// expire unloads models that have been idle for too long.
func (e *Engine) expire(now float64) {
	for at := len(e.residents) - 1; at >= 0; at-- {
		if r := e.residents[at]; r.keep > 0 && r.used+r.keep <= now && !e.isInUse(r.name) {
			e.throwOut(at)
		}
	}
}

// Retire takes a model out of memory when no request uses it any more.
func (e *Engine) Retire(model string) {
	if at := e.find(model); at >= 0 {
		e.residents[at].keep = soon
	}
}

// Unload takes a model out of memory at once, and returns the lost requests without a
// first token. It returns false if the model was not there.
func (e *Engine) Unload(model string, now float64) (lost []*Job, was bool) {
	e.advance(now)
	at := e.find(model)
	if at < 0 {
		return nil, false
	}
	for _, all := range []*[]*Job{&e.loading, &e.running, &e.decoding} {
		for _, j := range *all {
			if j.Model == model {
				if j.stage != isAnswered {
					lost = append(lost, j)
				}
				j.stage = gone
			}
		}
		*all = slices.DeleteFunc(*all, func(j *Job) bool { return j.stage == gone })
	}
	e.throwOut(at)
	e.fill(true)
	return lost, true
}

// Sleep puts the engine to sleep and empties its caches. Requests wait until one that
// only loads wakes it up. At level 2 the weights have to be loaded again.
func (e *Engine) Sleep(level int) {
	e.asleep = level
	clear(e.caches)
}
