package proxy

import "sync/atomic"

const (
	// retryShare is the part of the requests in flight that may be second
	// attempts: an outage must not double the load on what is left.
	retryShare = 5 // one in five
	// retryFloor are always allowed, so that a quiet gateway can fail over.
	retryFloor = 3
)

// budget keeps second attempts in proportion to the traffic.
type budget struct {
	inFlight atomic.Int64
	retries  atomic.Int64
}

func (b *budget) enter() { b.inFlight.Add(1) }
func (b *budget) leave() { b.inFlight.Add(-1) }

// mayRetry takes a place for another attempt, given back by retried.
func (b *budget) mayRetry() bool {
	most := max(retryFloor, b.inFlight.Load()/retryShare)
	if b.retries.Add(1) <= most {
		return true
	}
	b.retries.Add(-1)
	return false
}

func (b *budget) retried() { b.retries.Add(-1) }
