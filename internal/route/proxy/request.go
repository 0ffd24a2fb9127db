package proxy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/prompts"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// Request is a request with its account.
type Request = account.Account

// request is the state that the steps of routing share.
type request struct {
	*Request
	proxy *Proxy
	// foundNoSlot means that there was no free slot at some time, and shedAs how that is
	// counted if the request is refused.
	foundNoSlot bool
	// isPart means that the request is a part of another one. isSecond means that it is all
	// of it once more, because the first call is slow.
	isPart, isSecond bool
	shedAs           metrics.Shed
	// outlook is the outlook in the queue when it refused the request, or when its time there
	// was over.
	outlook queue.Outlook
	// fallen are the instances with backends that the request may have ended. of is the whole
	// request where this one is a piece, else nil.
	fallen []fallen
	of     *request
	// countsLate means that the ledger counts the request when its answer has begun; see
	// countLate. isCalled means that a call was made for the request or a piece of it.
	countsLate bool
	isCalled   atomic.Bool
	// link is the connection that the request opens in place of asking for an answer, nil for
	// most.
	link *Link
	// resumed is the broken answer that another instance is to go on with, nil while none
	// broke off.
	resumed *resumption
	// transcript holds the content that the stream has sent, nil if no instance is to go on
	// with it should it break off after content was sent.
	transcript *chat.Transcript
}

// whole returns the whole request where this one is a piece, or else this one.
func (r *request) whole() *request {
	if r.of != nil {
		return r.of
	}
	return r
}

// CheckHeaders returns an error if a header that controls the handling of a request has an
// invalid value.
func CheckHeaders(r *Request) error {
	_, err := resumeMode(r)
	return err
}

// resumeMode reads the headers that control the handling of a request, and returns whether another
// instance resumes the answer if it breaks off: by the service type, or by the request itself. A
// header with another value is refused also if no answer can be resumed: a mistake is found before
// it matters.
func resumeMode(r *Request) (resume.Mode, error) {
	if err := cmp.Or(r.Classify(), r.Aim()); err != nil {
		return resume.Off, err
	}
	if own := r.Caller.Header[resume.Header]; len(own) > 0 {
		var mode resume.Mode
		if mode.UnmarshalText([]byte(own[0])) != nil {
			return mode, schema.CodedError(schema.CodeInvalidValue, "call.resume")
		}
		return mode, nil
	}
	if service := r.Table.Service(r.Asks.Service); service != nil {
		return service.Policy.Streams.Resume, nil
	}
	return resume.Off, nil
}

// readHeaders reads the headers that control the handling of the request.
func (r *request) readHeaders() error {
	mode, err := resumeMode(r.Request)
	if mode == resume.Continue && r.Asks.Stream && r.Asks.Service == schema.Chat {
		r.transcript = new(chat.Transcript)
	}
	return err
}

// isSpare reports whether the request takes only slots that nobody waits for.
func (r *request) isSpare() bool { return r.Class == schema.Spare }

// retryBudget returns the retry budget of the request's service type.
func (r *request) retryBudget() *retryBudget { return &r.proxy.retryBudgets[r.Record.Service] }

// shed notes that there was no free slot for the request. It is counted if the request is
// refused in the end.
func (r *request) shed(how metrics.Shed) { r.foundNoSlot, r.shedAs = true, how }

// shedFromQueue notes that the request did not get a slot by waiting, and its outlook
// then.
func (r *request) shedFromQueue(how metrics.Shed, outlook queue.Outlook) {
	r.shed(how)
	r.outlook = outlook
}

// countShed counts a request that was refused because there was no free slot.
func (r *request) countShed() {
	if r.foundNoSlot && !r.isSpare() {
		r.proxy.recorder.Registry().Shed(r.Record.Service, r.shedAs)
	}
}

// Sink is the client's side of a request, to which the proxy sends the answer. Its
// methods are called in the order of this list: Route once, Head at most once, then
// Write and Send any number of times. Calls never overlap, but they may come from
// different goroutines. An error means that the client has left.
type Sink interface {
	// Route tells where the request went. It is called before the head of an
	// answer, or before Do returns an error in place of an answer.
	Route(route Route)
	// Head begins a successful answer.
	Head(head Head)
	// Write adds to the body. The bytes may be buffered until Send, or until Do
	// returns. Write must not keep p.
	Write(p []byte) (int, error)
	// Send adds to the body and sends it, with the buffered bytes. The proxy calls it
	// before it waits for the backend. Send must not keep p.
	Send(p []byte) error
}

