package proxy

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// resumption is a stream that broke off and that another instance resumes.
type resumption struct {
	stream *dialect.Stream
	// broken is the sent part of the answer, nil if it has nothing that a model made.
	broken *resume.Break
	// begun is the text so far in the form of a JSON string, where an instance may get it.
	begun []byte
	plan  resume.Plan   // for the instance that is called
	joint *resume.Joint // the part by that instance
	// refused is why a budget or a limit refuses the instance that was acquired last, nil if
	// none does.
	refused error
	// reserved is the reservation for that instance.
	reserved account.Reserved
}

// planFor returns how an instance goes on with the stream.
func (o *resumption) planFor(
	req *schema.Request, speaker dialect.Speaker, target *dialect.Target,
) (resume.Plan, error) {
	if _, ok := speaker.Resuming(o.stream, nil); ok {
		if o.broken == nil {
			return resume.Plan{}, nil
		}
		if plan, ok := o.broken.For(speaker.CanContinue(req, target)); ok {
			return plan, nil
		}
	}
	return resume.Plan{}, schema.CodedError(schema.CodeInvalidValue, "call.cannot_go_on")
}

// refuse returns an error if an instance cannot go on with the stream.
func (o *resumption) refuse(r *request, i *backend.Instance) error {
	target, speaker := i.Target.ForDoor(r.Asks.Door, r.Client)
	_, err := o.planFor(r.Asks, speaker, target)
	return err
}

// speaker returns the speaker that writes the request for an instance that goes on with
// the stream. The request gets the beginning of the answer if the instance can go on with
// it.
func (o *resumption) speaker(
	req *schema.Request, of dialect.Speaker, target *dialect.Target,
) (_ dialect.Speaker, err error) {
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

// resume lets another instance go on with a stream that broke off, and reports whether one
// does. Where the client was sent nothing that a model made, that is a failover like any
// other: the answer of the other instance takes the place of the missing one, under the id
// of the first. Else it is done for requests that want it, and another call is paid.
func (r *run) resume(ctx context.Context, out body, err error) bool {
	to, isEvents := out.(*eventWriter)
	if !isEvents || ctx.Err() != nil || r.Asks == nil || !r.mayResume() {
		return false
	}
	failed := r.attempt.classifier().Classify(err, true)
	if !failed.Failover {
		return false
	}
	o := &resumption{stream: r.reply.Events}
	if r.reply.Events.HasContent() {
		var reason string
		if o.broken, reason = resume.Read(r.Asks, r.transcript, r.reply.Usage()); reason != "" {
			r.tellEnd(ctx, reason)
			return false
		}
		o.begun, failed.Ending = o.broken.Begun(), reply.NoEnding
	} else {
		failed.NoteEnding()
	}
	to.flush()
	before := &brokenCall{r.choice.save(), r.attempt.instance, r.usage(), r.lastUsage()}
	r.fail(ctx, failed)
	r.broke, r.resumed, r.choice.translates = failed, o, nil
	defer r.choice.endRetry()
	if r.calls(ctx, failed) != nil {
		r.restoreBroken(before)
		r.keepFallen()
		reason := "no other instance can go on with it"
		if o.refused != nil {
			reason = o.refused.Error()
		}
		r.tellEnd(ctx, reason)
		return false
	}
	r.answered(time.Now())
	r.attempt.beforeWait(to.flush)
	if o.broken != nil {
		goesOn := o.plan.How == resume.Continued
		r.charge(before.instance, r.Resumed(before.last, before.choice.pool, o.plan.Sent, goesOn))
		to.say(": resumed attempt=" + strconv.Itoa(r.Record.Attempts) + " how=" + o.plan.How.String() + "\n\n")
	}
	r.clearFallen()
	r.broke, r.joint = nil, o.joint
	o.reserved = account.Reserved{} // it stays reserved until the request ends, also if this answer breaks off too
	r.noteResumed(ctx)
	return true
}

// brokenCall is a call with an answer that broke off, as it was before the search for another
// instance to resume it.
type brokenCall struct {
	choice   savedChoice
	instance *backend.Instance
	// told has the tokens of the answer as reported to the client, and last as reported by
	// the call.
	told, last schema.Usage
}

// restoreBroken gives the request back to the model and the instance of the broken answer,
// because nobody goes on with it: they made the tokens that are paid for.
func (r *run) restoreBroken(b *brokenCall) {
	r.choice.restore(b.choice)
	r.attempt.instance, r.Record.Instance = b.instance, b.instance.ID
	r.broken = b
}

// reserveResumed reserves the usage of an instance that goes on with an answer. The first
// part of the answer is paid already. If a limit or a budget refuses that, it gives the
// instance back and returns false.
func (c *choice) reserveResumed(a *attempt) bool {
	o := c.resumed
	if o == nil || o.broken == nil {
		return true
	}
	if o.reserved, o.refused = c.Reserve(o.plan.Sent, o.plan.How == resume.Continued); o.refused == nil {
		return true
	}
	c.returnUnused(a)
	return false
}

// countedAs maps the ways to go on with an answer to their metrics.
var countedAs = [resume.HowCount]metrics.Resumed{
	resume.Restarted: metrics.ResumedRestarted, resume.Continued: metrics.ResumedContinued,
	resume.Aligned: metrics.ResumedAligned,
}

// noteResumed notes that another instance goes on with the answer.
func (r *run) noteResumed(ctx context.Context) {
	how := r.resumed.plan.How
	r.proxy.recorder.Registry().Resumed(r.Record.Service, countedAs[how])
	if r.resumed.broken == nil {
		return
	}
	r.Record.Resumed++
	r.Record.Try().Resumed = how.String()
	if log := r.proxy.log; log != nil {
		log.LogAttrs(ctx, slog.LevelInfo, "a stream that broke off goes on at another instance",
			slog.String("request_id", r.Record.RequestID), slog.String("model", r.Model),
			slog.String("instance", r.attempt.instance.ID), slog.String("how", how.String()),
			slog.Int64("sent_tokens", r.resumed.plan.Sent))
	}
}

// tellEnd notes why nobody goes on with an answer after content was sent.
func (r *run) tellEnd(ctx context.Context, reason string) {
	if r.transcript == nil {
		return
	}
	r.proxy.recorder.Registry().Resumed(r.Record.Service, metrics.NotResumed)
	if log := r.proxy.log; log != nil {
		log.LogAttrs(ctx, slog.LevelInfo, "a stream that broke off ends", slog.String("request_id", r.Record.RequestID),
			slog.String("model", r.Model), slog.String("reason", reason))
	}
}
