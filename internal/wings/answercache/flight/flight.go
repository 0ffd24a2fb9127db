package flight

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
)

// Flight is one call that several requests share.
type Flight struct {
	table  *Table
	key    answercache.Key
	class  schema.Class // of the first request, in whose place the call waits
	limits Limits
	// ctx is the context of the call, and cancel ends it. forget ends the watch over the
	// context of the first request.
	ctx    context.Context //nolint:containedctx // it belongs to the call, which outlives each request
	forget func() bool

	mu      sync.Mutex
	changed waiting.Signal // something below has changed
	moved   sync.Cond      // broadcast when something changes that the sink waits for
	// aboard holds the requests with a client that is still there, and followers counts all
	// of them but the first. Nobody joins a flight that is sealed, or that has nobody
	// aboard.
	aboard                 waiting.Party
	followers              int
	hasFirstLeft, isSealed bool
	// stopped is the cause with which the first request alone was ended while its client was
	// there, nil if it was not.
	stopped error
	// notice is the time after which clients of followers are sent notices, because the call
	// waits for its model; 0 while it does not.
	notice time.Duration
	stage  stage
	err    error // why it failed; nil for a complete answer
	form   account.Form
	usage  schema.Usage
	// parts are the parts of the answer from number start on, together size bytes; chunk
	// receives the copies of the next ones.
	parts [][]byte
	start int
	size  int
	chunk []byte
	// window is how many bytes are remembered once nobody can join any more, -1 before.
	window int
	// contentAt and completeAt are the numbers of the parts with the first content and the
	// one that completes the answer; -1 for none yet.
	contentAt, completeAt int
	// failure is the end of an answer that broke off, in the form of the door, with mark in
	// place of the id of a request; nil in the form of the unified API.
	failure []byte
	mark    string
}

// stage is the progress of a call.
type stage uint8

const (
	isAsked  stage = iota // the answer has not begun
	hasBegun              // there is an answer to be read
	isOver                // all of it is there, or it failed
	isOwn                 // the answer is not shared
)

// ErrNotShared means that the answer is for the first request only: a follower must make a
// call of its own.
var ErrNotShared = errors.New("the answer of the first request is not shared")

// join adds a follower, unless the flight is sealed or empty. A request that is more urgent
// than the first one does not join while it would have to wait in the place of that.
func (f *Flight) join(class schema.Class) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isSealed || f.aboard.Size == 0 || f.stage == isAsked && class > f.class {
		return false
	}
	f.aboard.Join()
	f.followers++
	f.table.following.Add(1)
	f.moved.Broadcast()
	return true
}

// seal keeps others from joining, and returns how many follow.
func (f *Flight) seal() int {
	f.table.remove(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isSealed = true
	return f.followers
}

// firstEnds notes that the context of the first request has ended. Its client may have left,
// or the request was ended by itself: by an operator, with its run, or with the gateway, which
// ends the requests of the followers, too. In each case the call continues while others are
// aboard.
func (f *Flight) firstEnds(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hasFirstLeft && !errors.Is(cause, context.Canceled) {
		f.stopped = cause
	}
	f.firstLeaves()
}

// firstLeaves notes that the client of the first request is not there any more, or gets no
// more of the answer. The mutex is locked.
func (f *Flight) firstLeaves() {
	if !f.hasFirstLeft {
		f.hasFirstLeft = true
		f.leave()
	}
}

// leave notes that one of the requests aboard is gone; the last one ends the call. The
// mutex is locked.
func (f *Flight) leave() {
	f.aboard.Leave(cmp.Or(f.stopped, context.Canceled), false)
	f.moved.Broadcast()
}

// hold notes that the call waits for its model. Clients of followers get notices after a time,
// until the returned function is called.
func (f *Flight) hold(after time.Duration) (end func()) {
	f.noteHold(after)
	return func() { f.noteHold(0) }
}

func (f *Flight) noteHold(after time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notice = after
	f.changed.Tell()
}

// begin says that the answer has begun.
func (f *Flight) begin(form account.Form) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stage, f.form = hasBegun, form
	f.changed.Tell()
}

