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

func raiseTo(to *atomic.Int64, n int64) {
	for {
		old := to.Load()
		if n <= old || to.CompareAndSwap(old, n) {
			return
		}
	}
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

// Target says whether the first content of an answer came within the time that its request
// asked for.
type Target uint8

// What became of targets.
const (
	NoTarget Target = iota // there was none, or nobody knows
	TargetKept
	TargetMissed

	// TargetCount sizes arrays that are indexed by Target.
	TargetCount = int(TargetMissed) + 1
)

var targetNames = [TargetCount]string{"", "kept", "missed"}

var shedNames = [shedCount]string{"overload", "no_slot", "queue_full", "queue_timeout"}

// Instance is the series of one instance. It lives as long as the instance's
// state and must not be copied.
type Instance struct {
	requests            [statusCount]Counter
	cancelled           [statusCount]Counter // the ones that ended because the client left
	tokensIn, tokensOut Counter
	tokensCached        Counter // the part of tokensIn that came from a cache of prompts
	cost                Counter // in 10^-12 of the currency's unit
	// duration and firstToken are those of whole requests, callDuration and callFirst begin when
	// the instance was picked: it is not to blame for what was before.
	duration, firstToken    Histogram
	callDuration, callFirst Histogram
	perToken                Histogram
	estimate                Histogram // of ratios
	// held adds up how long requests waited for the model to load, in nanoseconds.
	held Counter
	// Failovers counts the calls that failed and were followed by a try on another
	// instance.
	Failovers Counter
	// Mended counts the arguments of tool calls that were replaced in requests.
	Mended Counter
}

// NewInstance returns series at zero.
func NewInstance() *Instance { return new(Instance) }

// Requests returns how many requests had a result on this instance that is no
// rejection.
func (i *Instance) Requests(result schema.Result) int64 { return i.requests[result].Value() }

// KeepExemplar keeps a request of a trace as the exemplar of its duration.
func (i *Instance) KeepExemplar(trace string, took time.Duration, at time.Time) {
	i.duration.keepExemplar(requestBounds, exemplar{trace, took, at})
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
	targets       [TargetCount]Counter // by Target
	queueWait     Histogram
	classWait     [schema.ClassCount]Histogram // the same by class
	overhead      Histogram
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
	// Also counts the request as well; nil if nothing else does.
	Also *Counter
	// Cost is in 10^-12 of the currency's unit.
	Cost int64
	// Duration is the time from the arrival of the request to the end of its answer.
	// FirstToken is the time to the first content of a streamed answer, PerToken the time
	// of each later token, Queued the time spent waiting for a slot. Zero means none or
	// unknown.
	Duration, FirstToken, PerToken, Queued time.Duration
	// Picked is when the instance that answered was picked, counted from the arrival.
	Picked time.Duration
	// Held is the part of Queued spent waiting for the model to load.
	Held time.Duration
	// Class is how urgent the request was while it waited. The waits of Spare are not counted:
	// it waits until nobody else does.
	Class schema.Class
	// Target says whether the first content came within the time that was asked for.
	Target Target
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
	if r.Also != nil {
		r.Also.Add(1)
	}
	s.targets[r.Target].Add(1)
	if i == nil {
		i = &s.none
	}
	i.requests[r.Result].Add(1)
	i.duration.Observe(r.Duration)
	i.callDuration.count(BucketOf(r.Duration - r.Picked))
	if r.Cancelled {
		i.cancelled[r.Result].Add(1)
	}
	if r.FirstToken > 0 {
		i.firstToken.Observe(r.FirstToken)
		if r.FirstToken > r.Picked { // otherwise it came from another instance, before the stream broke
			i.callFirst.count(BucketOf(r.FirstToken - r.Picked))
		}
	}
	if r.Held > 0 {
		i.held.Add(int64(r.Held))
	}
	if r.PerToken > 0 {
		i.perToken.Observe(r.PerToken)
	}
	if r.Estimate > 0 {
		i.estimate.Observe(time.Duration(min(r.Estimate, mostRatio) * ratioScale * float64(ratio)))
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
