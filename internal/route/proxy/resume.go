package proxy

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/breaker"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// onward is a stream that broke off and with which another instance goes on.
type onward struct {
	stream *dialect.Stream
	// broken is what was sent of the answer, nil if nothing was that a model made.
	broken *resume.Break
	// begun is the text so far as a JSON string has it, where an instance may be given it.
	begun []byte
	plan  resume.Plan   // for the instance that is called
	joint *resume.Joint // what that instance adds
	// noRoom is why there is no money or limit for the instance that was acquired last, nil if
	// there is.
	noRoom error
	// reserved is what was reserved for that instance.
	reserved budget.Amounts
}

// planFor returns how an instance goes on with the stream.
func (o *onward) planFor(req *schema.Request, speaker dialect.Speaker, target *dialect.Target) (resume.Plan, error) {
	if _, ok := speaker.Resuming(o.stream, nil); ok {
		if o.broken == nil {
			return resume.Plan{}, nil
		}
		if plan, ok := o.broken.For(speaker.CanContinue(req, target)); ok {
			return plan, nil
		}
	}
	return resume.Plan{}, schema.NewError(schema.CodeInvalidValue, "The backend cannot go on with an answer that another one began.")
}

// refuse returns an error if an instance cannot go on with the stream.
func (o *onward) refuse(r *request, i *backend.Instance) error {
	target, speaker := i.Target.ForDoor(r.Asks.Door, r.Client)
	_, err := o.planFor(r.Asks, speaker, target)
	return err
}

// speaker returns how the request is put to an instance that goes on with the stream. The
// request gets the beginning of the answer if the instance is to go on with it.
func (o *onward) speaker(req *schema.Request, of dialect.Speaker, target *dialect.Target) (_ dialect.Speaker, err error) {
	if o.plan, err = o.planFor(req, of, target); err != nil {
		return of, err
	}
	if err := req.Continue(o.plan.Text, o.plan.Most); err != nil {
		return of, err
	}
	join := resume.Restart
	if o.broken != nil {
		join = func(from dialect.Deltas) dialect.Deltas {
			o.joint = o.plan.Join(from)
			return o.joint
		}
	}
	resuming, _ := of.Resuming(o.stream, join)
	return resuming, nil
}

// goOn lets another instance go on with a stream that broke off, and reports whether one
// does. Where the client was sent nothing that a model made, that is a failover like any
// other: the answer of the other instance takes the place of what did not come, under the id
// of the first. Else it is done for requests that want it, and another call is paid.
func (r *run) goOn(ctx context.Context, out body, err error) bool {
	to, isEvents := out.(*eventWriter)
	if !isEvents || ctx.Err() != nil || r.Asks == nil || !r.mayGoOn() {
		return false
	}
	failed := r.attempt.classifier().classify(err, true)
	if !failed.failover {
		return false
	}
	o := &onward{stream: r.reply.events}
	if r.reply.events.HasContent() {
		var reason string
		if o.broken, reason = resume.Read(r.Asks, r.transcript, r.reply.Usage()); reason != "" {
			r.tellEnd(ctx, reason)
			return false
		}
		o.begun, failed.ending = o.broken.Begun(), noEnding
	} else {
		failed.noteEnding()
	}
	to.flush()
	before := r.saveBroken()
	r.endBroken(ctx, failed)
	r.broke, r.onward, r.choice.translates = failed, o, nil
	defer r.choice.endRetry()
	for r.pickOnward(failed) {
		if failed = r.callOnward(ctx); failed == nil {
			r.attempt.beforeWait(to.flush)
			if o.broken != nil {
				r.Resumed(before.usage.last, before.choice.price, o.plan.Sent, o.plan.How == resume.Continued)
				to.say(": resumed attempt=" + strconv.Itoa(r.Record.Attempts) + " how=" + o.plan.How.String() + "\n\n")
			}
			r.clearFallen()
			r.broke, r.joint = nil, o.joint
			r.noteResumed(ctx)
			return true
		}
		r.ReturnAgain(o.reserved)
		if ctx.Err() != nil || !failed.failover {
			break
		}
	}
	r.restoreBroken(before)
	r.keepFallen()
	reason := "no other instance can go on with it"
	if o.noRoom != nil {
		reason = o.noRoom.Error()
	}
	r.tellEnd(ctx, reason)
	return false
}

