package proxy

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/breaker"
	"github.com/patchbay-ai/patchbay/internal/route/hedge"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// hedging is a call that may get a second one at another instance because it is slow. The
// first runs on the goroutine of the request, the second on that of a timer. The one that
// answers first cancels the other, and the request goes on when both have ended.
type hedging struct {
	first       *run
	watch       *hedge.Watch
	tokens      float64
	reserve     func(bytes int) error // takes memory for either
	cancelFirst context.CancelCauseFunc

	mu   sync.Mutex
	over bool // one has answered, or the first has ended before a second began
	// overtaken says that the first ended because the second had answered.
	overtaken bool
	done      chan struct{} // closed when the second has ended; nil where none was begun

	// These are the second's until done is closed.
	second   *run   // nil where it was refused
	failed   *fault // why it has no answer
	panicked *logs.Panic
}

// errHedged is the cause with which the call ends that answered later.
var errHedged = errors.New("another instance answered sooner")

// mayHedge reports whether the request may be sent to two instances.
func (r *run) mayHedge() bool {
	return !r.isPart && !r.isSpare() && mayHedge(r.choice.pool, r.Asks) && len(r.Recalled()) == 0
}

// mayHedge reports whether a request has no side effects and its answer comes whole, so that
// it may be sent to two instances.
func mayHedge(pool *routing.Pool, req *schema.Request) bool {
	if pool.Watch == nil || len(pool.Instances) < 2 || req.Stream || req.Uncounted {
		return false
	}
	switch req.Door {
	case schema.DoorEmbeddings, schema.DoorRerank:
		return true
	case schema.DoorTranscriptions, schema.DoorTranslations:
		streamed, _ := req.Form.Value("stream")
		return streamed == "" || streamed == "false"
	case schema.DoorChat, schema.DoorCompletions, schema.DoorMessages, schema.DoorResponses:
		return isPlainChat(req)
	}
	return false
}

// isPlainChat reports whether a chat is answered the same each time and does nothing else:
// temperature 0, no tools, which some backends run themselves, and nothing that is stored.
func isPlainChat(req *schema.Request) bool {
	temperature, given := req.Field("temperature").Float()
	if !given || temperature != 0 || !req.IsSelfContained() {
		return false
	}
	for _, name := range [...]string{"tools", "functions", "web_search_options", "mcp_servers", "container"} {
		if req.Field(name).Given() {
			return false
		}
	}
	return true
}

// soundPerToken is how many bytes of a sound count as a token. Only how requests of one model
// compare to each other matters.
const soundPerToken = 400

// workOf returns how much work a request is, in tokens.
func workOf(req *schema.Request) float64 {
	use := estimate.Most(req, nil, 0)
	tokens := float64(use.Tokens())
	if req.Form != nil {
		for i := range req.Form.Parts {
			if file := req.Form.Parts[i].File; file != nil {
				tokens += float64(file.Size / soundPerToken)
			}
		}
	}
	return tokens
}

// callHedged calls the instance that was acquired, and another one if that takes longer than
// such calls do.
func (r *run) callHedged(ctx context.Context, watch *hedge.Watch) *fault {
	h := &hedging{first: r, watch: watch, tokens: workOf(r.Asks)}
	watch.Called()
	after, known := watch.After(r.attempt.instance.ID, h.tokens)
	if !known {
		failed := r.attempt.call(ctx, &r.reply)
		h.learn(r, failed)
		return failed
	}
	h.guardMemory()
	var firstCtx context.Context
	firstCtx, h.cancelFirst = context.WithCancelCause(ctx)
	secondCtx, cancelSecond := context.WithCancelCause(ctx)
	defer cancelSecond(nil)
	soon := time.AfterFunc(after, func() { h.begin(secondCtx, false) })
	later := time.AfterFunc(hedge.MuchLater(after), func() { h.begin(secondCtx, true) })
	failed := r.attempt.call(firstCtx, &r.reply)
	soon.Stop()
	later.Stop()
	h.keepContext(failed)
	if !h.awaitSecond(failed, func() { cancelSecond(errHedged) }) {
		h.learn(r, failed)
		return failed
	}
	return h.settle(ctx, failed)
}

// guardMemory makes both calls take the memory for bodies one after the other.
func (h *hedging) guardMemory() {
	whole := h.first.Asks.Body.Reserve
	if whole == nil {
		return
	}
	var mu sync.Mutex
	h.reserve = func(bytes int) error {
		mu.Lock()
		defer mu.Unlock()
		return whole(bytes)
	}
	h.first.Asks.Body.Reserve = h.reserve
}

// keepContext ends the context of the first call with that. An answer that is streamed
// although nobody asked for that is read with it to its end.
func (h *hedging) keepContext(failed *fault) {
	a := &h.first.attempt
	if failed != nil || h.first.reply.whole {
		h.cancelFirst(nil)
		return
	}
	timeout := a.cancel
	a.cancel = func() {
		if timeout != nil {
			timeout()
		}
		h.cancelFirst(nil)
	}
}

// learn tells how long a call took that was answered.
func (h *hedging) learn(r *run, failed *fault) {
	if failed == nil {
		h.watch.Answered(r.attempt.instance.ID, h.tokens, r.reply.firstByte.Sub(r.attempt.sent))
	}
}

