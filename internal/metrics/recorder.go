package metrics

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Recorder is where requests are counted and recorded. A nil Recorder does
// neither.
type Recorder struct {
	services services
	http     [surfaceCount][outcomeCount]Timer
	pipe     *pipeline
	started  time.Time

	// on and chance are what requests look at: whether to count, and which part
	// of 2^32 to record.
	on     atomic.Bool
	chance atomic.Uint64
	// tracing and traceNew are the same for traces.
	tracing  atomic.Bool
	traceNew atomic.Uint64

	mu       sync.Mutex // one change at a time
	settings atomic.Pointer[Settings]
	version  atomic.Int64
}

// NewRecorder returns a recorder with settings that passed Check. It counts at
// once; Run moves its records on.
func NewRecorder(settings Settings) *Recorder {
	r := &Recorder{started: time.Now()}
	r.pipe = newPipeline(settings.Calls, r.retune)
	for i := range r.services {
		r.services[i].prepare()
	}
	r.pipe.level.changed = r.started
	r.apply(settings.Clone())
	return r
}

// Run moves records on until ctx ends, and then those that are left.
func (r *Recorder) Run(ctx context.Context) { r.pipe.run(ctx) }

// EndStreams ends the live subscriptions, so that a shutdown need not wait for
// their readers.
func (r *Recorder) EndStreams() { r.pipe.hub.close() }

// On tells whether anything is counted.
func (r *Recorder) On() bool { return r != nil && r.on.Load() }

// Finish counts a request that has ended, on the series of the instance that
// answered last (nil for none), and records it if its turn comes. The call is
// copied.
func (r *Recorder) Finish(i *Instance, c *Call) {
	if !r.On() {
		return
	}
	r.services[c.Service].count(i, c)
	c.series = i
	if chance := r.chance.Load(); chance > math.MaxUint32 || uint64(rand.Uint32()) < chance { //nolint:gosec // nobody gains by guessing it
		r.pipe.offer(c)
	}
}

// Shed counts work that was given up for want of room.
func (r *Recorder) Shed(service schema.ServiceType, how Shed) {
	if r.On() {
		r.services[service].shed[how].Add(1)
	}
}

// Settings returns the configuration in force. Nobody may change it.
func (r *Recorder) Settings() *Settings { return r.settings.Load() }

// Version counts the changes of the configuration since the start.
func (r *Recorder) Version() int64 { return r.version.Load() }

// Update changes the configuration. A change that breaks a rule changes nothing.
func (r *Recorder) Update(change func(*Settings)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.settings.Load()
	next := before.Clone()
	change(&next)
	var broken []string
	next.Check(func(path, message string) { broken = append(broken, path+" "+message) })
	if len(broken) > 0 {
		return errors.New(strings.Join(broken, "; "))
	}
	if !next.Equal(*before) {
		r.apply(next)
	}
	return nil
}

func (r *Recorder) apply(s Settings) {
	r.settings.Store(&s)
	r.version.Add(1)
	r.pipe.batchSize.Store(int64(min(s.Performance.BatchSize, bufferSize/2)))
	r.pipe.flushInterval.Store(int64(s.Performance.FlushInterval))
	r.on.Store(s.Enabled)
	r.tune()
}

// tune derives what part of the calls is recorded.
func (r *Recorder) tune() { r.chance.Store(uint64(r.SamplingRate() * (1 << 32))) }

// SamplingRate returns the part of the calls that is recorded now: the sampling
// rate, the share of the level, and nothing where the category is off.
func (r *Recorder) SamplingRate() float64 {
	s := r.settings.Load()
	if !s.Enabled || !slices.Contains(s.EnabledCategories, CategoryRequest) {
		return 0
	}
	rate := r.pipe.level.status().Level.Share()
	if s.Sampling.Enabled {
		rate *= s.Sampling.Rate
	}
	return rate
}

// retune makes a change of the degradation level take effect.
func (r *Recorder) retune() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tune()
}

// Degradation returns the level in force.
func (r *Recorder) Degradation() DegradationStatus { return r.pipe.level.status() }

// SetLevel sets the degradation level by hand.
func (r *Recorder) SetLevel(l Level) {
	r.pipe.level.set(l, time.Now())
	r.retune()
}

// SetAutoMode lets the level follow the error components, or not.
func (r *Recorder) SetAutoMode(on bool) {
	r.pipe.level.setAuto(on)
	r.pipe.lookAfter(time.Now())
}

// Recover returns to the normal level and forgets the errors that led away
// from it.
func (r *Recorder) Recover() {
	r.pipe.faults.clear()
	r.pipe.level.recover(time.Now())
	r.retune()
}

// Faults returns the error components.
func (r *Recorder) Faults() FaultStats { return r.pipe.faults.stats(time.Now()) }

// NoteFault counts an error of a part of monitoring. The text is shown, so it
// must hold no secret and no address.
func (r *Recorder) NoteFault(component, operation, text string) {
	r.pipe.faults.note(component, operation, text, 1, time.Now())
}

// ResetFault forgets the errors of a component's operation.
func (r *Recorder) ResetFault(component, operation string) {
	r.pipe.faults.reset(component, operation)
	r.pipe.lookAfter(time.Now())
}

// Cache returns the records that wait.
func (r *Recorder) Cache() CacheStats { return r.pipe.cache() }

// ClearCache drops the records that wait.
func (r *Recorder) ClearCache() { r.pipe.clear() }

// Guard returns the pipeline's circuit breaker.
func (r *Recorder) Guard() GuardStats { return r.pipe.guard.stats() }

// ForceOpen stops all delivery of records until ForceClose. Counts go on.
func (r *Recorder) ForceOpen() { r.pipe.guard.forceOpen(time.Now()) }

// ForceClose makes the breaker a closed one that has seen nothing.
func (r *Recorder) ForceClose() {
	r.pipe.guard.forceClose(time.Now())
	r.pipe.wake()
}

// Calls returns the latest records, the newest first. The loop must not keep
// what it is given, nor take long.
func (r *Recorder) Calls() iter.Seq[*Call] {
	return func(yield func(*Call) bool) {
		r.pipe.drain(time.Now()) // who asks wants what is there, not what was flushed
		r.pipe.ring.latest(yield)
	}
}

// Subscribe returns a feed of records from now on.
func (r *Recorder) Subscribe() (*Subscription, error) {
	s, err := r.pipe.hub.subscribe()
	if err == nil {
		r.pipe.wake()
	}
	return s, err
}

// Export sends the records of traced calls somewhere else from now on.
func (r *Recorder) Export(to Exporter) { r.pipe.exporter.Store(&to) }

// Started returns since when is counted.
func (r *Recorder) Started() time.Time { return r.started }

// Service returns the series of a service type.
func (r *Recorder) Service(t schema.ServiceType) *Service { return &r.services[t] }