// end says that nothing more comes, because the answer is complete or for a reason; only
// the first call has an effect. Nobody joins any more.
func (f *Flight) end(stage stage, err error) {
	f.seal()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stage >= isOver {
		return
	}
	f.stage, f.err = stage, err
	f.changed.Tell()
}

// chunkSize is how much memory parts take at a time.
const chunkSize = 8 << 10

// smallWindow is how much of an answer is remembered while the answers of all flights take
// all the room that they may.
const smallWindow = 64 << 10

// add remembers a part of the answer.
func (f *Flight) add(part []byte, usage schema.Usage, hasContent, isComplete bool) {
	f.mu.Lock()
	number := f.start + len(f.parts)
	if hasContent && f.contentAt < 0 {
		f.contentAt = number
	}
	if isComplete && f.completeAt < 0 {
		f.completeAt = number
	}
	f.usage = usage
	f.parts = append(f.parts, f.copied(part))
	f.size += len(part)
	all := f.table.held.Add(int64(len(part)))
	if f.window < 0 && (f.size > f.limits.Answer || all > f.limits.All) {
		f.window = min(f.limits.Answer, smallWindow)
		if all <= f.limits.All {
			f.window = f.limits.Answer
		}
	}
	isLarge := f.window >= 0
	if isLarge {
		f.isSealed = true
		if f.followers == 0 {
			f.window = 0 // nobody reads it
		}
		f.trim(f.window)
	}
	f.changed.Tell()
	f.mu.Unlock()
	if isLarge {
		f.table.remove(f)
	}
}

// trim forgets the oldest parts until the others are no larger than most. The last one
// stays while somebody may read it. The mutex is locked.
func (f *Flight) trim(most int) {
	n := 0
	for freed := f.size; freed > most && (n < len(f.parts)-1 || most == 0 && n < len(f.parts)); n++ {
		freed -= len(f.parts[n])
	}
	f.forgetParts(n)
}

func (f *Flight) forgetParts(n int) {
	freed := 0
	for _, part := range f.parts[:n] {
		freed += len(part)
	}
	clear(f.parts[:n])
	f.parts, f.start, f.size = f.parts[n:], f.start+n, f.size-freed
	f.table.held.Add(-int64(freed))
	if len(f.parts) == 0 {
		f.parts, f.chunk = nil, nil
	}
}

// copied returns a copy of a part. The copy never changes, and is read without the mutex.
func (f *Flight) copied(part []byte) []byte {
	if len(part) > cap(f.chunk)-len(f.chunk) {
		if len(part) > chunkSize/2 {
			return append([]byte(nil), part...)
		}
		f.chunk = make([]byte, 0, chunkSize)
	}
	from := len(f.chunk)
	f.chunk = append(f.chunk, part...)
	return f.chunk[from:len(f.chunk):len(f.chunk)]
}

// closeFirst ends the first request's share of the flight.
func (f *Flight) closeFirst() {
	f.end(isOver, brokenOff())
	f.forget()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.firstLeaves()
	f.release()
}

// closeFollower ends a follower's share of the flight.
func (f *Flight) closeFollower() {
	f.mu.Lock()
	f.followers--
	f.table.following.Add(-1)
	f.leave()
	f.release()
	isEmpty := f.aboard.Size == 0
	f.mu.Unlock()
	if isEmpty {
		f.table.remove(f)
	}
}

// release forgets the answer when nobody is there any more. The mutex is locked.
func (f *Flight) release() {
	if f.aboard.Size == 0 {
		f.window = 0
		f.forgetParts(len(f.parts))
	}
}

// brokenOff is the error for followers where the first request ended without saying why.
func brokenOff() *schema.Error {
	return schema.CodedError(schema.CodeInternal, "call.flight")
}

// tooSlow is the error for a client that is too far behind the others.
func tooSlow() *schema.Error {
	return schema.CodedError(schema.CodeOverloaded, "call.read_slowly")
}

