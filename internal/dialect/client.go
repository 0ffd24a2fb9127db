package dialect

import (
	"fmt"
	"io"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// Client speaks one dialect towards clients, for a door that is not unified. It
// translates between that dialect and the unified one, so that every such door
// reaches every backend. Where a backend speaks the dialect of the door itself (see
// Kind.Native), the request and the answer are passed on and a Client is not asked.
type Client interface {
	// Unify returns the body of a request, which is in req.Source, in the unified
	// shape. It writes it into the memory that it is given, which is empty, if that is
	// large enough. An error is a *schema.Error where the unified shape cannot express
	// the request.
	Unify(req *schema.Request, into []byte) ([]byte, error)
	// Reply turns a whole unified answer into one for the client.
	Reply(req *schema.Request, reply *Reply) error
	// Events turns unified chunks into events for the client. The stream must not
	// read the request later, because its memory is used again.
	Events(req *schema.Request, from Events) FramedEvents
}

// ForcedTranslator is a Client that may insist on a translation although the backend speaks
// the dialect of the door: the request may name what only this gateway knows.
type ForcedTranslator interface {
	Client
	// MustTranslate reports whether the request must not be passed on.
	MustTranslate() bool
}

// InstanceBound is a Client whose request can be answered only by the instances that it does not
// refuse.
type InstanceBound interface {
	Client
	// RefuseInstance returns an error if an instance cannot answer the request.
	RefuseInstance(id string) error
}

// Recaller is a Client that adds to its request what the gateway keeps of the conversation.
type Recaller interface {
	Client
	// Recalled returns what is added, as JSON texts that nobody may change. It is for
	// estimates: what cannot be read is left out, and Unify returns the error.
	Recalled(req *schema.Request) [][]byte
}

// ClientEvents are FramedEvents of a dialect that has its own events for errors and
// for keeping the connection alive.
type ClientEvents interface {
	FramedEvents
	// Ping returns the event that is sent after a silence; nil means a comment. It
	// is asked once, before the first event is sent.
	Ping() []byte
	// Failure returns the events that end an answer which is not complete. Nothing
	// is sent after them.
	Failure(known *schema.Error, requestID string) []byte
}

// ForDoor returns how the requests of a door are put to the backend: the target of
// the calls, and the adapter that writes them and reads their answers. This is where
// the dialect of a client and that of a backend meet. The client is nil for unified
// doors and for doors that have no translation.
func (t *Target) ForDoor(door schema.Door, client Client) (*Target, Adapter) {
	if door.IsUnified() {
		return t, t.Adapter
	}
	if own := t.native[door]; own != nil {
		if forced, ok := client.(ForcedTranslator); !ok || !forced.MustTranslate() {
			return own, own.Adapter
		}
	}
	if client == nil {
		return t, unsupported{door}
	}
	return t, translation{client, t.Adapter}
}

// Native returns the target of a door that the backend has itself, nil if it has not.
func (t *Target) Native(door schema.Door) *Target { return t.native[door] }

// RefuseDoor returns an error if the backend can answer no request of a door: it does not
// have the door, and nothing translates its requests.
func (t *Target) RefuseDoor(door schema.Door) error {
	if t == nil || door.IsUnified() || door.IsTranslated() || t.native[door] != nil {
		return nil
	}
	return unsupported{door}.Refuse(nil)
}

// RefuseRequest is Refuse for the requests of any door.
func (t *Target) RefuseRequest(req *schema.Request, client Client) error {
	if req.Door.IsUnified() {
		return t.Refuse(req)
	}
	if _, adapter := t.ForDoor(req.Door, client); adapter != nil {
		if refuser, ok := adapter.(Refuser); ok {
			return refuser.Refuse(req)
		}
	}
	return nil
}

// translation speaks a backend's dialect for a client that speaks another one. Both
// are translated into and out of the unified shape. Whether the backend's dialect can
// express a request is found out by Call, not by Refuse, because translating costs
// too much for a request that has not been admitted.
type translation struct {
	client  Client
	backend Adapter
}

// Call translates the request, once for all its attempts, and writes it in the
// backend's dialect.
func (t translation) Call(req *schema.Request, to *Target, call *wire.Call) error {
	if err := req.Unify(t.client.Unify); err != nil {
		return err
	}
	if err := to.Refuse(req); err != nil {
		return err
	}
	return t.backend.Call(req, to, call)
}

// Reply translates a whole answer. One that becomes a stream is left unified for
// Split.
func (t translation) Reply(req *schema.Request, answer Answer, reply *Reply) error {
	if err := t.backend.Reply(req, answer, reply); err != nil || req.Stream {
		return err
	}
	return t.client.Reply(req, reply)
}

// Events translates a streamed answer.
func (t translation) Events(req *schema.Request, body io.Reader) Events {
	streamer, ok := t.backend.(Streamer)
	if !ok {
		return failedEvents{fmt.Errorf("%w: it is a stream, which this kind of backend does not give", ErrInvalid)}
	}
	return t.client.Events(req, streamer.Events(req, body))
}

// Split makes events of a whole answer for a client that asked for a stream.
func (t translation) Split(req *schema.Request, reply *Reply) (Events, error) {
	if !req.Stream {
		return nil, nil
	}
	chunks, err := CompletionEvents(req, slices.Concat(reply.Segments...), reply.Usage)
	if err != nil {
		return nil, err
	}
	return t.client.Events(req, chunks), nil
}

// failedEvents is a stream that cannot be read.
type failedEvents struct{ err error }

// Next returns the error.
func (e failedEvents) Next() ([]byte, error) { return nil, e.err }

// Usage returns nothing.
func (failedEvents) Usage() schema.Usage { return schema.Usage{} }

// unsupported refuses the requests of a door that a backend does not have.
type unsupported struct{ door schema.Door }

// Refuse says that the backend does not have the door.
func (u unsupported) Refuse(*schema.Request) error {
	return schema.NewError(schema.CodeInvalidValue, "The backends of this model do not serve "+u.door.String()+" requests.")
}

// Call is not reached, because Refuse comes first.
func (u unsupported) Call(req *schema.Request, _ *Target, _ *wire.Call) error { return u.Refuse(req) }

// Reply is not reached.
func (u unsupported) Reply(req *schema.Request, _ Answer, _ *Reply) error { return u.Refuse(req) }

// ReserveUnified reserves the memory for a request in the unified shape, which is kept
// beside the client's own body.
func ReserveUnified(req *schema.Request) error {
	reserve := req.Source.Body.Reserve
	if reserve == nil {
		return nil
	}
	return reserve(translationSize(req.Source.Body.Data()))
}
