package flight

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// Call is the call of the first request.
type Call struct {
	// Next makes the call.
	Next func(context.Context) (account.Answer, error)
	// IsOwn reports whether an answer, or an error, is for the first request only; the
	// error is nil for an answer. Lead asks it when Next has returned, and for each part.
	IsOwn func(err error) bool
	// Wrap returns the answer as the first request reads it, given the context of the call.
	Wrap func(context.Context, account.Answer) account.Answer
	// RequestID is the id of the first request.
	RequestID string
}

// Notified returns the function that begins notices to the client of the first request, such
// that followers notify their clients, too.
func (f *Flight) Notified(own account.Notify) account.Notify {
	return func(after time.Duration) func() {
		end, endOthers := own(after), f.hold(after)
		return func() {
			end()
			endOthers()
		}
	}
}

// Lead makes the call of the flight, and returns its answer for the first request. The
// answer is remembered for followers while the first request reads it.
func (f *Flight) Lead(call Call) (account.Answer, error) {
	isLed := false
	defer func() {
		if !isLed { // it failed, it is not shared, or it panicked
			f.closeFirst()
		}
	}()
	answer, err := call.Next(f.ctx)
	switch isOwn := call.IsOwn(err); {
	case isOwn:
		f.end(f.unshared())
	case err != nil:
		f.end(isOver, err)
	}
	if err != nil {
		return nil, cmp.Or(f.whyStopped(), err)
	}
	form := answer.Form()
	if form.Length >= 0 && (f.seal() == 0 || form.Length > f.limits.Answer) {
		f.end(f.unshared())
	}
	hasContent, _ := answer.(interface{ HasContent() bool })
	if answer = call.Wrap(f.ctx, answer); f.isDone() {
		return answer, nil
	}
	f.begin(form)
	isLed = true
	return &lead{Answer: answer, flight: f, hasContent: hasContent, isOwn: call.IsOwn, requestID: call.RequestID}, nil
}

// whyStopped returns the cause with which the first request alone was ended, nil if it was not.
func (f *Flight) whyStopped() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// unshared is the end of a flight with an answer for the first request only.
func (*Flight) unshared() (stage, error) { return isOwn, ErrNotShared }

func (f *Flight) isDone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stage >= isOver
}

// lead is the answer as the first request reads it. Others get the same bytes.
type lead struct {
	account.Answer
	flight     *Flight
	hasContent interface{ HasContent() bool } // nil where every part has content
	content    bool                           // whether there was some
	over       bool
	isOwn      func(error) bool
	sink       *sink
	requestID  string
	// failing is the end of an incomplete answer in the form of the door.
	failing proxy.Failure
}

var _ proxy.Led = (*lead)(nil)

// Next implements account.Answer.
func (l *lead) Next() ([]byte, error) {
	l.tellStopped()
	part, err := l.Answer.Next()
	switch {
	case err == nil && l.isOwn(nil):
		l.flight.end(isOver, schema.CodedError(schema.CodeUpstreamTruncated,
			"call.not_shared"))
	case err == nil:
		l.content = l.content || l.hasContent == nil || l.hasContent.HasContent()
		l.flight.add(part, l.Answer.Usage(), l.content, l.Answer.IsComplete())
	case errors.Is(err, io.EOF) && !l.over:
		l.over = true
		l.flight.mu.Lock()
		l.flight.usage = l.Answer.Usage()
		l.flight.mu.Unlock()
		l.flight.end(isOver, nil)
	}
	return part, err
}

// HasContent implements proxy.Shared.
func (l *lead) HasContent() bool { return l.content }

// BeforeWait implements proxy.Shared: the call itself tells when it waits.
func (*lead) BeforeWait(func()) {}

// Failing implements proxy.Shared: followers get the same error as the client, each with the id
// of its own request.
func (l *lead) Failing(own proxy.Failure) proxy.Failure {
	l.failing = func(known *schema.Error, _ string) []byte { return eventOf(known) }
	if own != nil {
		l.failing = own
	}
	return func(known *schema.Error, requestID string) []byte {
		mark := rand.Text()
		text := bytes.Clone(l.failing(known, mark))
		if own != nil {
			l.flight.mu.Lock()
			l.flight.failure, l.flight.mark = text, mark
			l.flight.mu.Unlock()
		}
		l.flight.end(isOver, known)
		return bytes.ReplaceAll(text, []byte(mark), []byte(requestID))
	}
}

// tellStopped ends the events for the client of a first request that was ended by itself. The
// followers do not get that end.
func (l *lead) tellStopped() {
	why := l.flight.whyStopped()
	if why == nil || l.failing == nil || l.sink == nil || l.sink.isTold {
		return
	}
	var known *schema.Error
	if !errors.As(why, &known) {
		known = proxy.Stopping()
	}
	l.sink.endWith(l.failing(known, l.requestID))
}

// Close implements proxy.Shared.
func (l *lead) Close() { l.flight.closeFirst() }

// Detach implements proxy.Led.
func (l *lead) Detach(to proxy.Sink) (context.Context, proxy.Sink) {
	l.sink = &sink{Sink: to, flight: l.flight}
	l.sink.sending.Go(l.sink.send)
	return l.flight.ctx, l.sink
}