// savedCall is a call whose answer broke off, as it was before another instance was looked for
// that could go on with the answer.
type savedCall struct {
	choice   savedChoice
	instance *backend.Instance
	usage    brokenUsage
}

// brokenUsage has the tokens of an answer when it broke off, as the client was told and as the
// last call reported them.
type brokenUsage struct{ told, last schema.Usage }

func (r *run) saveBroken() savedCall {
	return savedCall{r.choice.save(), r.attempt.instance, brokenUsage{r.usage(), r.lastUsage()}}
}

// restoreBroken makes the request one of the model and the instance again whose answer broke
// off, because nobody goes on with it: they made the tokens that are paid for.
func (r *run) restoreBroken(s savedCall) {
	r.choice.restore(s.choice)
	r.attempt.instance, r.Record.Instance = s.instance, s.instance.ID
	r.brokenUsage = &s.usage
}

// pickOnward acquires an instance that goes on with the answer, and reserves what it may use.
func (r *run) pickOnward(failed *fault) bool {
	c := &r.choice
	if !c.isLastAttempt() && c.pickAnother(&r.attempt) && c.reserveOnward(&r.attempt) {
		return true
	}
	return r.onward.broken != nil && c.pool.Service.Policy.Streams.ResumeFallbacks && c.fallBackAfter(failed, &r.attempt)
}

// reserveOnward reserves what an instance may use that was acquired to go on with an answer of
// which a part is paid already. If a limit or a budget has no room for that, it gives the
// instance back and returns false.
func (c *choice) reserveOnward(a *attempt) bool {
	o := c.onward
	if o == nil || o.broken == nil {
		return true
	}
	if o.reserved, o.noRoom = c.ReserveAgain(o.plan.Sent, o.plan.How == resume.Continued); o.noRoom == nil {
		return true
	}
	a.returnUnused()
	c.pool.Wake()
	return false
}

// countedAs is how metrics count the ways in which answers go on.
var countedAs = [resume.HowCount]metrics.Resumed{
	resume.Restarted: metrics.ResumedRestarted, resume.Continued: metrics.ResumedContinued, resume.Aligned: metrics.ResumedAligned,
}

// noteResumed notes that another instance goes on with the answer.
func (r *run) noteResumed(ctx context.Context) {
	how := r.onward.plan.How
	r.proxy.recorder.Resumed(r.Record.Service, countedAs[how])
	if r.onward.broken == nil {
		return
	}
	r.Record.Resumed++
	r.Record.Try().Resumed = how.String()
	if log := r.proxy.log; log != nil {
		log.LogAttrs(ctx, slog.LevelInfo, "a stream that broke off goes on at another instance", slog.String("request_id", r.Record.RequestID),
			slog.String("model", r.Model), slog.String("instance", r.attempt.instance.ID), slog.String("how", how.String()), slog.Int64("sent_tokens", r.onward.plan.Sent))
	}
}

// tellEnd notes why nobody goes on with an answer of which content was sent.
func (r *run) tellEnd(ctx context.Context, reason string) {
	if r.transcript == nil {
		return
	}
	r.proxy.recorder.Resumed(r.Record.Service, metrics.NotResumed)
	if log := r.proxy.log; log != nil {
		log.LogAttrs(ctx, slog.LevelInfo, "a stream that broke off ends", slog.String("request_id", r.Record.RequestID),
			slog.String("model", r.Model), slog.String("reason", reason))
	}
}

// callOnward calls the instance that is to go on with the answer.
func (r *run) callOnward(ctx context.Context) *fault {
	begun, waited := r.reply.firstByte, r.Record.Upstream
	r.choice.noteCall(r.attempt.instance)
	r.tellCall(ctx)
	failed := r.callAcquired(ctx)
	// The answer began long ago, as far as the client is concerned.
	r.reply.firstByte, r.Record.Upstream = begun, waited
	if failed == nil {
		r.tellAnswer(ctx, nil)
		now := time.Now()
		if r.reply.whole {
			r.releaseAt(breaker.Success, now)
		} else {
			r.attempt.permit = r.attempt.instance.Answered(r.attempt.permit, now)
		}
		return nil
	}
	if failed.unsent {
		r.choice.reached--
	}
	r.endBroken(ctx, failed)
	return failed
}

// endBroken ends an attempt that failed.
func (r *run) endBroken(ctx context.Context, failed *fault) {
	r.attempt.noteFailure(ctx, failed)
	r.tellAnswer(ctx, failed)
	r.release(failed.outcome)
}
