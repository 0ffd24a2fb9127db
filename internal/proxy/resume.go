package proxy

import (
	"context"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/resume"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// onward is a stream that broke off and with which another instance goes on.
type onward struct {
	stream *dialect.Stream
	// join takes out of the answer of that instance what the client was sent before.
	join func(dialect.Deltas) dialect.Deltas
}

// speaker returns how the request is put to an instance that goes on with the stream.
func (o *onward) speaker(of dialect.Speaker) (dialect.Speaker, error) {
	if speaker, ok := of.Resuming(o.stream, o.join); ok {
		return speaker, nil
	}
	return of, schema.NewError(schema.CodeInvalidValue, "The backend cannot go on with an answer that another one began.")
}

// refuse returns an error if an instance cannot go on with the stream.
func (o *onward) refuse(r *request, i *backend.Instance) error {
	_, speaker := i.Target.ForDoor(r.Asks.Door, r.Client)
	_, err := o.speaker(speaker)
	return err
}

// goOn lets another instance go on with a stream that broke off, and reports whether one
// does. The client was sent the beginning of the answer and nothing that a model made, so
// that this is a failover like any other: the answer of the other instance takes the place
// of what did not come, under the id of the first.
func (r *run) goOn(ctx context.Context, out body, err error) bool {
	to, isEvents := out.(*eventWriter)
	if !isEvents || ctx.Err() != nil || r.Asks == nil || !r.mayGoOn() || r.choice.isLastAttempt() {
		return false
	}
	failed := r.attempt.classifier().classify(err, true)
	if !failed.failover {
		return false
	}
	to.flush()
	r.endBroken(ctx, failed)
	r.broke = failed
	r.onward = &onward{stream: r.reply.events, join: resume.Restart}
	r.choice.translates = nil
	defer r.choice.endRetry()
	for r.choice.pickAnother(&r.attempt) {
		failed := r.callOnward(ctx)
		if failed == nil {
			r.broke = nil
			r.attempt.beforeWait(to.flush)
			return true
		}
		if ctx.Err() != nil || !failed.failover || r.choice.isLastAttempt() {
			break
		}
	}
	return false
}

// callOnward calls the instance that is to go on with the answer.
func (r *run) callOnward(ctx context.Context) *fault {
	begun, waited := r.reply.firstByte, r.Record.Upstream
	r.choice.noteCall(r.attempt.instance)
	r.tellCall(ctx)
	failed := r.attempt.call(ctx, &r.reply)
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
