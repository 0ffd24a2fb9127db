package proxy

import "sync/atomic"

const (
	// retryShare is the part of the requests in flight that may be second
	// attempts at instances that failed themselves: an outage must not double
	// the load on what is left.
	retryShare = 5 // one in five
	// retryFloor are always allowed, so that a quiet gateway can fail over.
	retryFloor = 3
	// retryPrice is how many requests must have come for a second attempt beyond
	// the floor. The share alone does not bound the load: attempts that fail
	// faster than the first ones pass through it more often.
	retryPrice = 6
	// retrySavings is how many second attempts quiet times can save up, for the
	// moment in which an instance goes away, and how many can be owed.
	retrySavings = 20
)

// budget keeps second attempts in proportion to the traffic of a service type.
type budget struct {
	inFlight atomic.Int64
	retries  atomic.Int64
	earned   atomic.Int64 // in requests; below zero it is owed
	_        [40]byte     // one service type does not wait for the memory of another
}

func (b *budget) enter() {
	b.inFlight.Add(1)
	if b.earned.Load() < retryPrice*retrySavings { // a few too many do no harm
		b.earned.Add(1)
	}
}

func (b *budget) leave() { b.inFlight.Add(-1) }

// mayRetry takes a place for another attempt, given back by retried.
func (b *budget) mayRetry() bool {
	running := b.retries.Add(1)
	if running <= retryFloor {
		b.pay() // as long as there is something
		return true
	}
	if running <= b.inFlight.Load()/retryShare && b.pay() {
		return true
	}
	b.retries.Add(-1)
	return false
}

// owe counts an attempt that is made in any case. At the beginning of an outage
// all instances still seem to be well; what that costs, later attempts save.
func (b *budget) owe() {
	if b.earned.Load() > -retryPrice*retrySavings { // a few too many do no harm
		b.earned.Add(-retryPrice)
	}
}

// pay spends what one attempt costs, if that much was earned.
func (b *budget) pay() bool {
	for {
		earned := b.earned.Load()
		if earned < retryPrice {
			return false
		}
		if b.earned.CompareAndSwap(earned, earned-retryPrice) {
			return true
		}
	}
}

func (b *budget) retried() { b.retries.Add(-1) }
