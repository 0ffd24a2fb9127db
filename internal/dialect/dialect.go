// Package dialect holds what the dialects of backends share: the interfaces that a
// dialect implements, the target of its calls, readers of event streams, failures,
// vectors, and the unified answer. A dialect turns a unified request into a call
// and a backend's answer into a unified one. Nothing here opens a socket.
//
// Each dialect is a package below this one, and Anthropic's is two: anthropic towards
// backends, messages towards clients. The files of a dialect that is translated are
// request_write.go and answer_read.go, which speak it towards backends, and
// request_read.go and answer_write.go, which speak it towards clients. The unified API has
// OpenAI's shape, in which Completion writes; openai and rerank pass most of it on.
package dialect

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// Adapter speaks one dialect towards backends, for one service type. It writes
// requests and reads answers.
type Adapter interface {
	// Call describes the call that puts a request to a backend. The call may
	// share memory with the request.
	Call(req *schema.Request, to *Target, call *wire.Call) error
	// Reply turns a whole answer into a unified one. The reply may share memory
	// with the answer.
	Reply(req *schema.Request, answer Answer, reply *Reply) error
}

// Refuser is an Adapter whose dialect cannot express every request.
type Refuser interface {
	Adapter
	// Refuse returns an error if the dialect cannot express the request. It reads the
	// fields of the request and writes nothing, so that it can be called before the
	// request is admitted. Call may still refuse nested values, such as a part of a
	// message.
	Refuse(req *schema.Request) error
}

// Streamer is an Adapter for a service type whose answers can be streams of
// events.
type Streamer interface {
	Adapter
	// Events reads a streamed answer.
	Events(req *schema.Request, body io.Reader) Events
}

// EventPasser is an Adapter for a service type whose events are passed on as they
// are, because no two service types have the same.
type EventPasser interface {
	Adapter
	// AsksForEvents reports whether the client wants the answer as events.
	AsksForEvents(req *schema.Request) bool
	// PassEvents reads a streamed answer. Events name the model as given.
	PassEvents(model string, body io.Reader) FramedEvents
}

// FramedEvents are events in the frames in which they are sent, with their names
// and with the backend's own mark of the end.
type FramedEvents interface {
	Events
	// IsComplete reports whether a client may take the answer for complete when it
	// has the event that Next returned last.
	IsComplete() bool
}

// Forwarder is a stream of Events that knows some of its events by their look.
type Forwarder interface {
	Events
	// MayForward reports whether Forward may know the events that follow. The event
	// that Next returned last is not needed any more.
	MayForward() bool
	// Forward adds to out, as server-sent events, what the client gets of the events at
	// the beginning of came, which is what follows in the body of the answer. It stops
	// at the first event that has to be read with Next, or is not whole, and returns
	// how much of came it has used.
	Forward(out, came []byte) (extended []byte, used int)
	// Rest is called before a wait for more events to forward. It gives up memory that
	// only events which have to be read need: thousands of streams may wait.
	Rest()
}

// Splitter is an Adapter that makes events of a whole answer for a client that
// asked for events.
type Splitter interface {
	Adapter
	// Split returns nil if the client did not ask for events.
	Split(req *schema.Request, reply *Reply) (Events, error)
}

// BinaryTyper is an Adapter whose answers are bytes that are passed on as they
// come. Its Reply is asked only for an answer that is something else.
type BinaryTyper interface {
	Adapter
	// BinaryType returns the content type that the client is told: given what the
	// backend said, what was asked for, and how the answer begins.
	BinaryType(said string, req *schema.Request, first []byte) string
}

// ReserveTranslation reserves the memory for writing a request in another dialect:
// up to two texts of about its length, and the nodes of values that are scanned
// again, of which there is one for every member, array and object.
func ReserveTranslation(req *schema.Request) error {
	if req.Body.Reserve == nil {
		return nil
	}
	return req.ReserveCopy(translationSize(req.Body.Data()))
}

