// Package proxy takes one unified request from its routing to its end: find a
// pool, pick an instance, call it, try another one if that is allowed, and
// settle exactly once.
package proxy

import (
	"context"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/proxy/transport"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Proxy answers unified requests from backends.
type Proxy struct {
	current *routing.Current
	client  *transport.Client
	replies sync.Pool
}

// New returns a proxy that routes by the current table and calls over the client.
func New(current *routing.Current, client *transport.Client) *Proxy {
	return &Proxy{current: current, client: client, replies: sync.Pool{New: func() any { return new(Reply) }}}
}

// Do answers a request. On success the caller reads the reply and closes it; on
// failure the error is a *schema.Error, or the context's own when the client
// left. The Reply is returned in both cases and tells what was tried.
//
// The steps, top to bottom: find the pool, pick an instance, call it; a failure
// that another instance may not have leads to the next one, as long as nothing
// was sent to the client.
func (p *Proxy) Do(ctx context.Context, req *schema.Request, caller *schema.Caller) (*Reply, error) {
	r := p.replies.Get().(*Reply)
	r.proxy, r.req, r.caller = p, req, caller
	table := p.current.Load()
	service := table.Service(req.Service)
	pool := service.FindBytes(req.Model)
	if pool == nil {
		return r, unknownModel(service, req)
	}
	r.Model = pool.Model
	r.limits = &table.Limits
	var failed *fault
	for r.Attempts < table.Limits.MaxAttempts {
		instance := r.pick(pool)
		if instance == nil {
			break
		}
		r.Attempts++
		if failed = r.try(ctx, instance); failed == nil {
			return r, nil
		}
		r.release(failed.outcome)
		if !failed.elsewhere || ctx.Err() != nil {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return r, context.Cause(ctx)
	}
	if failed == nil {
		return r, nobodyReady(pool)
	}
	return r, failed.err
}

// pick chooses and acquires an instance that was not tried yet, or returns nil
// when there is none.
func (r *Reply) pick(pool *routing.Pool) *backend.Instance {
	for {
		r.candidates = r.candidates[:0]
		for _, i := range pool.Instances {
			if i.Ready() && !r.wasTried(i) {
				r.candidates = append(r.candidates, i)
			}
		}
		if len(r.candidates) == 0 {
			return nil
		}
		instance := pool.Balancer.Pick(r.candidates, r.caller.Addr)
		if instance.Acquire() {
			r.tried = append(r.tried, instance)
			return instance
		}
		// Somebody took its last place between the question and the answer.
	}
}

func (r *Reply) wasTried(i *backend.Instance) bool {
	for _, t := range r.tried {
		if t == i {
			return true
		}
	}
	return false
}
