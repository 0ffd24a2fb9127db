package calls

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// Recorder counts and records requests. A nil Recorder does neither.
type Recorder struct {
	counts *metrics.Registry
	pipeline

	// chance is how many of 2^32 calls are recorded.
	chance atomic.Uint64
	// tracing and traceNew are the same for traces.
	tracing  atomic.Bool
	traceNew atomic.Uint64
	// capture is the metrics.Capture in force: the parts of requests kept beside their
	// records.
	capture atomic.Uint32

	running runningList

	// levelObserver is called when the degradation level may have changed.
	levelObserver atomic.Pointer[func(Level)]

	mu      sync.Mutex // held while the configuration changes
	version atomic.Int64
}

// NewRecorder returns a recorder with settings that passed Check. It counts at
// once; Run moves its records on.
func NewRecorder(configured metrics.Settings) *Recorder {
	configured = settings.Clone(configured)
	r := &Recorder{counts: metrics.NewRegistry(&configured),
		pipeline: pipeline{tail: newTail(configured.Calls), wakes: make(chan struct{}, 1)}}
	r.level.Auto, r.level.Changed = true, r.counts.Started()
	r.apply(configured)
	return r
}

// Running is a request while it is answered.
type Running struct {
	// These are set before Enter, and nobody changes them until Leave.
	RequestID           string
	Started             time.Time
	Service             schema.ServiceType
	Door                schema.Door
	KeyID, Tenant, User string
	Client              netip.Addr
	// Stopper ends the request.
	Stopper interface{ Stop(cause error) }

	isListed       bool
	previous, next *Running // under the lock of the list

	mu              sync.Mutex
	model, instance string // that have the request; both are empty before they are known
	attempts        int
}

// Note notes who has the request now. A nil Running notes nothing.
func (r *Running) Note(model, instance string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.model, r.instance = model, instance
	if instance != "" {
		r.attempts++
	}
	r.mu.Unlock()
}

// Record returns the request so far as a record.
func (r *Running) Record() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Record{RequestID: r.RequestID, Started: r.Started, Service: r.Service, Door: r.Door, KeyID: r.KeyID,
		Tenant: r.Tenant, User: r.User, Client: r.Client, Model: r.model, Instance: r.instance,
		Attempts: r.attempts}
}

// runningList is the requests that run, the newest first.
type runningList struct {
	mu    sync.Mutex
	first *Running
}

// Enter shows a request to people until Leave, which must be called before its memory is used
// for something else.
func (r *Recorder) Enter(one *Running) {
	l := &r.running
	l.mu.Lock()
	defer l.mu.Unlock()
	one.isListed, one.previous, one.next = true, nil, l.first
	if l.first != nil {
		l.first.previous = one
	}
	l.first = one
}

// Leave removes a request that Enter added. It has no effect on a request that nobody sees.
func (r *Recorder) Leave(one *Running) {
	if !one.isListed {
		return
	}
	l := &r.running
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.next != nil {
		one.next.previous = one.previous
	}
	if one.previous != nil {
		one.previous.next = one.next
	} else {
		l.first = one.next
	}
	one.isListed, one.previous, one.next = false, nil, nil
}

// Running returns the requests that run, the newest first. The loop must neither wait nor
// keep the values it is given.
func (r *Recorder) Running() iter.Seq[*Running] {
	return func(yield func(*Running) bool) {
		r.running.mu.Lock()
		defer r.running.mu.Unlock()
		for one := r.running.first; one != nil && yield(one); one = one.next {
		}
	}
}

// Registry returns the counts, nil where there are none.
func (r *Recorder) Registry() *metrics.Registry {
	if r == nil {
		return nil
	}
	return r.counts
}

// EndStreams ends the feeds: a shutdown need not wait for their readers.
func (r *Recorder) EndStreams() { r.tail.endFeeds() }

// On reports whether anything is counted.
func (r *Recorder) On() bool { return r.Registry().On() }

// Finish counts a call that has ended and records it if sampling chooses it. The
// call is copied. A client that left before its request was let in is not counted.
func (r *Recorder) Finish(c *Record) {
	if isRecorded := r.finish(c); !isRecorded && c.Captured != nil {
		r.captures.release(c.Captured)
	}
}

func (r *Recorder) finish(c *Record) (isRecorded bool) {
	if !r.On() || c.Gone && !c.Routed {
		return false
	}
	c.Result = c.result()
	counted := c.counted()
	r.counts.Count(c.Series, &counted)
	if c.Result == schema.ResultOverloaded {
		return false // refused requests can be very many, and their records say little
	}
	//nolint:gosec // nobody gains by guessing it
	if chance := r.chance.Load(); chance > math.MaxUint32 || uint64(rand.Uint32()) < chance {
		return r.offer(c)
	}
	return false
}

