// Package proxy takes one unified request from its routing to its end: it chooses
// an instance, calls it, tries another one if that is allowed, sends the answer to
// the client's side, and settles exactly once.
package proxy

import (
	"cmp"
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

// Proxy answers unified requests from backends.
type Proxy struct {
	hop     string // the name of this gateway among those that a request passes
	current *routing.Current
	client  *transport.Client
	budgets [schema.ServiceTypeCount]budget
	runs    sync.Pool
	seed    maphash.Seed // of the digests of requests
	silence time.Duration
	// recorder counts failovers and requests that are shed; nil counts nothing.
	recorder *calls.Recorder
	// ledger counts what reaches a backend; nil counts nothing.
	ledger *quota.Ledger
}

// defaultSilence is the silence in a stream after which a comment is sent. Some
// clients give up on streams with many comments in a row, so that it is long.
const defaultSilence = 15 * time.Second

// New returns a proxy that routes by the current table and calls over the client.
func New(current *routing.Current, client *transport.Client) *Proxy {
	return &Proxy{
		hop: newHop(), current: current, client: client, seed: maphash.MakeSeed(), silence: defaultSilence,
		runs: sync.Pool{New: func() any { return new(run) }},
	}
}

// CommentAfter sets the silence in a stream after which a comment is sent, so that
// proxies on the way do not take the stream for dead; 0 leaves it at 15 seconds. It
// is called before the first request.
func (p *Proxy) CommentAfter(silence time.Duration) { p.silence = cmp.Or(silence, defaultSilence) }

// Do answers a request through a sink. It returns nil where the sink was given an
// answer, also one that ends with an error. Otherwise the sink was given no answer,
// and the error is a *schema.Error to tell the client, or the context's own; or it
// is ErrBrokenOff, and the client can only be told by ending the connection.
//
// The loan is returned when Do returns, or earlier. The record is the proxy's to
// fill in until then; the caller has set when the request started.
func (p *Proxy) Do(ctx context.Context, loan Loan, caller *schema.Caller, record *calls.Call, to Sink) error {
	r := p.begin(loan, caller, record)
	panicked := true
	defer func() { r.end(panicked) }()
	err := r.admit()
	if err == nil {
		err = r.callInstances(ctx)
	}
	r.returnLimits() // before the caller is told what remains
	to.Route(r.route())
	if err == nil {
		err = r.send(ctx, to)
	} else {
		r.noteEnd(err)
		r.ticket.Settle(schema.Usage{}) // no attempt answered, so that none has a cost
	}
	panicked = false
	return err
}

// admit finds the model and lets the request in.
func (r *run) admit() error {
	found := r.choice.follow()
	if err := r.proxy.checkHops(r.caller.Hops); err != nil {
		return err
	}
	if found != nil {
		return found
	}
	return r.choice.admit()
}

// callInstances calls one instance after the other until one answers. A failure
// that another instance may not have leads to the next one: nothing was sent to the
// client yet.
func (r *run) callInstances(ctx context.Context) error {
	defer r.choice.endRetry()
	if err := r.choice.pick(ctx, &r.attempt); err != nil {
		return err
	}
	if err := r.count(); err != nil {
		r.attempt.giveUp()
		r.choice.pool.Queue.Wake()
		return err
	}
	for {
		r.choice.noteCall(r.attempt.instance)
		failed := r.attempt.call(ctx, &r.reply)
		if failed == nil {
			r.answered()
			return nil
		}
		r.attempt.blame(ctx, failed)
		r.release(failed.outcome)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// The failure says more than the lack of another instance.
		if !failed.elsewhere || r.choice.isLastAttempt() || !r.choice.pickAnother(&r.attempt) {
			return failed.err
		}
	}
}