// Route is where a request went.
type Route struct {
	// Model is the configured name of the model. It is empty where no model has the
	// name that the client asked for. Asked is that name if it differs from Model.
	Model, Asked string
	// Instance is the one that was called last, nil where none was.
	Instance *backend.Instance
	// Answerers are the instances that answered a part of the request, in the order of the
	// parts; nil for a request that was not split.
	Answerers []*backend.Instance
	// Attempts is how many instances were called.
	Attempts int
	// Cache is the result of the cache of answers.
	Cache metrics.Cached
	// Held is how long the request has waited for its model to be loaded.
	Held time.Duration
	// Queue is the outlook of a request that the queue refused, or that waited there until
	// its time was over; its Position is 0 for all others.
	Queue queue.Outlook
	// Limit is the state of the rate limit that applies to the request, if any does.
	Limit ratelimit.Decision
	// KeyRequests and KeyTokens are the states of the limits of the key and its tenant
	// that have the least left; their Limit is 0 where there are none.
	KeyRequests, KeyTokens ratelimit.Decision
}

// Head is sent to a client before the body of an answer.
type Head struct {
	// Form is the form of the body. Proxies between the gateway and the client should neither
	// buffer nor cache a stream of events.
	account.Form
	// Probe sends the client a comment, to find out whether it is still there; nil
	// where the form of the body has no comments. Any goroutine may call it at any
	// time.
	Probe func()
}

// The content types of replies of the unified API.
const (
	TypeJSON   = reply.TypeJSON
	TypeEvents = reply.TypeEvents
)

// ErrBrokenOff means that an answer broke off in a form that cannot carry an error.
// Only closing the connection before the body is complete tells the client.
var ErrBrokenOff = errors.New("the answer broke off")

// startRecord begins to fill in the record of the request.
func (r *request) startRecord() {
	c := r.Record
	c.Client = r.Caller.Addr
	c.Routed, c.Service = true, r.Asks.Service
	if r.proxy.recorder.Tracing() {
		c.Trace = r.proxy.recorder.StartTrace(r.Caller.Traceparent)
	}
	if c.Traced() {
		c.Session = prompts.Session(r.Caller.Header)
		c.Conversation = cmp.Or(prompts.Conversation(r.Asks), c.Session)
	}
}

// noteFailover counts a failover of the instance that was called last, if any was.
func (c *choice) noteFailover() {
	if called := c.excluded.Called; len(called) > 0 && !c.isSecond && c.proxy.recorder.On() {
		called[len(called)-1].Series.Failovers.Add(1)
	}
}

// noteChoice notes how the first instance was chosen, or why none was.
func (c *choice) noteChoice() {
	c.Record.Strategy = c.pool.Strategy
	if len(c.last.Obstacles) > 0 && &c.last.Obstacles[0] == &c.pool.Barriers[0] {
		c.Record.Candidates = c.pool.Barred // all are well, and were counted when the table was made
		return
	}
	for _, o := range c.last.Obstacles {
		c.Record.Candidates[o]++
	}
}

// noteWait adds the time from sending the call until then to the time that the
// request spent waiting for backends.
func (a *attempt) noteWait(until time.Time) {
	a.Record.Upstream += until.Sub(a.sent)
	try := a.Record.Try()
	try.Sent = a.Record.At(a.sent)
	if a.response != nil {
		try.FirstByte, try.Reused, try.Status = a.Record.At(until), a.response.Reused, a.response.Status
	}
}

// noteRelease notes in the record when the attempt ended.
func (a *attempt) noteRelease(now time.Time) {
	try := a.Record.Try()
	try.Ended = a.Record.At(now)
	a.instance.Took(try.Ended - try.Began)
}

// noteEnd notes why a request was not answered, or not to its end.
func (r *request) noteEnd(err error) {
	var known *schema.Error
	switch {
	case err == nil:
	case errors.As(err, &known):
		r.Record.Tell(known)
	case errors.Is(err, context.Canceled):
		r.Record.Gone, r.Record.Code = true, schema.CodeCancelled
	default: // the gateway stops
		r.Record.Code = schema.CodeServiceUnavailable
	}
}

// noteStopped notes whether an operator ended the request.
func (r *request) noteStopped(ctx context.Context) {
	var cause *schema.Error
	r.Record.Stopped = ctx.Err() != nil && errors.As(context.Cause(ctx), &cause) && cause.Code == r.Record.Code
}

