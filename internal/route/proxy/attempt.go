package proxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// attempt is one call to an instance.
type attempt struct {
	*request
	instance *backend.Instance // nil before the first attempt
	permit   backend.Permit
	hasSlot  bool // the permit has not been given back
	// followed is the call in the picture of the fleet, nil where the strategy has none.
	followed *fleet.Call
	// resident is the model that the call has entered, nil where models are not kept.
	resident *residency.Model
	// paced follows the call to learn the instance's slots.
	paced    backend.Paced
	speaker  dialect.Speaker
	out      wire.Call
	response *transport.Response
	cancel   context.CancelFunc // releases the timer of the total timeout
	sent     time.Time          // when the call began
}

// begin starts an attempt at an instance that was acquired, and writes the call to
// it. If the call cannot be written, begin gives the instance back and leaves the
// attempt as it was.
func (a *attempt) begin(i *backend.Instance, followed *fleet.Call, now time.Time) error {
	previous := a.instance
	a.instance, a.followed, a.hasSlot = i, followed, true
	a.Record.Begin(i.ID, i.Kind.Name, now)
	a.Record.Running.Note(a.Model, i.ID)
	try := a.Record.Try()
	try.Provider = cmp.Or(i.Kind.Guide.Provider, i.Kind.Name)
	if followed != nil {
		try.Expected = time.Duration(followed.Estimate.Expected * float64(time.Second))
		try.Matched = followed.Estimate.Matched
	}
	err := a.write(i)
	if err != nil {
		a.returnUnused()
		a.instance = previous
	}
	return err
}

// write writes the call to an instance.
func (a *attempt) write(i *backend.Instance) error {
	if a.onlyLoads() {
		return nil
	}
	target := i.Target
	if a.IsRenamed() {
		target = i.NamedTarget
	}
	target, a.speaker = target.ForDoor(a.Asks.Door, a.Client)
	var err error
	switch {
	case a.resumed != nil:
		a.speaker, err = a.resumed.speaker(a.Asks, a.speaker, target)
	case a.transcript != nil:
		*a.transcript = chat.Transcript{}
		a.speaker = a.speaker.Recording(a.transcript)
	}
	asks := a.Asks
	if i.MendsArguments() {
		mends := 0
		asks, mends = asks.Mended()
		i.Series.Mended.Add(int64(mends))
	}
	if err == nil {
		err = a.speaker.Call(asks, target, &a.out)
	}
	if err == nil && i.Settings.CacheBreakpoints == backend.AutoBreakpoints && i.Kind.Breakpoints != nil {
		i.Kind.Breakpoints(&a.out)
	}
	return err
}

// returnUnused gives back an instance that was acquired and is not called after all.
func (a *attempt) returnUnused() {
	now := time.Now()
	a.instance.Return(a.permit, now)
	a.followed.Abort(now)
	a.Record.Forget()
	a.instance, a.followed, a.hasSlot = nil, nil, false
}

// call sends the request to the instance and waits until the answer has begun: an
// answer that is read whole begins when it is complete, a stream with its first
// event or byte, and a link when it is open.
func (a *attempt) call(ctx context.Context, to *reply.Reply) *reply.Fault {
	if err := a.addHeaders(ctx); err != nil {
		return a.classifier().Classify(err, false)
	}
	firstToken := cmp.Or(a.instance.Timeouts.FirstToken, a.instance.Timeouts.FirstByte).Std()
	a.sent = time.Now()
	var err error
	if a.link != nil {
		err = a.openLink(ctx)
	} else {
		a.response, err = a.send(ctx, firstToken)
	}
	if err != nil {
		return a.unanswered(err)
	}
	if a.response != nil {
		err = to.Open(a.Asks, a.Asked(), a.speaker, a.response, a.sent.Add(firstToken))
	}
	now := time.Now()
	if to.Arrived.After(a.sent) {
		a.noteWait(to.Arrived)
	} else {
		a.noteWait(now)
	}
	if err != nil {
		return a.classifier().Classify(err, false)
	}
	to.FirstByte = now
	return nil
}

