package account

import (
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Operations limits how often a key asks for files and batches, apart from its limits on
// requests to models: lines of its own batches must not keep it from looking at them.
type Operations struct {
	accounts *allowance.Accounts

	mu     sync.Mutex
	pruned time.Time
}

const (
	operationsPerMinute  = 600
	concurrentOperations = 32
	// pruneEvery is the time after which the counts of all keys are forgotten. Otherwise
	// the counts of deleted keys would stay.
	pruneEvery = time.Hour
)

// NewOperations returns an Operations that has counted nothing.
func NewOperations() *Operations {
	return &Operations{accounts: allowance.NewAccounts(nil), pruned: time.Now()}
}

// Visit opens the account of one operation. A key without limits has none here either.
func (o *Operations) Visit(a *Account) error {
	a.stage = ended // there is nothing to settle
	grant, now := a.Caller.Grant, time.Now()
	if grant == nil || grant.Accounts == [2]*allowance.Account{} {
		return nil
	}
	o.prune(now)
	limits := allowance.Limits{RequestsPerMinute: operationsPerMinute, ConcurrentRequests: concurrentOperations}
	account := o.accounts.Open(allowance.KeyName(grant.ID), limits, now)
	refusal := a.use.Take([2]*allowance.Account{account}, allowance.NoTokens, now)
	if refusal == nil {
		return nil
	}
	when := say.Code("batch.in_minute")
	if refusal.Unit == allowance.Concurrency {
		when = "batch.at_once"
	}
	return refusedFor(refusal, say.New("batch.operations", "when", say.New(when), "most", refusal.State.Limit,
		"time", refusal.State.RetryAfter))
}

func (o *Operations) prune(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.pruned) > pruneEvery {
		o.pruned = now
		o.accounts.Keep(func(string) bool { return false })
	}
}
