package dialect

import (
	"bytes"
	"io"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Client is how answers are written in one dialect towards clients, for a door that is not
// unified. With it every such door reaches every backend; schema.Request.Decode reads its
// requests. Where a backend speaks the dialect of the door itself (see Kind.Native), the
// request and the answer are passed on and a Client is not asked. Functions that say so may
// be nil.
type Client struct {
	// Reply writes a whole answer for the client.
	Reply func(req *schema.Request, answer *chat.Answer, reply *Reply) error
	// Events writes a streamed answer for the client. The stream must not read the request
	// later, because its memory is used again.
	Events func(req *schema.Request, from Deltas) *Stream

	// Frame is how streams are kept alive and broken off that no backend has begun for this
	// client, such as a stream from a cache: its Filler, Ping and Failure; nil means as in
	// the unified API.
	Frame *Stream
	// Turn is how requests become requests of another door, for doors that ask for no chat;
	// nil for all others. Reply and Events are not asked then.
	Turn *Turn

	// MustTranslate insists on a translation although the backend speaks the dialect of the
	// door: the request names something that only this gateway knows.
	MustTranslate bool
	// RefuseInstance returns an error if an instance cannot answer the request; nil if all
	// can.
	RefuseInstance func(id string) error
	// Recalled returns the texts that the gateway adds to the request because it keeps the
	// conversation, as JSON texts that nobody may change; nil if it adds nothing. It is for
	// estimates: unreadable texts are left out, and Request.Chat returns the error.
	Recalled func(req *schema.Request) [][]byte
	// Again returns a client for a copy of the request that is answered beside it; nil where
	// the client keeps nothing of a request.
	Again func(copied *schema.Request) *Client
}

// For returns how the answer to a copy of the request is written, which another goroutine
// asks for. It is nil for a door without a translation.
func (c *Client) For(copied *schema.Request) *Client {
	if c == nil || c.Again == nil {
		return c
	}
	return c.Again(copied)
}

// Turn is how the requests of one door are put to backends as requests of another door of
// the same service type, and how the answers become answers of the first.
type Turn struct {
	Door schema.Door
	// Request makes the request of the other door.
	Request func(req *schema.Request) (*schema.Request, error)
	// Client writes the answers, which the backend's adapter for the other door decodes. It is nil if
	// Reply and Events make them of answers of the other door.
	Client *Client
	// Reply writes a whole answer, given one of the other door, for the client.
	Reply func(req *schema.Request, answer []byte, reply *Reply) error
	// Events does the same with a streamed answer; nil where none is streamed. The stream
	// must not read the request later.
	Events func(req *schema.Request, from *Stream) *Stream
}

// Speaker puts the requests of one door to a backend and reads the answers: with the
// functions of the backend's dialect alone where the door has that dialect, and else by
// translating.
type Speaker struct {
	*Adapter
	client *Client // nil where nothing is translated
	turn   *Turn   // nil where requests stay with their door
	// passes says that requests are passed on although answers are translated.
	passes bool
	sent   *chat.Transcript // of the texts that a stream sends; nil for none
}

// ForDoor returns how the requests of a door are put to the backend: the target of the
// calls, and the speaker that writes them and reads their answers. This is where the
// dialects of a client and of a backend meet. The client is nil for unified doors and for
// doors that have no translation.
func (t *Target) ForDoor(door schema.Door, client *Client) (*Target, Speaker) {
	if door.IsUnified() {
		return t, t.Unified()
	}
	if own := t.native[door]; own != nil && (client == nil || !client.MustTranslate) {
		return own, Speaker{Adapter: own.Adapter}
	}
	if client == nil {
		return t, Speaker{Adapter: unsupported}
	}
	if client.Turn != nil {
		target, speaker := t.ForDoor(client.Turn.Door, nil)
		speaker.turn, speaker.client = client.Turn, client.Turn.Client
		return target, speaker
	}
	return t, Speaker{Adapter: t.Adapter, client: client}
}

// Unified returns how the requests of unified doors are put to the backend.
func (t *Target) Unified() Speaker { return Speaker{Adapter: t.Adapter} }

// Native returns the target of a door that the backend has itself, nil if it has not.
func (t *Target) Native(door schema.Door) *Target { return t.native[door] }

// RefuseDoor returns an error if the backend can answer no request of a door: it does not
// have the door, and nothing translates its requests.
func (t *Target) RefuseDoor(door schema.Door) error {
	if t == nil || door.IsUnified() || door.IsTranslated() || t.native[door] != nil {
		return nil
	}
	return refuseDoor(door)
}

// RefuseRequest returns an error if the backend's dialect cannot express the request, as
// far as that can be decided without writing the call. For a request that is translated
// that is found out by Call, because translating costs too much for a request that has not
// been admitted.
func (t *Target) RefuseRequest(req *schema.Request, client *Client) error {
	_, speaker := t.ForDoor(req.Door, client)
	isTranslated := speaker.client != nil || speaker.turn != nil
	if err := t.RefuseMembers(req.Operated); err != nil && req.Account != nil {
		return err
	}
	if err := t.refuseForeign(req, speaker.Account, isTranslated); err != nil || isTranslated {
		return err
	}
	return speaker.Adapter.refuse(req)
}

// RefuseMembers returns an error unless callers with a key may name the members for operators of engines.
func (t *Target) RefuseMembers(named schema.Members) error { return (named &^ t.allowed).Refuse() }

// refuseForeign returns an error if a request names ids of the account of the backend that the
// caller may not.
func (t *Target) refuseForeign(req *schema.Request, rules accountids.Rules, isTranslated bool) error {
	if req.Account == nil || t.accountIDs || !rules.HoldFor(isTranslated) {
		return nil
	}
	if named := rules.Named(req); len(named) > 0 {
		return req.Account.RefuseForeign(named)
	}
	return nil
}

// refuse returns an error if the dialect cannot express the request.
func (a *Adapter) refuse(req *schema.Request) error {
	if a.Refuse == nil {
		return nil
	}
	return a.Refuse(req)
}

// Call writes a request in the backend's dialect. One that is translated is read once for
// all its attempts.
func (s Speaker) Call(req *schema.Request, to *Target, call *wire.Call) error {
	if s.turn != nil {
		other, turned, err := s.turned(req)
		if err != nil {
			return err
		}
		if err := other.Adapter.refuse(turned); err != nil {
			return err
		}
		return other.Call(turned, to, call)
	}
	if s.client != nil && !s.passes {
		if _, err := req.Chat(); err != nil {
			return err
		}
		if err := s.Adapter.refuse(req); err != nil {
			return err
		}
	}
	if err := s.Adapter.Call(req, to, call); err != nil || to.members == nil {
		return err
	}
	return to.members.Put(req, call)
}

// turned returns a request as one of the other door, and how that is put to the backend.
func (s Speaker) turned(req *schema.Request) (Speaker, *schema.Request, error) {
	turned, err := req.Turned(s.turn.Request)
	return Speaker{Adapter: s.Adapter}, turned, err
}

// asked returns the request that the backend answers.
func (s Speaker) asked(req *schema.Request) (*schema.Request, error) {
	if s.turn == nil {
		return req, nil
	}
	return req.Turned(s.turn.Request)
}

// writer returns the client that writes answers, nil if they are passed on.
func (s Speaker) writer() *Client {
	if s.client == nil && s.Adapter.Decode != nil && s.Adapter.Reply == nil {
		return unified
	}
	return s.client
}

// Reply reads a whole answer. One that is translated and becomes a stream is left to
// Split.
func (s Speaker) Reply(req *schema.Request, answer Answer, reply *Reply) error {
	if s.turn != nil && s.client == nil {
		other, turned, err := s.turned(req)
		if err == nil {
			err = other.Reply(turned, answer, reply)
		}
		if err != nil || req.Stream {
			return err
		}
		return s.turn.Reply(req, slices.Concat(reply.Segments...), reply)
	}
	writer := s.writer()
	if writer == nil {
		return s.Adapter.Reply(req, answer, reply)
	}
	body := answer.Body
	if req.Stream {
		// The stream is made of it when the body may be gone, and in lines.
		body = jsonwrite.Compact(bytes.TrimPrefix(body, []byte(jsonscan.ByteOrderMark)))
	}
	reply.answer.Reset()
	reply.answer = chat.Answer{Choices: reply.answer.Choices}
	asked, err := s.asked(req)
	if err != nil {
		return err
	}
	if err := s.Decode(asked, body, &reply.Doc, &reply.answer); err != nil {
		return err
	}
	reply.Usage = reply.answer.Usage.Tokens
	if req.Stream {
		return nil
	}
	return writer.Reply(req, &reply.answer, reply)
}

// Streams reports whether the backend gives streamed answers.
func (s Speaker) Streams() bool { return s.Adapter.Events != nil || s.DecodeStream != nil }

// Events reads a streamed answer, nil where the backend gives none.
func (s Speaker) Events(req *schema.Request, body io.Reader) *Stream {
	if s.turn != nil && s.client == nil {
		other, turned, err := s.turned(req)
		if err != nil { // it was made for the call
			return nil
		}
		if s.sent != nil {
			s.sent.Forbid("it is that of another endpoint")
		}
		return s.turn.Events(req, other.Events(turned, body))
	}
	if writer := s.writer(); writer != nil {
		asked, err := s.asked(req)
		if err != nil { // it was made for the call
			return nil
		}
		from := s.DecodeStream(asked, body)
		if s.sent != nil {
			from = Recorded(from, s.sent)
		}
		return writer.Events(req, from)
	}
	if s.Adapter.Events == nil {
		return nil
	}
	stream := s.Adapter.Events(req, body)
	if s.sent != nil {
		s.record(stream)
	}
	return stream
}

// record makes a transcript of a stream that is passed on.
func (s Speaker) record(stream *Stream) {
	if passed, ok := stream.Events.(recorder); ok {
		passed.Record(s.sent)
		return
	}
	s.sent.Forbid("its events are passed on unread")
}

// Split makes a stream of a whole answer where the client asked for events and the backend
// answered at once. It returns nil where the client gets the answer as it is.
func (s Speaker) Split(req *schema.Request, reply *Reply) (*Stream, error) {
	if s.turn != nil && s.client == nil {
		other, turned, err := s.turned(req)
		if err != nil || !req.Stream {
			return nil, err
		}
		stream, err := other.Split(turned, reply)
		if err != nil || stream == nil {
			return nil, err
		}
		return s.turn.Events(req, stream), nil
	}
	writer := s.writer()
	if writer == nil {
		if s.Adapter.Split == nil {
			return nil, nil
		}
		return s.Adapter.Split(req, reply)
	}
	if !req.Stream {
		return nil, nil
	}
	deltas, err := SplitAnswer(&reply.answer)
	if err != nil {
		return nil, err
	}
	return writer.Events(req, deltas), nil
}

// unsupported refuses the requests of a door that a backend does not have.
var unsupported = &Adapter{
	Refuse: func(req *schema.Request) error { return refuseDoor(req.Door) },
	Call:   func(req *schema.Request, _ *Target, _ *wire.Call) error { return refuseDoor(req.Door) },
}

// refuseDoor says that the backend does not have the door.
func refuseDoor(door schema.Door) error {
	said := say.New("call.not_served", "door", door)
	switch names := kindsWith[door]; len(names) {
	case 1:
		said = say.New("call.not_served_by", "door", door, "adapter", names[0])
	case 2:
		said = say.New("call.not_served_by_two", "door", door, "adapter", names[0], "other", names[1])
	}
	return schema.NewError(schema.CodeInvalidValue, said)
}

// kindsWith are the kinds that have doors which only a few have, for people who ask others.
var kindsWith = map[schema.Door][]string{
	schema.DoorModerations: {"openai"},
	schema.DoorTokenize:    {"vllm", "llamacpp"},
	schema.DoorDetokenize:  {"vllm", "llamacpp"},
	schema.DoorScore:       {"vllm"},
	schema.DoorClassify:    {"vllm"},
	schema.DoorPooling:     {"vllm"},
	schema.DoorInfill:      {"llamacpp"},
	schema.DoorRealtime:    {"openai", "vllm"},
}