// begin begins the second call, if it may be made, and returns when it has ended. A first
// call that does not take much too long yet may be asked about again.
func (h *hedging) begin(ctx context.Context, muchTooLong bool) {
	h.mu.Lock()
	if h.over || h.done != nil {
		h.mu.Unlock()
		return
	}
	spent := h.watch.Spend(muchTooLong)
	if !spent && !muchTooLong {
		h.mu.Unlock()
		return
	}
	h.done = make(chan struct{})
	h.mu.Unlock()
	defer close(h.done)
	defer func() { h.panicked = logs.Caught(recover()) }()
	if !spent {
		return // 5 % of the calls had a second one
	}
	second := h.acquire()
	if second == nil {
		h.watch.Return()
		return
	}
	h.second = second
	second.choice.noteCall(second.attempt.instance)
	if h.failed = second.attempt.call(ctx, &second.reply); h.failed == nil && (!second.reply.whole || second.reply.events != nil) {
		h.failed = second.attempt.classifier().classify(dialect.ErrInvalid, false)
	}
	if h.failed == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.over {
			h.over = true
			h.cancelFirst(errHedged)
		}
	}
}

// acquire acquires another instance, or returns nil if there is to be no second call: others
// wait for a slot, none that is well has a free one, its model would have to be loaded, or
// there is no money for it.
func (h *hedging) acquire() *run {
	pool := h.first.choice.pool
	if pool.Waiting() > 0 || h.first.Costs() && !pool.Service.Policy.Hedge.Paid {
		return nil
	}
	reserved, err := h.first.ReserveAgain(0, false)
	if err != nil {
		return nil
	}
	asks := h.first.Asks.Copy(h.reserve)
	second := h.first.beginPart(asks)
	second.Client = second.Client.For(asks)
	second.isSecond = true
	excluded := &second.choice.excluded
	excluded.called = append(excluded.called, h.first.choice.excluded.called...)
	excluded.untranslatable = append(excluded.untranslatable, h.first.choice.excluded.untranslatable...)
	excluded.onlyWell = true
	if second.choice.acquire(&second.attempt) {
		if second.enterAtOnce() {
			return second
		}
		second.attempt.returnUnused()
		pool.Wake()
	}
	second.endPart(false)
	h.first.ReturnAgain(reserved)
	return nil
}

// awaitSecond waits until the second call has ended, and reports whether one was due. If the
// first was answered the second is cancelled; if it failed, the second may still succeed.
func (h *hedging) awaitSecond(failed *fault, cancelSecond func()) bool {
	h.mu.Lock()
	h.overtaken = failed != nil && h.over
	if failed == nil || h.done == nil {
		h.over = true
	}
	done := h.done
	h.mu.Unlock()
	if done == nil {
		return false
	}
	if failed == nil {
		cancelSecond()
	}
	<-done
	if h.panicked != nil {
		if h.second != nil {
			h.second.endPart(true)
		}
		h.panicked.Raise() // on the goroutine of the request, whose owner knows what to do
	}
	return true
}

// settle ends both calls and makes the answer of one of them that of the request. It returns
// the failure of the first if neither has answered.
func (h *hedging) settle(ctx context.Context, failed *fault) *fault {
	r, second := h.first, h.second
	how := metrics.HedgeLost
	switch {
	case second == nil:
		how = metrics.HedgeRefused
	case failed != nil && h.failed == nil:
		how = metrics.HedgeWon
	}
	r.Record.Hedge = how
	r.proxy.recorder.Hedged(r.Record.Service, how)
	h.learn(r, failed)
	if second == nil {
		return failed
	}
	defer second.endPart(false)
	h.learn(second, h.failed)
	if how == metrics.HedgeWon {
		h.endFirst(ctx, failed)
		second.answered()
		r.Record.Merge(second.Record)
		r.attempt.instance = second.attempt.instance
		r.reply, second.reply = second.reply, r.reply
		failed = nil
	} else {
		h.endSecond(ctx, failed == nil)
		last := r.Record.Instance
		r.Record.MergeLost(second.Record)
		r.Record.Instance = last
	}
	own := len(r.choice.excluded.called)
	r.choice.excluded.called = append(r.choice.excluded.called, second.choice.excluded.called[own:]...)
	r.choice.reached += second.choice.reached
	r.choice.stale = true
	return failed
}

// givenUp is what the record says of the call that answered later.
const givenUp = "The call was given up because another instance answered sooner."

// endFirst ends the first call, which the second has overtaken or outlived.
func (h *hedging) endFirst(ctx context.Context, failed *fault) {
	r := h.first
	if failed.unsent {
		r.choice.reached--
	}
	if h.overtaken {
		r.Record.Fail(calls.GivenUp, "", givenUp)
		r.attempt.followed.GiveUp(time.Now())
		r.attempt.followed = nil
		r.release(breaker.Cancelled)
		if !failed.unsent {
			r.SpendSecond(schema.Usage{})
		}
		return
	}
	r.attempt.noteFailure(ctx, failed)
	r.release(failed.outcome)
}

// endSecond ends the second call, which is not used: it failed, or the first has answered.
func (h *hedging) endSecond(ctx context.Context, answered bool) {
	second := h.second
	switch {
	case h.failed == nil:
		second.answered()
		h.first.SpendSecond(second.reply.Usage())
	case answered: // it was cancelled
		second.Record.Fail(calls.GivenUp, "", givenUp)
		second.release(breaker.Cancelled)
		if !h.failed.unsent {
			h.first.SpendSecond(schema.Usage{})
		}
	default:
		second.attempt.noteFailure(ctx, h.failed)
		for _, f := range second.fallen {
			h.first.fall(f)
		}
		second.release(h.failed.outcome)
		if ctx.Err() != nil && !h.failed.unsent {
			h.first.SpendSecond(schema.Usage{}) // the client did not wait for either
		}
	}
	if h.failed != nil && h.failed.unsent {
		second.choice.reached--
	}
}