// endRecord adds the values to the record that are known only at the end of the
// request.
func (r *run) endRecord() {
	c := r.Record
	c.Model, c.Usage = r.Model, r.usage()
	if !r.reply.FirstByte.IsZero() {
		c.FirstByte = c.At(r.reply.FirstByte)
	}
	if !r.reply.FirstToken.IsZero() {
		c.FirstToken = c.At(r.reply.FirstToken)
	}
	if r.attempt.instance == nil {
		return
	}
	c.Series = r.attempt.instance.Series
	if isStream := r.reply.Events != nil && !r.reply.Whole; isStream {
		c.NotePace(c.Try().Ended)
	}
	if try := c.Try(); try.Code == "" {
		try.Code = c.Code // the answer broke off after it had begun
	}
}

// loggerName is the name of the logger that tells the steps of requests.
const loggerName = "proxy"

// SetLog makes the proxy write a line at DEBUG for each step of a request as it happens:
// the choice of an instance, each call, and how it went. It must be called before the
// first request.
func (p *Proxy) SetLog(log *slog.Logger) { p.log = logs.Named(log, loggerName) }

// isVerbose reports whether the steps of requests are written. Callers ask before
// they make the attributes of a line: other requests do not pay for them.
func (r *request) isVerbose(ctx context.Context) bool {
	return r.proxy.log != nil && r.proxy.log.Enabled(ctx, slog.LevelDebug)
}

func (r *request) debug(ctx context.Context, message string, attrs ...slog.Attr) {
	attrs = append([]slog.Attr{slog.String("request_id", r.Record.RequestID)}, attrs...)
	r.proxy.log.LogAttrs(ctx, slog.LevelDebug, message, attrs...)
}

// tellChoice writes which instance a request goes to first, or why it goes to none.
func (r *run) tellChoice(ctx context.Context, refused error) {
	if !r.isVerbose(ctx) {
		return
	}
	ready, total := int(r.Record.Candidates[0]), 0
	for _, n := range r.Record.Candidates {
		total += int(n)
	}
	attrs := []slog.Attr{
		slog.String("service", r.Record.Service.String()), slog.String("door", r.Record.Door.String()),
		slog.String("model", r.Model), slog.String("asked", r.Asked()), slog.Bool("stream", r.Asks.Stream),
		slog.String("strategy", r.Record.Strategy), slog.Int("ready", ready), slog.Int("instances", total),
		slog.Float64("waited_ms", float64(r.Record.Queued.Microseconds())/1000),
	}
	if refused != nil {
		r.debug(ctx, "no instance takes the request", append(attrs, slog.String("reason", refused.Error()))...)
		return
	}
	r.debug(ctx, "an instance was chosen", append(attrs, slog.String("instance", r.attempt.instance.ID))...)
}

// tellCall writes that an instance is called.
func (r *run) tellCall(ctx context.Context) {
	if !r.isVerbose(ctx) {
		return
	}
	try := r.Record.Try()
	r.debug(ctx, "calling", slog.Int("attempt", r.Record.Attempts),
		slog.String("instance", try.Instance), slog.String("adapter", try.Adapter),
		slog.String("model", r.Model))
}

// debugHeld writes that a request waits for its model.
func (r *run) debugHeld(ctx context.Context, model *residency.Model, now time.Time) {
	if !r.isVerbose(ctx) {
		return
	}
	known := model.Place().Residence(now)
	r.debug(ctx, "waiting for the model", slog.String("instance", r.attempt.instance.ID), slog.String("model", r.Model),
		slog.String("state", known.State),
		slog.Float64("expected_ms", float64(max(known.Left, known.Loads).Milliseconds())))
}

// tellAnswer writes how a call went: its answer began, or it failed. The words of the
// backend are left out, because they may repeat the words of the client.
func (r *run) tellAnswer(ctx context.Context, failed *reply.Fault) {
	if !r.isVerbose(ctx) {
		return
	}
	try := r.Record.Try()
	attrs := []slog.Attr{
		slog.Int("attempt", r.Record.Attempts), slog.String("instance", try.Instance),
		slog.Int("status", try.Status), slog.Bool("reused", try.Reused),
		slog.Float64("backend_ms", float64(r.Record.Upstream.Microseconds())/1000),
	}
	if failed == nil {
		r.debug(ctx, "the answer begins", attrs...)
		return
	}
	r.debug(ctx, "the call failed", append(attrs, slog.String("error_code", try.Code), slog.String("cause", try.Cause),
		slog.String("url", try.URL), slog.Bool("another_may_serve", failed.Failover))...)
}
