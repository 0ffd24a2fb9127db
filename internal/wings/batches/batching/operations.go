package batching

import (
	"fmt"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
)

// operations limits how often a key asks for files and batches, apart from what its limits say
// of requests to models: lines of its own batches must not keep it from looking at them.
type operations struct {
	accounts *allowance.Accounts

	mu     sync.Mutex
	pruned time.Time
}

const (
	operationsPerMinute  = 600
	concurrentOperations = 32
	// pruneEvery is how often the counts of all keys are forgotten, so that those of keys
	// that are gone do not stay.
	pruneEvery = time.Hour
)

func newOperations() *operations {
	return &operations{accounts: allowance.NewAccounts(nil), pruned: time.Now()}
}

// take counts an operation. A key without limits has none here either.
func (o *operations) take(use *allowance.Use, grant *access.Grant, now time.Time) error {
	if grant == nil || grant.Accounts == [2]*allowance.Account{} {
		return nil
	}
	o.prune(now)
	account := o.accounts.Open(allowance.KeyName(grant.ID), allowance.Limits{RequestsPerMinute: operationsPerMinute, ConcurrentRequests: concurrentOperations}, now)
	refusal := use.Take([2]*allowance.Account{account}, allowance.NoTokens, now)
	if refusal == nil {
		return nil
	}
	what := "in a minute"
	if refusal.Unit == allowance.Concurrency {
		what = "at a time"
	}
	known := schema.NewError(schema.CodeKeyRateLimited, fmt.Sprintf("This API key has made as many requests for files and batches as allowed %s, %d; try again in %s.",
		what, refusal.State.Limit, refusal.State.RetryAfter.Round(time.Millisecond)))
	known.RetryAfter, known.Spread, known.Of = max(refusal.State.RetryAfter, time.Millisecond), true, account.Name
	return known
}

func (o *operations) prune(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.pruned) > pruneEvery {
		o.pruned = now
		o.accounts.Keep(func(string) bool { return false })
	}
}
