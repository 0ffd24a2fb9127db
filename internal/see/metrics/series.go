package metrics

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Counter is a count that only grows.
type Counter struct{ n atomic.Int64 }

// Add adds to the count.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// AddUpTo adds to the count, which stays at the greatest number beyond that.
func (c *Counter) AddUpTo(n int64) {
	for {
		before := c.n.Load()
		if c.n.CompareAndSwap(before, before+min(n, math.MaxInt64-before)) {
			return
		}
	}
}

// Value returns the count.
func (c *Counter) Value() int64 { return c.n.Load() }

// Timer counts lengths of time and adds them up.
type Timer struct {
	count, sum, longest atomic.Int64
}

// Observe counts one length of time.
func (t *Timer) Observe(d time.Duration) {
	t.count.Add(1)
	t.sum.Add(int64(d))
	raiseTo(&t.longest, int64(d))
}

func raiseTo(to *atomic.Int64, n int64) {
	for {
		old := to.Load()
		if n <= old || to.CompareAndSwap(old, n) {
			return
		}
	}
}

// maxBuckets is the largest number of bounds of a histogram.
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
	// ratio is a ratio of 1 in a histogram, which shows it as 1.
	ratio = time.Second
	// mostRatio keeps a ratio that means nothing from filling the sum.
	mostRatio = 1000
)

// ratioBounds are the bounds for the actual value divided by the expected one.
var ratioBounds = []time.Duration{
	ratio / 10, ratio / 5, ratio / 3, ratio / 2, ratio * 2 / 3, ratio * 4 / 5, ratio,
	ratio * 5 / 4, ratio * 3 / 2, ratio * 2, ratio * 3, ratio * 5, ratio * 10, ratio * 30,
}

// Histogram counts lengths of time by their size. Its bounds must be set before it is
// used, and it must not be copied.
type Histogram struct {
	bounds       []time.Duration // the upper bounds of the buckets
	counts       [maxBuckets + 1]atomic.Uint64
	sum, longest atomic.Int64
	exemplars    [maxBuckets + 1]atomic.Pointer[exemplar]
}

// exemplar is one observation of a bucket that can be looked up as a trace.
type exemplar struct {
	trace string
	took  time.Duration
	at    time.Time
}

// Observe counts one length of time.
func (h *Histogram) Observe(d time.Duration) {
	h.counts[h.bucket(d)].Add(1)
	h.sum.Add(int64(d))
	raiseTo(&h.longest, int64(d))
}

func (h *Histogram) bucket(d time.Duration) int { return bucketOf(h.bounds, d) }

func bucketOf(bounds []time.Duration, d time.Duration) int {
	for i, bound := range bounds {
		if d <= bound {
			return i
		}
	}
	return maxBuckets
}

// keepExemplar keeps an observation as the example of its bucket.
func (h *Histogram) keepExemplar(trace string, took time.Duration, at time.Time) {
	h.exemplars[h.bucket(took)].Store(&exemplar{trace, took, at})
}

// HistogramSnapshot is a histogram at one moment.
type HistogramSnapshot struct {
	bounds    []time.Duration
	counts    [maxBuckets + 1]uint64
	exemplars [maxBuckets + 1]*exemplar
	Count     uint64
	Sum, Max  time.Duration
}

// Snapshot returns the histogram as it is now. Its count is the sum of its
// buckets, whatever is counted meanwhile.
func (h *Histogram) Snapshot() HistogramSnapshot {
	s := HistogramSnapshot{bounds: h.bounds, Sum: time.Duration(h.sum.Load()), Max: time.Duration(h.longest.Load())}
	for i := range h.counts {
		s.counts[i] = h.counts[i].Load()
		s.exemplars[i] = h.exemplars[i].Load()
		s.Count += s.counts[i]
	}
	return s
}

// merge adds another histogram of the same bounds.
func (s *HistogramSnapshot) merge(other *HistogramSnapshot) {
	for i := range s.counts {
		s.counts[i] += other.counts[i]
		if s.exemplars[i] == nil {
			s.exemplars[i] = other.exemplars[i]
		}
	}
	s.Count += other.Count
	s.Sum += other.Sum
	s.Max = max(s.Max, other.Max)
}

