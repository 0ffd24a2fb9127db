package flight

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/count/account"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/see/say"
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
		return nil, err
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
	return &lead{Answer: answer, flight: f, hasContent: hasContent, isOwn: call.IsOwn}, nil
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
}

var _ proxy.Led = (*lead)(nil)

// Next implements account.Answer.
func (l *lead) Next() ([]byte, error) {
	part, err := l.Answer.Next()
	switch {
	case err == nil && l.isOwn(nil):
		l.flight.end(isOver, schema.NewError(schema.CodeUpstreamTruncated,
			say.New("call.not_shared")))
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

// Failing implements proxy.Shared: followers get the same error as the client.
func (l *lead) Failing(own proxy.Failure) proxy.Failure {
	return func(known *schema.Error, requestID string) []byte {
		text := eventOf(known)
		if own != nil {
			text = own(known, requestID)
			l.flight.mu.Lock()
			l.flight.failure = slices.Clone(text)
			l.flight.mu.Unlock()
		}
		l.flight.end(isOver, known)
		return text
	}
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
func (l *lead) Attach() error {
	f, s := l.flight, l.sink
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
		return tooSlow()
	case f.hasFirstLeft:
		return context.Canceled
	}
	return nil
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
	panicked *logs.Panic
}

// errLeft means that nobody reads the answer any more.
var errLeft = errors.New("all clients have left")

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
	case f.aboard.Size == 0:
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
		for len(s.buf) == 0 && !s.hasEnded && !f.hasFirstLeft {
			f.moved.Wait()
		}
		if len(s.buf) == 0 || f.hasFirstLeft {
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
			f.firstLeaves()
		}
		f.moved.Broadcast()
	}
}

func (s *sink) pass(p []byte, flush bool) error {
	if flush {
		return s.Sink.Send(p)
	}
	_, err := s.Sink.Write(p)
	return err
}
