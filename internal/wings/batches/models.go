package batches

import (
	"maps"
	"slices"
)

// mostModels is how many models of one batch are remembered.
const mostModels = 100

// servedOf returns the models that are served now, sorted.
func (e *Engine) servedOf(endpoint string, models map[string]bool) (served []string) {
	for _, model := range slices.Sorted(maps.Keys(models)) {
		if e.o.Runner.Presence(endpoint, model) == Served {
			served = append(served, model)
		}
	}
	return served
}

// hasServed reports whether a model was served at some time since the batch was made: lines
// then wait for it.
func (j *job) hasServed(model string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.served[model]
}

// noteServed notes that a model is served. The caller has the lock of the job.
func (j *job) noteServed(model string) {
	if !j.served[model] && len(j.served) < mostModels {
		j.served[model], j.unnoted = true, true
	}
}

// storeServed notes the served models in the batch, for the gateway that runs it after a
// crash.
func (j *job) storeServed() error {
	j.mu.Lock()
	isDue := j.unnoted
	j.unnoted = false
	names := slices.Sorted(maps.Keys(j.served))
	j.mu.Unlock()
	if !isDue {
		return nil
	}
	return j.store(func(b *Batch) bool {
		if b.State.IsEnd() {
			return false
		}
		known := len(b.Models)
		b.Models = slices.Compact(slices.Sorted(slices.Values(append(b.Models, names...))))
		return len(b.Models) > known
	})
}
