// Package dialect holds the parts that the dialects of backends share: the functions of
// a dialect, the target of its calls, readers of event streams, failures, and vectors.
// A dialect turns a chat.Request into a call and a backend's answer into a chat.Answer,
// or passes both on. Nothing here opens a socket.
//
// Each dialect is a package below this one, and Anthropic's is two: anthropic towards
// backends, messages towards clients. The files of a dialect that is translated are
// request_write.go and answer_read.go, which speak it towards backends, and
// request_read.go and answer_write.go, which speak it towards clients. The unified API has
// OpenAI's shape, which chat.Answer reads and writes; openai and rerank pass most of it on.
package dialect

import (
	"errors"
	"fmt"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Adapter is how one dialect is spoken towards backends, for one service type: functions
// that write requests and read answers. Functions that say so may be nil.
type Adapter struct {
	// Refuse returns an error if the dialect cannot express the request; nil if it can
	// express all. It reads the fields of the request and writes nothing: it can be called
	// before the request is admitted. Call may still refuse nested values, such as a part
	// of a message.
	Refuse func(req *schema.Request) error
	// Account says where requests name ids of the backend's account.
	Account accountids.Rules
	// Call describes the call that puts a request to a backend. The call may share memory
	// with the request.
	Call func(req *schema.Request, to *Target, call *wire.Call) error
	// Continues reports whether Call writes a request with the beginning of its answer
	// (schema.Request.Continue) in a way that makes the model go on with it; nil where it
	// does not.
	Continues func(req *schema.Request, to *Target) bool
	// Reply passes a whole answer on to clients of the same dialect. The reply may share
	// memory with the answer. Where BinaryType is set, audio or images pass without it, and it
	// gets only answers that are JSON. It is nil for a chat in a dialect that no client
	// speaks.
	Reply func(req *schema.Request, answer Answer, reply *Reply) error
	// Events passes a streamed answer on to such clients; nil where there are none, or
	// answers are no streams of chunks.
	Events func(req *schema.Request, body io.Reader) *Stream
	// Decode and DecodeStream read the answers of a chat for clients of other dialects; nil
	// for anything else. The document is memory to scan the answer in, and the result
	// shares memory with the answer.
	Decode       func(req *schema.Request, body []byte, doc *jsonscan.Document, to *chat.Answer) error
	DecodeStream func(req *schema.Request, body io.Reader) Deltas
	// PassEvents reads the stream of a service type other than chat, such as speech. Each
	// has events of its own, which are passed on as they are, with the given model in place
	// of the backend's name for it. AsksForEvents reports whether the client wants a
	// stream. Both are nil where the service type has none.
	PassEvents    func(model string, body io.Reader) *Stream
	AsksForEvents func(req *schema.Request) bool
	// Split makes events of a whole answer that is passed on for a client that asked for
	// events, and returns nil if it did not; nil where no answer becomes events.
	Split func(req *schema.Request, reply *Reply) (*Stream, error)
	// BinaryType returns the client's content type for bytes that are passed on as they
	// come, given the backend's type, the request, and the beginning of the answer; nil
	// where answers are no bytes.
	BinaryType func(said string, req *schema.Request, first []byte) string
}

// Stream is a streamed answer, and how its events are sent. Functions may be nil.
type Stream struct {
	Events
	// IsComplete reports whether a client may take the answer for complete when it has
	// the event that Next returned last. It is set where events come in their final
	// frames, with their names and with their own mark of the end.
	IsComplete func() bool
	// Ping is the event that is sent after a silence; nil means a comment.
	Ping []byte
	// ContentType is the type of a stream of something else than server-sent events, and
	// Filler a text without meaning between its parts: it is sent in place of comments,
	// also where clients take no comments. Both are empty for all other streams.
	ContentType string
	Filler      []byte
	// Failure returns the events that end an answer which is not complete. Nothing is sent
	// after them.
	Failure func(known *schema.Error, requestID string) []byte
}

// Answer is a backend's answer, whole.
type Answer struct {
	ContentType string
	Body        []byte
}

// Deltas is a streamed answer of a chat.
type Deltas interface {
	// Next returns the next delta, good until the following call. The errors are the
	// errors of Events.
	Next() (*chat.Delta, error)
	// Usage returns the usage that the backend has reported so far.
	Usage() chat.Usage
}

// Events is a streamed answer as the client gets it.
type Events interface {
	// Next returns the next chunk as compact JSON, good until the following
	// call. The error is io.EOF when the answer is complete, ErrTruncated when
	// the stream ended too early, ErrInvalid or a *Failure when the backend sent
	// something else than an answer, and the reader's own error otherwise.
	Next() ([]byte, error)
	// HasContent reports whether Next has read a part of the model's own output: text,
	// thinking, a refusal, a tool call, an image or audio. Many backends first send an event
	// that only says that the answer begins. It is asked after each call of Next until it is
	// true: no event behind the first one with content is looked at for it. Where the client
	// gets nothing of the first content, because it wants to see no thinking, Next may
	// return an empty chunk to make it known in time.
	HasContent() bool
	// Usage returns the usage that the backend has reported so far.
	Usage() schema.Usage
}

// Reply is a whole answer as the client gets it. The zero value is ready; reuse
// it to keep its memory.
type Reply struct {
	Segments    [][]byte
	ContentType string // empty means JSON
	Usage       schema.Usage

	// Doc and Edits are memory for the adapter that makes the reply.
	Doc   jsonscan.Document
	Edits []jsonscan.Edit

	answer chat.Answer // that is translated
	room   []byte      // the result of Room
}

// keepRoom is the largest memory for the text of an answer that is kept for the next one.
const keepRoom = 32 << 10

// Reset drops the answer and keeps the memory.
func (r *Reply) Reset() {
	r.Segments, r.Edits, r.Usage = wire.Empty(r.Segments), wire.Empty(r.Edits), schema.Usage{}
	r.ContentType = ""
	r.Doc.Reset()
	if r.answer.Choices != nil { // else nothing was translated
		r.answer.Reset()
	}
	r.answer.ID = nil
	if cap(r.room) > keepRoom {
		r.room = nil
	}
}

// Room returns empty memory for a text of about size bytes that is to be the answer; see
// Set.
func (r *Reply) Room(size int) []byte {
	if cap(r.room) < size {
		r.room = make([]byte, 0, size)
	}
	return r.room[:0]
}

// Set makes a text the answer and its memory the room of the next one. Nothing else may use that
// memory.
func (r *Reply) Set(text []byte) {
	r.room = text
	r.Segments = append(r.Segments[:0], text)
}

// Splice makes the scanned text with some edits the answer.
func (r *Reply) Splice(edits []jsonscan.Edit) {
	r.Edits = edits
	r.Segments = r.Doc.Splice(r.Segments[:0], edits)
}

// Scan scans an answer that must be JSON and returns its root. An answer that reports a
// failure of the backend is an error.
func (r *Reply) Scan(body []byte) (jsonscan.Value, error) {
	if _, err := Parse(&r.Doc, body); err != nil {
		return jsonscan.Value{}, err
	}
	return r.Doc.Root(), FailureIn(r.Doc.Root())
}

// The faults of an answer besides a failure that the backend reports.
var (
	// ErrTruncated means that a stream ended before the answer was complete.
	ErrTruncated = errors.New("the backend's stream ended before the answer was complete")
	// ErrInvalid means that the answer breaks the rules of the dialect.
	ErrInvalid = errors.New("the backend's answer is not what its dialect prescribes")
	// ErrEmpty means that there is nothing in the answer. It is an ErrInvalid.
	ErrEmpty = fmt.Errorf("%w: there is nothing in it", ErrInvalid)
	// ErrFormat means that the answer is good but in another form than the caller asked
	// for, and cannot be converted. It is an ErrInvalid that says nothing against the
	// backend: the next caller may ask for the form that it has.
	ErrFormat = fmt.Errorf("%w: another form than the one that was asked for", ErrInvalid)
)

// Invalid returns an ErrInvalid with the reason.
func Invalid(reason string) error { return fmt.Errorf("%w: %s", ErrInvalid, reason) }