// Follow waits until the answer of the first request begins, and returns it from its
// beginning. The error is ErrNotShared, that of the first request where it is the same for
// everybody, or the cause that ended the context. asUsed turns the usage of the first
// request into the usage that a follower is counted with. While the call waits for its model,
// notify sends the client notices after a time, until the function that it returns is called.
func (f *Flight) Follow(
	ctx context.Context, asUsed func(schema.Usage) schema.Usage, notify account.Notify,
) (_ account.Answer, err error) {
	isAboard, notices := false, (func())(nil)
	defer func() {
		if notices != nil {
			notices()
		}
		if !isAboard {
			f.closeFollower()
		}
	}()
	for {
		f.mu.Lock()
		stage, failed, hasParts := f.stage, f.err, f.start+len(f.parts) > 0
		if stage == isAsked {
			changed, notice := f.changed.Changed(), f.notice
			f.mu.Unlock()
			switch {
			case notice > 0 && notices == nil:
				notices = notify(notice)
			case notice == 0 && notices != nil:
				notices()
				notices = nil
			}
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		f.mu.Unlock()
		switch {
		case stage == isOwn:
			return nil, ErrNotShared
		case stage == isOver && failed != nil && !hasParts:
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			var known *schema.Error
			if errors.As(failed, &known) {
				own := *known
				failed = &own
			}
			return nil, failed
		}
		isAboard = true
		return &follower{flight: f, ctx: ctx, asUsed: asUsed}, nil
	}
}

// follower is the answer as one that is not the first gets it.
type follower struct {
	flight *Flight
	ctx    context.Context //nolint:containedctx // it lives as long as the request
	at     int             // how many parts were read
	flush  func()
	asUsed func(schema.Usage) schema.Usage
}

var _ proxy.Shared = (*follower)(nil)

// Form implements account.Answer.
func (r *follower) Form() account.Form { return r.flight.form } // it does not change any more

// Next implements account.Answer.
func (r *follower) Next() ([]byte, error) {
	f := r.flight
	for {
		f.mu.Lock()
		n := r.at - f.start
		switch {
		case n < 0:
			f.mu.Unlock()
			return nil, tooSlow()
		case n < len(f.parts):
			part := f.parts[n]
			r.at++
			f.mu.Unlock()
			return part, nil
		case f.stage == isOver:
			err := f.err
			f.mu.Unlock()
			switch {
			case err == nil:
				err = io.EOF
			case r.ctx.Err() != nil: // what ended the first request may have ended this one
				err = context.Cause(r.ctx)
			}
			return nil, err
		}
		changed := f.changed.Changed()
		f.mu.Unlock()
		if r.flush != nil {
			r.flush()
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return nil, context.Cause(r.ctx)
		}
	}
}

// IsComplete implements account.Answer.
func (r *follower) IsComplete() bool {
	r.flight.mu.Lock()
	defer r.flight.mu.Unlock()
	return r.flight.completeAt >= 0 && r.at > r.flight.completeAt
}

// HasContent implements proxy.Shared.
func (r *follower) HasContent() bool {
	r.flight.mu.Lock()
	defer r.flight.mu.Unlock()
	return r.flight.contentAt >= 0 && r.at > r.flight.contentAt
}

// Usage implements account.Answer.
func (r *follower) Usage() schema.Usage {
	r.flight.mu.Lock()
	defer r.flight.mu.Unlock()
	return r.asUsed(r.flight.usage)
}

// BeforeWait implements proxy.Shared.
func (r *follower) BeforeWait(flush func()) { r.flush = flush }

// Failing implements proxy.Shared: the answer ends like the answer of the first request.
func (r *follower) Failing(proxy.Failure) proxy.Failure {
	return func(known *schema.Error, requestID string) []byte {
		r.flight.mu.Lock()
		defer r.flight.mu.Unlock()
		if r.flight.failure != nil && errors.Is(known, r.flight.err) {
			return bytes.ReplaceAll(r.flight.failure, []byte(r.flight.mark), []byte(requestID))
		}
		return eventOf(known)
	}
}

// eventOf returns an error as an event of the unified API.
func eventOf(known *schema.Error) []byte {
	return append(append([]byte("data: "), known.Body()...), "\n\n"...)
}

// Close implements proxy.Shared.
func (r *follower) Close() { r.flight.closeFollower() }