// Capture returns where the headers and the bodies of a request are to be kept, nil
// while nothing is kept of requests.
func (r *Recorder) Capture() *Captured {
	if r == nil || r.capture.Load() == uint32(metrics.CaptureNone) {
		return nil
	}
	return &Captured{What: metrics.Capture(r.capture.Load()), room: &r.captures}
}

// Captured returns the captured parts of a recorded call that are in memory, or nil if
// there are none. The caller must not change them.
func (r *Recorder) Captured(c *Record) *Captured { return r.captures.of(c.Sequence) }

// FindCaptured is Captured for a person who waits: it also looks in the archive.
func (r *Recorder) FindCaptured(c *Record) *Captured {
	captured, archive := r.Captured(c), r.archive.Load()
	if captured == nil && archive != nil {
		captured = (*archive).Captured(c.Sequence)
	}
	return captured
}

// Settings returns the configuration in force, which must not be changed.
func (r *Recorder) Settings() *metrics.Settings { return r.counts.Settings() }

// Version counts the changes of the configuration since the start.
func (r *Recorder) Version() int64 { return r.version.Load() }

// Update changes the configuration. A change that breaks a rule changes nothing.
func (r *Recorder) Update(change func(*metrics.Settings)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.counts.Settings()
	next := settings.Clone(*before)
	change(&next)
	var broken []string
	next.Check(func(path string, fault say.Sentence) { broken = append(broken, path+" "+fault.String()) })
	if len(broken) > 0 {
		return errors.New(strings.Join(broken, "; "))
	}
	if !settings.Equal(next, *before) {
		r.apply(next)
	}
	return nil
}

func (r *Recorder) apply(s metrics.Settings) {
	r.counts.Configure(&s)
	r.version.Add(1)
	r.batchSize.Store(int64(min(s.Performance.BatchSize, bufferSize/2)))
	r.flushInterval.Store(int64(s.Performance.FlushInterval))
	r.updateChance()
	capture := s.Capture
	if !isRecording(&s) {
		capture = metrics.CaptureNone
	}
	before := metrics.Capture(r.capture.Swap(uint32(capture)))
	r.captures.limit(capture) // before the archive forgets: it takes them from there
	if archive := r.archive.Load(); archive != nil && capture < before {
		(*archive).Forget(capture)
	}
}

// isRecording reports whether calls are recorded at all.
func isRecording(s *metrics.Settings) bool {
	return s.Enabled && slices.Contains(s.EnabledCategories, metrics.CategoryRequest)
}

// updateChance derives the share of calls to record.
func (r *Recorder) updateChance() { r.chance.Store(uint64(r.SamplingRate() * (1 << 32))) }

// SamplingRate returns the part of the calls that is recorded now: the sampling
// rate, the share of the level, and nothing where the category is off.
func (r *Recorder) SamplingRate() float64 {
	s := r.counts.Settings()
	if !isRecording(s) {
		return 0
	}
	rate := r.level.status().Level.Share()
	if s.Sampling.Enabled {
		rate *= s.Sampling.Rate
	}
	return rate
}

// levelChanged makes a change of the degradation level take effect.
func (r *Recorder) levelChanged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updateChance()
	if observe := r.levelObserver.Load(); observe != nil {
		(*observe)(r.Degradation().Level)
	}
}

// ObserveLevel makes f be called with the degradation level whenever it may have
// changed. It must not wait.
func (r *Recorder) ObserveLevel(f func(Level)) { r.levelObserver.Store(&f) }

// Degradation returns the level in force.
func (r *Recorder) Degradation() DegradationStatus { return r.level.status() }

// SetLevel sets the degradation level by hand.
func (r *Recorder) SetLevel(l Level) {
	r.level.set(l, time.Now())
	r.levelChanged()
}

// SetAutoMode lets the level follow the error components, or not.
func (r *Recorder) SetAutoMode(on bool) {
	r.level.setAuto(on)
	r.maintain(time.Now())
}

// Recover returns to the normal level and forgets the errors that led away
// from it.
func (r *Recorder) Recover() {
	r.faults.clear()
	r.level.recover(time.Now())
	r.levelChanged()
}

// Faults returns the error components.
func (r *Recorder) Faults() FaultStats { return r.faults.stats(time.Now()) }