// statusCount counts the results of requests that were not rejected: success,
// and the ways to fail.
const statusCount = int(schema.ResultInvalid)

// Shed is the reason for refusing a request without room for it.
type Shed uint8

// The reasons for shedding.
const (
	ShedOverload  Shed = iota // too many requests in flight, or too little memory
	ShedNoSlot                // all slots are taken and there is no queue
	ShedQueueFull             // the queue is full
	ShedQueueTime             // the request waited for too long

	shedCount = int(ShedQueueTime) + 1
)

// Resumed is the fate of a broken stream that another instance was to continue.
type Resumed uint8

// The fates of a broken stream.
const (
	// ResumedRestarted means that nothing had been sent that a model made.
	ResumedRestarted Resumed = iota
	// ResumedContinued means that a model went on with the text that was sent.
	ResumedContinued
	// ResumedAligned means that the answer was made again, without the part already sent.
	ResumedAligned
	// NotResumed means that it ended with an error.
	NotResumed

	resumedCount = int(NotResumed) + 1
)

var resumedNames = [resumedCount]string{"restarted", "continued", "aligned", "ended"}

// Hedged is the fate of a second call that was due because the first was slow.
type Hedged uint8

// The fates of second calls.
const (
	HedgeNone    Hedged = iota // none was due
	HedgeWon                   // it answered first
	HedgeLost                  // the first call answered first
	HedgeRefused               // it was not made

	// HedgedCount sizes arrays that are indexed by Hedged.
	HedgedCount = int(HedgeRefused) + 1
)

var hedgedNames = [HedgedCount]string{"", "won", "lost", "refused"}

// String returns the word for it, empty where none was due.
func (h Hedged) String() string { return hedgedNames[h] }

var shedNames = [shedCount]string{"overload", "no_slot", "queue_full", "queue_timeout"}

// Instance is the series of one instance. It lives as long as the instance's
// state and must not be copied.
type Instance struct {
	requests            [statusCount]Counter
	cancelled           [statusCount]Counter // the ones that ended because the client left
	tokensIn, tokensOut Counter
	tokensCached        Counter // the part of tokensIn that came from a cache of prompts
	cost                Counter // in 10^-12 of the currency's unit
	duration            Histogram
	firstToken          Histogram
	perToken            Histogram
	estimate            Histogram // of ratios
	// Failovers counts the calls that failed and were followed by a try on another
	// instance.
	Failovers Counter
}

// NewInstance returns series at zero.
func NewInstance() *Instance {
	i := new(Instance)
	i.setBounds()
	return i
}

func (i *Instance) setBounds() {
	i.duration.bounds, i.firstToken.bounds, i.perToken.bounds = requestBounds, requestBounds, tokenBounds
	i.estimate.bounds = ratioBounds
}

// Requests returns how many requests had a result on this instance that is no
// rejection.
func (i *Instance) Requests(result schema.Result) int64 { return i.requests[result].Value() }

// KeepExemplar keeps a request of a trace as the exemplar of its duration.
func (i *Instance) KeepExemplar(trace string, took time.Duration, at time.Time) {
	i.duration.keepExemplar(trace, took, at)
}

// cancelledRequests returns the number of requests that ended because the client left.
func (i *Instance) cancelledRequests() int64 {
	var n int64
	for result := range i.cancelled {
		n += i.cancelled[result].Value()
	}
	return n
}

// Outcomes returns how many calls to this instance went well and how many did not, by the
// results of the requests. A failed call that another instance was tried for went badly
// here. A call that the client left is neither.
func (i *Instance) Outcomes() (good, bad int64) {
	// cancelled is incremented after requests, so it is read first: that keeps the
	// differences from falling below 0.
	good, bad = -i.cancelled[schema.ResultSuccess].Value(), i.Failovers.Value()
	for _, result := range [...]schema.Result{schema.ResultFailed, schema.ResultTimedOut} {
		bad -= i.cancelled[result].Value()
		bad += i.Requests(result)
	}
	return good + i.Requests(schema.ResultSuccess), bad
}