// send sends the call to the instance and returns the head of its answer.
func (a *attempt) send(ctx context.Context, firstToken time.Duration) (*transport.Response, error) {
	limits := &a.instance.Timeouts
	if limits.Total > 0 {
		ctx, a.cancel = context.WithTimeoutCause(ctx, limits.Total.Std(), errTotal)
	}
	firstByte := limits.FirstByte.Std()
	if a.Asks.Stream {
		// Many backends send the head together with the first event.
		firstByte = min(firstByte, firstToken)
	}
	if grant := a.Caller.Grant; grant != nil && grant.HasBudgets() && !a.whole().countsLate {
		a.out.Watcher = a.whole().Request
	}
	a.paced = a.instance.Follow(a.Asks.Stream, a.sent)
	return a.proxy.client.Send(ctx, &a.instance.Origin, &a.out, transport.Timeouts{
		Connect:   limits.Connect.Std(),
		FirstByte: firstByte,
		Idle:      limits.Idle.Std(),
	})
}

// unanswered returns the fault of a call that the instance did not answer at all.
func (a *attempt) unanswered(err error) *reply.Fault {
	now := time.Now()
	if transport.IsRefusal(err) {
		a.instance.Health.Refused(now)
	}
	a.noteWait(now)
	failed := a.classifier().Classify(err, false)
	if failed.Unsent = transport.Unsent(err); failed.Unsent {
		a.permit = a.instance.Unsent(a.permit, now)
	}
	return failed
}

func (a *attempt) classifier() reply.Classifier {
	return reply.Classifier{Instance: a.instance, Request: a.Asks}
}

// errTotal is the cause that ends a call that exceeds its total timeout.
var errTotal = fmt.Errorf("%w: the whole answer took too long", transport.ErrTimeout)

// noteFailure tells the instance and the record that the call failed. It changes the
// outcome of the fault where the failure must not count against the instance.
func (a *attempt) noteFailure(ctx context.Context, failed *reply.Fault) {
	a.Record.Fail(failed.Err.Code, failed.Err.Cause, failed.Err.Said)
	a.Record.Try().URL = a.instance.URL(a.out.Path)
	if ctx.Err() != nil {
		failed.Outcome = breaker.Cancelled // the client left or the gateway stops
		return
	}
	if failed.Outcome.Failed() && a.instance.FailedBefore(a.Asks.Digest(a.proxy.seed), time.Now()) && a.Caller.Retry {
		failed.Outcome = breaker.Cancelled // it was counted the first time
	}
	if failed.Failover {
		a.instance.Troubled()
	}
	if failed.Outcome.Failed() {
		a.instance.NoteFailure(failed.Err.Code, *a.Record.Try().Said, time.Now())
	}
	if failed.Overload > 0 {
		a.instance.Overloaded(time.Now().Add(failed.Overload))
	}
	a.noteFallen(ctx, failed)
}

// dropCall drops the call if all of it was sent to the backend, and reports whether
// it was: then nothing reads the memory of the request any more.
func (a *attempt) dropCall() bool {
	if a.response != nil && !a.response.Sent() {
		return false
	}
	a.out.Reset()
	return true
}

// beforeWait sets a function that is called whenever the next read of the answer
// has to wait for the backend.
func (a *attempt) beforeWait(f func()) {
	if a.response != nil {
		a.response.BeforeWait = f
	}
}

// end closes the connection to the backend and gives the instance back with the outcome of
// the call and the usage of its answer. It reports whether the instance was still held. The
// time is zero where it is not known.
func (a *attempt) end(outcome breaker.Outcome, usage schema.Usage, now time.Time) bool {
	if now.IsZero() && (a.hasSlot || a.response != nil) {
		now = time.Now()
	}
	if a.response != nil {
		a.response.CloseAt(now) // the answer was read or is not wanted any more
		a.response = nil
	}
	if a.cancel != nil {
		a.cancel()
		a.cancel = nil
	}
	if !a.hasSlot {
		return false
	}
	a.hasSlot = false
	if a.resident != nil {
		a.resident.Leave()
		a.resident = nil
	}
	if p := a.instance.Process(); p != nil && outcome.LostConnection() {
		p.Doubt()
		outcome = breaker.Cancelled // its manager decides when it is used again
	}
	a.instance.Release(a.permit, outcome, now)
	a.paced.End(outcome, usage, now)
	if outcome == breaker.Success {
		a.instance.Health.Served(a.sent)
	}
	a.endFollowed(outcome, usage, now)
	a.noteRelease(now)
	return true
}

// endFollowed tells the fleet how the call ended, where it follows calls.
func (a *attempt) endFollowed(outcome breaker.Outcome, usage schema.Usage, now time.Time) {
	call := a.followed
	if call == nil {
		return
	}
	a.followed = nil
	if outcome == breaker.Success {
		call.End(told(usage), now)
	} else {
		call.Abort(now)
	}
}