// NoteFault counts an error of a part of monitoring. The text is shown, so it
// must hold no secret and no address.
func (r *Recorder) NoteFault(component, operation, text string) {
	r.faults.note(component, operation, text, 1, time.Now())
}

// ResetFault forgets the errors of a component's operation.
func (r *Recorder) ResetFault(component, operation string) {
	r.faults.reset(component, operation)
	r.maintain(time.Now())
}

// Breaker returns the pipeline's circuit breaker.
func (r *Recorder) Breaker() BreakerStats { return r.breaker.stats() }

// ForceOpen stops all delivery of records until ForceClose. Counts go on.
func (r *Recorder) ForceOpen() { r.breaker.forceOpen(time.Now()) }

// ForceClose closes the breaker and resets its counts.
func (r *Recorder) ForceClose() {
	r.breaker.forceClose(time.Now())
	r.wake()
}

// Calls returns the latest records, the newest first. The loop must not keep the values it
// is given.
func (r *Recorder) Calls() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		r.drain(time.Now()) // readers see records that were not flushed yet
		r.Recorded()(yield)
	}
}

// Recorded is Calls for an observer: without the records that wait, among which is its batch.
func (r *Recorder) Recorded() iter.Seq[*Record] { return r.tail.latest(math.MaxUint64, false) }

// Search passes on calls, the newest first: calls in memory, then calls of the archive. A
// further search goes on before the number next; 0 means that there are no more.
func (r *Recorder) Search(ctx context.Context, q Query, yield func(*Record) bool) (next uint64, err error) {
	r.drain(time.Now())
	archive := r.archive.Load()
	for c := range r.tail.latest(q.Before, archive != nil) { // the archive may not have the older ones yet
		if c.Sequence <= q.After {
			return 0, nil
		}
		if q.Before = c.Sequence; !yield(c) {
			return q.Before, nil
		}
	}
	if archive == nil {
		return 0, nil
	}
	return (*archive).Search(ctx, q, yield)
}

// ArchivedDays returns for how many days calls are kept, 0 where they are only in memory.
func (r *Recorder) ArchivedDays() int {
	if archive := r.archive.Load(); archive != nil {
		return (*archive).Days()
	}
	return 0
}

// Subscribe returns a feed of records from now on. It ends where the reader is too
// slow.
func (r *Recorder) Subscribe() (*Cursor, error) { return r.watch(true) }

// Follow returns a feed of records from now on. A reader who is too slow misses
// some of them; Cursor.Missed tells how many.
func (r *Recorder) Follow() (*Cursor, error) { return r.watch(false) }

func (r *Recorder) watch(isStrict bool) (*Cursor, error) {
	feed, err := r.tail.open(&Cursor{room: feedRoom, isStrict: isStrict, wakeAt: 1, isFeed: true})
	if err == nil {
		r.wake()
	}
	return feed, err
}

// Export sends the records of traced calls somewhere else from now on.
func (r *Recorder) Export(to Exporter) { r.exporter.Store(&to) }

// Observe adds an observer, who gets all records that are kept. It must be called before the first
// request.
func (r *Recorder) Observe(observer Observer) { r.observers = append(r.observers, observer) }

// Flush moves the waiting records on to their readers.
func (r *Recorder) Flush() { r.drain(time.Now()) }

// NumberFrom gives the first record a number. It must be called before the first request.
func (r *Recorder) NumberFrom(first uint64) { r.tail.begin(first) }

// ArchiveTo makes searches go on in an archive, and returns the cursor by which it reads all
// records that are kept from now on, and the parts of calls that it may have. The cursor may fall
// room records behind, and is woken by a quarter of them.
func (r *Recorder) ArchiveTo(archive Archive, room uint64) (*Cursor, metrics.Capture) {
	cursor, _ := r.tail.open(&Cursor{room: room, wakeAt: room / 4}) // only feeds are refused
	r.archive.Store(&archive)
	return cursor, metrics.Capture(r.capture.Load())
}

// EndArchive ends the archive that reads by a cursor.
func (r *Recorder) EndArchive(cursor *Cursor) {
	r.archive.Store(nil)
	cursor.Close()
}

// State adds the state of recording to a scrape.
func (r *Recorder) State(to *metrics.State) {
	to.Count("model_router_monitoring_records_dropped_total", r.dropped.Load())
	to.Count("model_router_monitoring_records_waiting", int64(r.Cache().Current))
	to.Value("model_router_monitoring_sampling_ratio", r.SamplingRate())
	to.Count("model_router_monitoring_error_components", int64(r.Faults().Active))
}
