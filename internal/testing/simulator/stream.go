package simulator

import (
	"bytes"
	"net/http"
	"time"
)

const (
	eventStreamType = "text/event-stream"
	linesType       = "application/x-ndjson"
)

// framed is how the events of a stream become bytes.
type framed struct {
	append func(f *Framing, dst []byte, name string, payload []byte, multiLine bool) []byte
	// isOpaque says that an error cannot be recognised in the stream's bytes.
	isOpaque bool
}

var (
	asEvents = framed{append: (*Framing).append} // server-sent events, as Step.Framing says
	asLines  = framed{append: appendLine}        // one JSON text per line
	// asBytes sends events without framing.
	asBytes = framed{isOpaque: true, append: func(_ *Framing, dst []byte, _ string, payload []byte, _ bool) []byte {
		return append(dst, payload...)
	}}
)

// eventStream sends events the way the step of its exchange says.
type eventStream struct {
	x         *exchange
	framed    framed
	delay     time.Duration
	frame     []byte // reused for every event
	sent      int
	written   int // bytes
	disturbed bool
	over      bool
}

// stream starts an answer that is a stream of server-sent events.
func (x *exchange) stream() *eventStream { return x.streamAs(asEvents, eventStreamType) }

// streamAs starts an answer that is a stream of events.
func (x *exchange) streamAs(framed framed, contentType string) *eventStream {
	s := &eventStream{x: x, framed: framed, delay: x.backend.options.TokenDelay}
	if x.step.EventDelay != 0 {
		s.delay = x.step.EventDelay
	}
	if x.work.job != nil {
		s.delay = 0
	}
	if s.over = x.refused; s.over {
		return s
	}
	header := x.Header()
	header.Set("Content-Type", contentType)
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
func (s *eventStream) event(payload []byte) bool { return s.named("", payload) }

// named sends one event that has a name.
func (s *eventStream) named(name string, payload []byte) bool {
	if s.over {
		return false
	}
	if s.sent > 0 && !s.x.pause(s.delay) {
		s.over = true
		return false
	}
	if s.x.backend.choice.endsRunning(s.x.model) {
		s.over = true
		s.x.resetNow()
		return false
	}
	if s.sent == s.x.step.After {
		s.disturb(name, payload)
	}
	return s.put(name, payload, s.x.step.Framing.MultiLine)
}

// done ends the stream with this event, or without one if marker is empty.
func (s *eventStream) done(name, marker string) {
	step := &s.x.step
	if s.over {
		return
	}
	s.disturb(name, []byte(marker))
	if !step.NoDone && marker != "" {
		s.put(name, []byte(marker), false)
	}
	s.verbatim([]byte(step.Tail))
}

func (s *eventStream) put(name string, payload []byte, multiLine bool) bool {
	if s.over {
		return false
	}
	if s.x.request.Context().Err() != nil {
		s.x.abandon()
		s.over = true
		return false
	}
	s.appendFrame(name, payload, multiLine)
	s.sent++
	return s.verbatim(s.frame)
}

// appendFrame makes the frame of an event.
func (s *eventStream) appendFrame(name string, payload []byte, multiLine bool) {
	s.frame = s.framed.append(&s.x.step.Framing, s.frame[:0], name, payload, multiLine)
}

func (s *eventStream) verbatim(data []byte) bool {
	if s.over || len(data) == 0 {
		return !s.over
	}
	if limit := s.x.step.AfterBytes; limit > 0 && s.x.step.Stop != StopNever && s.written+len(data) > limit {
		s.over = true
		if s.x.write(data[:limit-s.written], 0) && s.x.flush() {
			s.x.stop()
		}
		return false
	}
	s.written += len(data)
	s.over = !s.x.write(data, 0) || !s.x.flush()
	return !s.over
}

// disturb carries out, once, the fault of the step after After events; next is the
// event that would be sent now.
func (s *eventStream) disturb(name string, next []byte) {
	step := &s.x.step
	if s.disturbed || !step.disturbs() {
		return
	}
	s.disturbed = true
	inject := []byte(step.Inject)
	if step.StreamError != "" && !s.framed.isOpaque {
		inject = append(inject, s.x.dialect.errorEvent(step.StreamError)...)
	}
	if !s.verbatim(inject) || step.Stop == StopNever && step.StreamError == "" {
		return
	}
	if step.MidEvent {
		s.appendFrame(name, next, false)
		if !s.verbatim(s.frame[:len(s.frame)/2]) {
			return
		}
	}
	s.over = true
	if s.x.flush() {
		s.x.stop()
	}
}

func (f *Framing) lineEnd() string {
	if f.LineEnd == "" {
		return "\n"
	}
	return f.LineEnd
}

// appendLine adds a payload as a line.
func appendLine(f *Framing, dst []byte, _ string, payload []byte, _ bool) []byte {
	return append(append(dst, payload...), f.lineEnd()...)
}

// append adds an event with this payload, and perhaps a name, to dst.
func (f *Framing) append(dst []byte, name string, payload []byte, multiLine bool) []byte {
	lineEnd, field := f.lineEnd(), "data: "
	if f.NoSpace {
		field = "data:"
	}
	dst = append(dst, f.Before...)
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), lineEnd...)
	}
	dst = append(dst, field...)
	if multiLine {
		// The first comma of our events separates two members.
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
