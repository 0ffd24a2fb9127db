package simulator

import (
	"bytes"
	"net/http"
	"time"
)

const eventStreamType = "text/event-stream"

// eventStream sends server-sent events the way the step of its exchange says.
type eventStream struct {
	x         *exchange
	delay     time.Duration
	frame     []byte // reused for every event
	sent      int
	disturbed bool
	over      bool
}

// stream starts an answer that is a stream of events.
func (x *exchange) stream() *eventStream {
	s := &eventStream{x: x, delay: x.backend.options.TokenDelay}
	if x.step.EventDelay != 0 {
		s.delay = x.step.EventDelay
	}
	header := x.Header()
	header.Set("Content-Type", eventStreamType)
	header.Set("Cache-Control", "no-cache")
	x.setHeader()
	x.WriteHeader(http.StatusOK)
	if x.step.FirstDelay > 0 {
		// Without a delay the head travels together with the first event.
		s.over = !x.flush() || !x.pause(x.step.FirstDelay)
	}
	return s
}

// event sends one event. It returns false when the stream is over, which may
// be before its end.
func (s *eventStream) event(payload []byte) bool {
	if s.over {
		return false
	}
	if s.sent > 0 && !s.x.pause(s.delay) {
		s.over = true
		return false
	}
	if s.sent == s.x.step.After {
		s.disturb(payload)
	}
	return s.put(payload, s.x.step.Framing.MultiLine)
}

// done sends the marker that ends the stream.
func (s *eventStream) done(marker string) {
	step := &s.x.step
	if s.over {
		return
	}
	s.disturb([]byte(marker))
	if !step.NoDone {
		s.put([]byte(marker), false)
	}
	s.verbatim([]byte(step.Tail))
}

func (s *eventStream) put(payload []byte, multiLine bool) bool {
	if s.over {
		return false
	}
	if s.x.request.Context().Err() != nil {
		s.x.abandon()
		s.over = true
		return false
	}
	s.frame = s.x.step.Framing.append(s.frame[:0], payload, multiLine)
	s.sent++
	return s.verbatim(s.frame)
}

func (s *eventStream) verbatim(data []byte) bool {
	if s.over || len(data) == 0 {
		return !s.over
	}
	s.over = !s.x.write(data, 0) || !s.x.flush()
	return !s.over
}

// disturb does, once, what the step wants after After events; next is what
// would come now.
func (s *eventStream) disturb(next []byte) {
	step := &s.x.step
	if s.disturbed || !step.disturbs() {
		return
	}
	s.disturbed = true
	if !s.verbatim([]byte(step.Inject)) || step.Stop == StopNever {
		return
	}
	if step.MidEvent {
		s.frame = step.Framing.append(s.frame[:0], next, false)
		if !s.verbatim(s.frame[:len(s.frame)/2]) {
			return
		}
	}
	s.over = true
	if s.x.flush() {
		s.x.stop()
	}
}

// append adds an event with this payload to dst.
func (f *Framing) append(dst, payload []byte, multiLine bool) []byte {
	lineEnd := f.LineEnd
	if lineEnd == "" {
		lineEnd = "\n"
	}
	field := "data: "
	if f.NoSpace {
		field = "data:"
	}
	dst = append(dst, f.Before...)
	dst = append(dst, field...)
	if multiLine {
		// The first comma of an event of ours stands between two members.
		if comma := bytes.IndexByte(payload, ','); comma >= 0 {
			dst = append(dst, payload[:comma+1]...)
			dst = append(dst, lineEnd...)
			dst = append(dst, field...)
			payload = payload[comma+1:]
		}
	}
	dst = append(dst, payload...)
	dst = append(dst, lineEnd...)
	return append(dst, lineEnd...)
}
