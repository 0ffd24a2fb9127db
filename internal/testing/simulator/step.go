package simulator

import (
	"net/http"
	"time"
)

// Step describes how one request is answered. The zero value is the normal
// answer; every field departs from it in one way, and fields combine.
//
// Events of a stream are counted from the first one, which for chat in OpenAI's dialect
// is the event that names the role; [DONE] is not counted. Other dialects count their own
// units: Ollama its lines, Anthropic and Gemini their events, speech its chunks of audio.
// A field without an equivalent in a dialect, such as NoDone in Gemini's, has no effect
// there.
type Step struct {
	// Reset resets the connection before anything of an answer is sent.
	Reset bool
	// Running makes a fault (see Backend.SetFault) also end the streams that run: their
	// connections are reset.
	Running bool
	// Hang never answers: it holds the request until the client leaves.
	Hang bool
	// HeaderDelay passes before the answer's head is sent.
	HeaderDelay time.Duration
	// FirstDelay passes between the head of a stream and its first event. A
	// plain answer is sent whole after this delay.
	FirstDelay time.Duration
	// EventDelay passes between events, in place of Options.TokenDelay;
	// negative means none. In a plain answer it passes between slices.
	EventDelay time.Duration

	// Raw is written to the connection verbatim in place of an HTTP answer,
	// status line included; then Stop decides how the connection ends.
	Raw string
	// Status and Body replace the answer. A Status alone answers with the
	// error of the dialect (or nothing below 400), a Body alone has status 200.
	Status int
	Body   string
	// NoBody sends an empty body with Status.
	NoBody bool
	// Header is set on any answer, replaced or not. Content-Type, where
	// absent, is guessed from Body.
	Header http.Header
	// Plain answers with one JSON completion although a stream was requested, and
	// gives speech a Content-Length.
	Plain bool

	// Text replaces the text of a chat answer or of a transcription. Its bytes are
	// sent unchanged, even if they are not UTF-8.
	Text string
	// NoFinish leaves out the events that carry a finish_reason; for Ollama
	// the done_reason itself, for Anthropic message_delta.
	NoFinish bool
	// NoDone leaves out [DONE], Ollama's last line, Anthropic's message_stop.
	NoDone bool
	// RoleAlways repeats the role in every delta.
	RoleAlways bool
	// ErrorNull puts "error":null into every event.
	ErrorNull bool
	// Extra are JSON members, such as `"vendor":{"a":1}`, added to the plain
	// answer and to every event.
	Extra string
	// Usage says where usage appears; UsageValue replaces its JSON value.
	Usage      Usage
	UsageValue string

	// Framing is how events are put into lines.
	Framing Framing
	// Slice sends the body in pieces of so many bytes, each flushed.
	Slice int

	// Stop ends the answer early after After events, or in the middle of a
	// plain body. A stream with fewer events stops before [DONE].
	Stop  Stop
	After int
	// AfterBytes makes Stop come after so many bytes of the body instead.
	AfterBytes int
	// MidEvent sends half of the next event before Stop.
	MidEvent bool
	// Inject is written verbatim after After events; without Stop the stream then
	// continues.
	Inject string
	// StreamError is the message of an error event in the shape of the dialect,
	// sent after After events; the answer ends there, properly unless Stop
	// says otherwise. Plain answers and audio ignore it.
	StreamError string
	// Tail is written verbatim after [DONE].
	Tail string
}

// Stop is a way to end an answer early.
type Stop int

// Ways to end early. In a plain answer, which declares the Content-Length of the whole
// body, StopReset, StopClose and StopStall come after half of it, or after
// Step.AfterBytes.
const (
	StopNever Stop = iota
	StopReset      // the connection is reset (RST)
	StopClose      // the connection is closed (FIN) inside the HTTP body
	StopEnd        // the HTTP body ends properly, though the answer is not complete
	StopStall      // nothing more is sent until the client leaves
)

// Usage says where an answer reports its usage; values combine.
type Usage uint

// Places of usage. The zero value is the rule of the dialect. OpenAI's is: in a
// plain answer always, in a stream when asked, as a last event without choices.
// The others report usage unasked and know only UsageNone.
const (
	UsageFinal    Usage = 1 << iota // a last event without choices, asked or not
	UsageOnFinish                   // on the last event that has a finish_reason
	UsageEvery                      // the counts so far on every event
	UsageNull                       // null on every event that has no value
	UsageNone                       // nowhere, not even in a plain answer
)

// Framing is how the events of a stream are written as lines.
type Framing struct {
	// LineEnd is "\n" if empty.
	LineEnd string
	// NoSpace leaves out the space after "data:".
	NoSpace bool
	// MultiLine spreads the JSON of an event over two data lines.
	MultiLine bool
	// Before is written verbatim before every event, for example ": ping\n\n"
	// or "event: message\n".
	Before string
}

// doneMark is the payload of the last event of a stream in OpenAI's dialect.
const doneMark = "[DONE]"

// Events for Step.Inject and Step.Tail.
const (
	// BrokenEvent is an event with JSON that is cut in the middle.
	BrokenEvent = "data: {\"id\":\"chatcmpl-broken\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"he\n\n"
	// DoneEvent is the end of a stream in OpenAI's dialect.
	DoneEvent = "data: " + doneMark + "\n\n"
)

// HTMLPage is the page that a proxy returns when the backend behind it is unavailable.
const HTMLPage = "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head>" +
	"<body><h1>502 Bad Gateway</h1></body></html>\n"

// ErrorEvent returns an event that holds an error object.
func ErrorEvent(message, kind, code string) string {
	return "data: " + ErrorObject(message, kind, code) + "\n\n"
}

// ErrorObject returns an error body in OpenAI's shape.
func ErrorObject(message, kind, code string) string {
	return string(apiError{message: message, kind: kind, code: code}.json())
}

// ErrorText returns an error body that is only a text, as Ollama's are.
func ErrorText(message string) string {
	return string(append(appendString([]byte(`{"error":`), message), '}'))
}

// replaces reports whether the step contains the answer itself.
func (s *Step) replaces() bool { return s.Status != 0 || s.Body != "" || s.NoBody }

// disturbs reports whether something happens after After events.
func (s *Step) disturbs() bool {
	return s.Stop != StopNever && s.AfterBytes == 0 || s.Inject != "" || s.StreamError != ""
}

// close adds the step's extra members to a JSON object and ends the object.
func (s *Step) close(object []byte) []byte {
	if s.ErrorNull {
		object = append(object, `,"error":null`...)
	}
	if s.Extra != "" {
		object = append(append(object, ','), s.Extra...)
	}
	return append(object, '}')
}