// Service is the series of a service type.
type Service struct {
	// none counts the requests that no instance answered.
	none      Instance
	rejected  [schema.ResultCount]Counter
	shed      [shedCount]Counter
	fallbacks [naming.ReasonCount]Counter
	// split counts requests that several instances shared, and pieces their calls.
	split, pieces Counter
	resumed       [resumedCount]Counter
	hedges        [HedgedCount]Counter // by Hedged
	cached        [CachedCount]Counter
	queueWait     Histogram
	classWait     [schema.ClassCount]Histogram // the same by class
	overhead      Histogram
}

func (s *Service) setBounds() {
	s.none.setBounds()
	s.queueWait.bounds, s.overhead.bounds = requestBounds, overheadBounds
	for class := range s.classWait {
		s.classWait[class].bounds = requestBounds
	}
}

// Cached is the part that the cache of answers played in a request.
type Cached uint8

// The parts that the cache of answers plays.
const (
	CacheOff    Cached = iota // it is not on for the request
	CacheHit                  // the answer came from it
	CacheMiss                 // it did not have the answer
	CacheBypass               // it was not asked, or does not keep the answer
	CacheShared               // an equal request in flight shared its answer

	// CachedCount sizes arrays that are indexed by Cached.
	CachedCount = int(CacheShared) + 1
)

var cachedNames = [CachedCount]string{"", "hit", "miss", "bypass", "shared"}

// String returns the word that clients see, empty for CacheOff.
func (c Cached) String() string { return cachedNames[c] }

// Request holds the counted properties of a request that has ended.
type Request struct {
	Service schema.ServiceType
	Door    schema.Door
	Result  schema.Result
	// Cancelled says that the client left before it had the whole answer.
	Cancelled bool
	Usage     schema.Usage
	Cache     Cached
	// Cost is in 10^-12 of the currency's unit.
	Cost int64
	// Duration is the time from the arrival of the request to the end of its answer.
	// FirstToken is the time to the first content of a streamed answer, PerToken the time
	// of each later token, Queued the time spent waiting for a slot. Zero means none or
	// unknown.
	Duration, FirstToken, PerToken, Queued time.Duration
	// Class is how urgent the request was while it waited. The waits of Spare are not counted:
	// it waits until nobody else does.
	Class schema.Class
	// Estimate is the true time to the first token by the one that was expected; zero where
	// nothing was expected, or nothing came true.
	Estimate float64
	// Overhead is the time that the gateway took for itself. It is negative where
	// no backend was called.
	Overhead time.Duration
}

// count adds a request that has ended.
func (s *Service) count(i *Instance, r *Request) {
	if r.Queued > 0 && r.Class != schema.Spare { // requests that waited in vain have waited too
		s.queueWait.Observe(r.Queued)
		s.classWait[r.Class.Or(schema.Normal)].Observe(r.Queued)
	}
	if r.Result == schema.ResultOverloaded {
		s.shed[ShedOverload].Add(1)
		return
	}
	if r.Result.Rejected() {
		s.rejected[r.Result].Add(1)
		return
	}
	s.cached[r.Cache].Add(1)
	if i == nil {
		i = &s.none
	}
	i.requests[r.Result].Add(1)
	i.duration.Observe(r.Duration)
	if r.Cancelled {
		i.cancelled[r.Result].Add(1)
	}
	if r.FirstToken > 0 {
		i.firstToken.Observe(r.FirstToken)
	}
	if r.PerToken > 0 {
		i.perToken.Observe(r.PerToken)
	}
	if r.Estimate > 0 {
		i.estimate.Observe(time.Duration(min(r.Estimate, mostRatio) * float64(ratio)))
	}
	if r.Usage.Known {
		i.tokensIn.Add(r.Usage.Prompt)
		i.tokensOut.Add(r.Usage.Completion)
		if r.Usage.Cached > 0 {
			i.tokensCached.Add(r.Usage.Cached)
		}
	}
	if r.Cost > 0 {
		i.cost.AddUpTo(r.Cost)
	}
	if r.Overhead >= 0 {
		s.overhead.Observe(r.Overhead)
	}
}

// services holds the series of every service type.
type services [schema.ServiceTypeCount]Service