// told returns the usage of an answer in the form from which a fleet learns.
func told(usage schema.Usage) fleet.Answer {
	if !usage.Known {
		return fleet.Answer{PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}
	}
	answer := fleet.Answer{
		PromptTokens: int(usage.Prompt), CachedTokens: -1, OutputTokens: int(usage.Completion), Prefill: usage.Prefill,
	}
	if usage.IsCachedTold {
		answer.CachedTokens = int(usage.Cached)
	}
	return answer
}

// reset clears the attempt and keeps its memory for the next request.
func (a *attempt) reset() {
	a.out.Reset()
	*a = attempt{out: a.out}
}

// addHeaders adds the gateway's own headers to the call, and at last the credential, which
// may be a signature of all the rest. Headers that are configured for the instance win over
// them, and no header is sent twice.
func (a *attempt) addHeaders(ctx context.Context) error {
	a.addHops()
	a.out.AddHeader("X-Request-Id", a.Caller.RequestID)
	a.addTrace()
	return authorize(ctx, a.instance, a.Caller.Forwardable(), &a.out)
}

// authorize adds the credential to a call that is complete otherwise: the caller's own
// where the instance wants it and the caller sent one, else the instance's.
func authorize(ctx context.Context, i *backend.Instance, caller http.Header, call *wire.Call) error {
	if i.Target.ForwardAuthorization {
		if credential, given := i.Kind.Forwarded(caller.Get("Authorization"), access.KeyIn(caller)); given {
			call.AddHeader(credential.Name, credential.Value)
			return nil
		}
	}
	return i.Target.Authorize(ctx, call)
}

// addTrace adds the headers of a distributed trace: the span of this attempt where the
// gateway traces the request, else the caller's own headers unchanged.
func (a *attempt) addTrace() {
	parent := a.Caller.Traceparent
	if a.Record.Traced() {
		try := a.Record.Try()
		try.Span = calls.NewSpanID()
		parent = calls.Traceparent(a.Record.Trace.ID, try.Span)
	}
	if parent == "" {
		return
	}
	a.out.AddHeader("Traceparent", parent)
	if state := a.Caller.Tracestate; state != "" {
		a.out.AddHeader("Tracestate", state)
	}
}

const (
	// loopHeader lists the gateways that a request has passed (RFC 8586). The older
	// header for that, Via, is dropped by some proxies and makes some servers behave
	// differently.
	loopHeader = "CDN-Loop"
	// hopPrefix begins the name of every gateway in the header.
	hopPrefix = "patchbay-"
	// maxHops is how many gateways a request may pass.
	maxHops = 8
	// maxHopsText is how long the header may be.
	maxHopsText = 4 << 10
)

// newHop returns a name for this gateway, which is different in each process.
func newHop() string { return hopPrefix + rand.Text() }

// checkHops refuses a request that has passed this gateway before, or too many
// gateways: some instance leads back to a gateway, and the request would go round
// for ever.
func (p *Proxy) checkHops(passed string) error {
	if passed == "" {
		return nil
	}
	hops := 1 // this one
	for entry := range strings.SplitSeq(passed, ",") {
		name, _, _ := strings.Cut(entry, ";")
		switch name = strings.TrimSpace(name); {
		case name == p.hop:
			return loopDetected(say.New("call.loop"))
		case strings.HasPrefix(name, hopPrefix):
			hops++
		}
	}
	if hops > maxHops || len(passed) > maxHopsText {
		return loopDetected(say.New("call.hops", "count", maxHops))
	}
	return nil
}

// loopDetected returns the error for a loop. The other gateways of the loop answer
// with the same code; see isLoop.
func loopDetected(said say.Sentence) *schema.Error {
	known := schema.NewError(schema.CodeLoopDetected, said)
	known.NoRetry = true
	return known
}

// addHops adds this gateway to the loop header. The headers that are configured for
// an instance cannot replace it.
func (a *attempt) addHops() {
	value := a.proxy.hop
	if a.Caller.Hops != "" {
		value = a.Caller.Hops + ", " + value
	}
	for i := range a.out.Header {
		if strings.EqualFold(a.out.Header[i].Name, loopHeader) {
			a.out.Header[i].Value = value
			return
		}
	}
	a.out.Header = append(a.out.Header, wire.Header{Name: loopHeader, Value: value})
}
