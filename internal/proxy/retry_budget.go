package proxy

import "sync/atomic"

const (
	// retryShare bounds retries at instances that have failed recently: at most one
	// in retryShare requests in flight may be one, so that an outage does not double
	// the load on the instances that are left.
	retryShare = 5
	// retryFloor retries at a time are always allowed, so that a gateway with little
	// traffic can fail over.
	retryFloor = 3
	// retryCost is how many requests must have arrived for each retry beyond the
	// floor. The share alone does not bound the load: the faster retries fail, the
	// more of them fit into it.
	retryCost = 6
	// maxCredit is how many retries a time without failures can save up for the
	// moment in which an instance goes away, and how far charge can overdraw.
	maxCredit = 20
)

// retryBudget keeps the retries of a service type in proportion to its traffic.
type retryBudget struct {
	inFlight atomic.Int64
	retries  atomic.Int64
	credit   atomic.Int64 // every request adds 1, every retry takes retryCost
	_        [40]byte     // keeps two budgets out of the same cache line
}

// enter counts a request that begins.
func (b *retryBudget) enter() {
	b.inFlight.Add(1)
	if b.credit.Load() < retryCost*maxCredit { // a race exceeds the bound by little
		b.credit.Add(1)
	}
}

// leave counts a request that ends.
func (b *retryBudget) leave() { b.inFlight.Add(-1) }

// beginRetry tells whether a request may be retried. If so, endRetry must follow.
func (b *retryBudget) beginRetry() bool {
	running := b.retries.Add(1)
	if running <= retryFloor {
		b.spend() // the retry is allowed even without credit
		return true
	}
	if running <= b.inFlight.Load()/retryShare && b.spend() {
		return true
	}
	b.retries.Add(-1)
	return false
}

// charge takes the cost of a retry that is made in any case, even if the credit
// becomes negative. At the beginning of an outage all instances still seem to be well;
// later retries make up for what that costs.
func (b *retryBudget) charge() {
	if b.credit.Load() > -retryCost*maxCredit { // a race exceeds the bound by little
		b.credit.Add(-retryCost)
	}
}

// spend takes the cost of a retry if there is enough credit.
func (b *retryBudget) spend() bool {
	for {
		credit := b.credit.Load()
		if credit < retryCost {
			return false
		}
		if b.credit.CompareAndSwap(credit, credit-retryCost) {
			return true
		}
	}
}

// endRetry ends a retry that beginRetry allowed.
func (b *retryBudget) endRetry() { b.retries.Add(-1) }
