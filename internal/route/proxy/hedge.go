package proxy

import (
	"context"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/hedge"
	"github.com/patchbay-ai/patchbay/internal/route/plan"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// hedging is a call that may get a second one at another instance because it is slow. The
// one that answers first wins, and the request goes on when both have ended.
type hedging struct {
	*run
	watch   *hedge.Watch
	tokens  float64
	reserve func(bytes int) error // takes memory for either
	second  part                  // its run is nil where none was made
	// isDue says that the first call took too long, and wasAsked that isSecondDue was asked
	// before.
	isDue, wasAsked bool
}

// answeredSooner is why the call is given up that did not answer first.
const answeredSooner plan.GivenUp = "call.given_up_sooner"

// mayHedge reports whether the request may be sent to two instances.
func (r *run) mayHedge() bool {
	return !r.isPart && !r.isSpare() && r.link == nil && plan.MayHedge(r.choice.pool, r.Asks) && len(r.Recalled()) == 0
}

// callHedged calls the acquired instance, and another one if the first takes longer than
// such calls do.
func (r *run) callHedged(ctx context.Context, watch *hedge.Watch) *reply.Fault {
	h := &hedging{run: r, watch: watch, tokens: plan.Work(r.Asks)}
	watch.Called()
	after, known := watch.After(r.attempt.instance.ID, h.tokens)
	if !known {
		failed := r.attempt.call(ctx, &r.reply)
		h.learn(r, failed)
		return failed
	}
	h.reserve = r.guardMemory()
	var failed *reply.Fault
	first := plan.Branch{Make: func(ctx context.Context) bool {
		failed = r.attempt.call(ctx, &r.reply)
		return failed == nil
	}}
	second := &h.second
	second.After, second.Make = after, h.callSecond
	second.Due = func() (bool, time.Duration) { return h.isSecondDue(hedge.MuchLater(after) - after) }
	plan.Run(ctx, plan.First, answeredSooner, &first, &second.Branch)
	defer r.keepContext(&first)
	defer second.Close()
	h.learn(r, failed)
	if !h.isDue {
		return failed
	}
	return h.settle(ctx, &first, failed)
}

// isSecondDue decides whether the second call is made when the first takes too long, and asks
// again later where it may only be made for calls that take much too long.
func (h *hedging) isSecondDue(later time.Duration) (bool, time.Duration) {
	isMuchTooLong := h.wasAsked
	h.wasAsked = true
	spent := h.watch.Spend(isMuchTooLong)
	if h.isDue = spent || isMuchTooLong; !h.isDue {
		return false, later
	}
	return spent, 0 // otherwise 5 % of the calls had a second one
}

// keepContext closes the context of a branch. It leaves that to the end of the attempt where
// an unrequested stream is still read with the context.
func (r *run) keepContext(of *plan.Branch) {
	if !of.Answered || r.reply.Whole {
		of.Close()
		return
	}
	timeout := r.attempt.cancel
	r.attempt.cancel = func() {
		if timeout != nil {
			timeout()
		}
		of.Close()
	}
}

// learn tells how long a call took that was answered.
func (h *hedging) learn(r *run, failed *reply.Fault) {
	if failed == nil {
		h.watch.Answered(r.attempt.instance.ID, h.tokens, r.reply.FirstByte.Sub(r.attempt.sent))
	}
}

// callSecond makes the second call, and reports whether it was answered.
func (h *hedging) callSecond(ctx context.Context) bool {
	if h.second.run = h.acquireSecond(); h.second.run == nil {
		h.watch.Return()
		return false
	}
	h.parts = append(h.parts, h.second.run)
	return h.second.make(ctx, func() error {
		if reply := &h.second.reply; !reply.Whole || reply.Events != nil {
			return dialect.ErrInvalid
		}
		return nil
	})
}

// acquireSecond acquires another instance, or returns nil if there is to be no second call:
// others wait for a slot, none that is well has a free one, its model would have to be loaded,
// or there is no money for it.
func (h *hedging) acquireSecond() *run {
	pool := h.choice.pool
	if pool.Waiting() > 0 || h.Costs() && !pool.Service.Policy.Hedge.Paid {
		return nil
	}
	reserved, err := h.Reserve(0, false)
	if err != nil {
		return nil
	}
	asks := h.Asks.Copy(h.reserve)
	second := h.beginPart(asks)
	second.Client, second.isSecond = second.Client.For(asks), true
	excluded := &second.choice.excluded
	excluded.Untranslatable = append(excluded.Untranslatable, h.choice.excluded.Untranslatable...)
	excluded.OnlyWell = true
	if second.choice.acquire(&second.attempt) {
		if second.enterAtOnce() {
			return second
		}
		second.choice.returnUnused(&second.attempt)
	}
	second.endPart(false)
	h.Release(reserved)
	return nil
}

// settle makes the answer of one of two calls the answer of the request, and pays for the
// other. It returns the failure of the first if neither has answered.
func (h *hedging) settle(ctx context.Context, first *plan.Branch, failed *reply.Fault) *reply.Fault {
	r, second := h.run, &h.second
	how := metrics.HedgeLost
	switch {
	case second.run == nil:
		how = metrics.HedgeRefused
	case failed != nil && second.Answered:
		how = metrics.HedgeWon
	}
	r.Record.Hedge = how
	r.proxy.recorder.Registry().Hedged(r.Record.Service, how)
	if second.run == nil {
		return failed
	}
	h.learn(second.run, second.failed)
	if how == metrics.HedgeWon {
		r.fail(first.Context(), failed)
		r.spendLost(first, r.attempt.instance, failed, false)
		r.Record.Merge(second.Record)
		r.attempt.instance = second.attempt.instance
		r.reply, second.reply = second.reply, r.reply
		failed = nil
	} else {
		if second.Answered {
			r.charge(second.attempt.instance, r.Spend(second.reply.Usage(), nil, second.reply.Plain.Segments))
		} else {
			r.spendLost(&second.Branch, second.attempt.instance, second.failed, ctx.Err() != nil)
		}
		last := r.Record.Instance
		r.Record.MergeLost(second.Record)
		r.Record.Instance = last
	}
	r.absorb(second)
	return failed
}

// spendLost pays for the prompt of a call without an answer that was given up or that the
// client did not wait for.
func (r *run) spendLost(of *plan.Branch, at *backend.Instance, failed *reply.Fault, hasLeft bool) {
	if (of.IsGivenUp() || hasLeft) && !failed.Unsent {
		r.charge(at, r.Spend(schema.Usage{}, nil, nil))
	}
}