// Attach implements proxy.Led.
func (l *lead) Attach(sent error) (missed, end error) {
	f, s := l.flight, l.sink
	f.mu.Lock()
	s.hasMissed = s.hasMissed || sent != nil
	hasMissed := s.hasMissed
	f.mu.Unlock()
	if hasMissed {
		l.tellStopped()
	}
	f.mu.Lock()
	s.hasEnded = true
	f.moved.Broadcast()
	f.mu.Unlock()
	s.sending.Wait()
	s.panicked.Raise() // on the goroutine of the request
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s.isSlow:
		missed, end = tooSlow(), proxy.ErrBrokenOff
	case f.stopped != nil && !s.hasMissed && !s.isTold: // it has the whole answer
	case f.stopped != nil && !s.hasHead:
		return f.stopped, f.stopped
	case f.stopped != nil && !s.isTold:
		return f.stopped, proxy.ErrBrokenOff
	case f.stopped != nil:
		return f.stopped, nil
	case f.hasFirstLeft:
		missed = context.Canceled
	}
	if sent != nil { // the end of the answer weighs more
		return nil, sent
	}
	return missed, end
}

// loneRoom is how much is kept for the client of a first request that nobody follows:
// beyond it the backend is read no faster than the client reads.
const loneRoom = 64 << 10

// sink is the client of the first request. A goroutine of its own writes to it, and others
// need not wait for it. The mutex of the flight guards the fields that change.
type sink struct {
	proxy.Sink
	flight   *Flight
	sending  sync.WaitGroup
	buf      []byte // not sent yet
	flush    bool   // send buf at once
	hasEnded bool   // nothing more is added
	isSlow   bool   // the client was too slow, and gets nothing more
	// hasHead means that the client got the head of the answer, and isTold that buf ends with
	// the reason why the request was ended by itself.
	hasHead, isTold bool
	// hasMissed means that the client did not get all of the answer for that reason.
	hasMissed bool
	isGone    bool // a write to the client failed
	panicked  *logs.Panic
}

// errLeft means that nobody reads the answer any more.
var errLeft = errors.New("all clients have left")

// Head implements proxy.Sink. A request that was ended by itself before gets an error in place of
// an answer.
func (s *sink) Head(head proxy.Head) {
	s.flight.mu.Lock()
	s.hasHead = s.flight.stopped == nil
	s.flight.mu.Unlock()
	if s.hasHead {
		s.Sink.Head(head)
	}
}

// endWith adds the last bytes for the client of a request that was ended by itself.
func (s *sink) endWith(p []byte) {
	f := s.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.hasHead && !s.isSlow {
		s.buf, s.flush, s.isTold = append(s.buf, p...), true, true
		f.moved.Broadcast()
	}
}

// Write implements proxy.Sink.
func (s *sink) Write(p []byte) (int, error) { return len(p), s.add(p, false) }

// Send implements proxy.Sink.
func (s *sink) Send(p []byte) error { return s.add(p, true) }

// add keeps a part of the answer for the client. It waits for a slow client while nobody
// follows. A client that is too slow while others follow gets nothing more.
func (s *sink) add(p []byte, flush bool) error {
	f := s.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.hasFirstLeft && f.followers == 0 && s.exceeds(len(p), loneRoom) {
		f.moved.Wait()
	}
	if !f.hasFirstLeft && s.exceeds(len(p), max(f.limits.Answer, loneRoom)) {
		s.isSlow = true
		f.firstLeaves()
	}
	switch {
	case f.stopped != nil:
		s.hasMissed = true // the client gets the end of tellStopped, and the others read on
		return nil
	case f.aboard.Size == 0 && f.stage < isOver:
		return errLeft
	case f.hasFirstLeft:
		return nil // it is read for the others
	}
	s.buf = append(s.buf, p...)
	s.flush = s.flush || flush
	f.moved.Broadcast()
	return nil
}

// exceeds reports whether the buffer has bytes and more of them would pass most.
func (s *sink) exceeds(more, most int) bool { return len(s.buf) > 0 && len(s.buf)+more > most }

// send sends the added bytes to the client.
func (s *sink) send() {
	f := s.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for len(s.buf) == 0 && !s.hasEnded && !s.hasLeft() {
			f.moved.Wait()
		}
		if len(s.buf) == 0 || s.hasLeft() {
			s.buf = nil
			return
		}
		p, flush := s.buf, s.flush
		s.buf, s.flush = nil, false
		f.mu.Unlock()
		var err error
		caught := logs.Try(func() { err = s.pass(p, flush) })
		f.mu.Lock()
		if caught != nil {
			s.panicked, err = caught, caught
		}
		if err != nil {
			s.isGone = true
			f.firstLeaves()
		}
		f.moved.Broadcast()
	}
}

// hasLeft reports whether the client gets nothing more. The mutex of the flight is locked.
func (s *sink) hasLeft() bool { return s.isGone || s.flight.hasFirstLeft && s.flight.stopped == nil }

func (s *sink) pass(p []byte, flush bool) error {
	if flush {
		return s.Sink.Send(p)
	}
	_, err := s.Sink.Write(p)
	return err
}