// translationSize returns about how much memory translating a text takes.
func translationSize(text []byte) int {
	nodes := 0
	for _, c := range []byte(":{[") {
		nodes += bytes.Count(text, []byte{c})
	}
	return 2*len(text) + nodes*jsonscan.NodeSize
}

// Answer is what a backend sent, whole.
type Answer struct {
	ContentType string
	Body        []byte
}

// Events is a streamed answer in the unified shape.
type Events interface {
	// Next returns the next chunk as compact JSON, good until the following
	// call. The error is io.EOF when the answer is complete, ErrTruncated when
	// the stream ended too early, ErrInvalid or a *Failure when the backend sent
	// something else than an answer, and the reader's own error otherwise.
	Next() ([]byte, error)
	// Usage returns what the backend has reported so far.
	Usage() schema.Usage
}

// Reply is a whole answer in the unified shape. The zero value is ready; reuse
// it to keep its memory.
type Reply struct {
	Segments    [][]byte
	ContentType string // empty means JSON
	Usage       schema.Usage

	// Doc and Edits are memory for the adapter that makes the reply.
	Doc   jsonscan.Document
	Edits []jsonscan.Edit

	// rooms are what Room returns in turn, and room is the one that it returned last.
	rooms [2][]byte
	room  int
}

// keepRoom is the largest memory for the text of an answer that is kept for the next one.
const keepRoom = 32 << 10

// Reset drops the answer and keeps the memory.
func (r *Reply) Reset() {
	r.Segments, r.Edits, r.Usage = wire.Empty(r.Segments), wire.Empty(r.Edits), schema.Usage{}
	r.ContentType = ""
	r.Doc.Reset()
	for i, room := range r.rooms {
		if cap(room) > keepRoom {
			r.rooms[i] = nil
		}
	}
}

// Room returns empty memory for a text of about size bytes that is to be the answer; see
// Set. It is other memory than that of the answer before, of which the new one may be
// made.
func (r *Reply) Room(size int) []byte {
	r.room = 1 - r.room
	if cap(r.rooms[r.room]) < size {
		r.rooms[r.room] = make([]byte, 0, size)
	}
	return r.rooms[r.room][:0]
}

// Set makes a text the answer. It was written into what Room returned last.
func (r *Reply) Set(text []byte) {
	r.rooms[r.room] = text
	r.Segments = append(r.Segments[:0], text)
}

// Scan scans an answer that must be JSON and returns its root. An answer in which
// the backend reports a failure is an error.
func (r *Reply) Scan(body []byte) (jsonscan.Value, error) {
	r.Doc.AllowDuplicateKeys = true
	if err := r.Doc.Parse(body); err != nil {
		return jsonscan.Value{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return r.Doc.Root(), FailureIn(r.Doc.Root())
}

// Unified scans the unified answer that the reply has, for a Client that turns it into
// another one. It uses the memory of the scan that the answer was made from.
func (r *Reply) Unified() (jsonscan.Value, error) {
	if len(r.Segments) != 1 {
		size := 0
		for _, segment := range r.Segments {
			size += len(segment)
		}
		text := r.Room(size)
		for _, segment := range r.Segments {
			text = append(text, segment...)
		}
		r.Set(text)
	}
	r.Doc.AllowDuplicateKeys, r.Doc.Deep = true, true
	err := r.Doc.Parse(r.Segments[0])
	r.Doc.Deep = false // it is used again for answers that need no depth
	if err != nil {
		return jsonscan.Value{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return r.Doc.Root(), nil
}

// What can be wrong with an answer besides a failure that the backend reports.
var (
	// ErrTruncated means that a stream ended before the answer was complete.
	ErrTruncated = errors.New("the backend's stream ended before the answer was complete")
	// ErrInvalid means that the answer is not what the dialect prescribes.
	ErrInvalid = errors.New("the backend's answer is not what its dialect prescribes")
	// ErrFormat means that the answer is a good one in another form than the
	// caller asked for, and that the one cannot be made of the other. It is an
	// ErrInvalid that says nothing against the backend: the next caller may ask
	// for the form that it has.
	ErrFormat = fmt.Errorf("%w: another form than the one that was asked for", ErrInvalid)
)
