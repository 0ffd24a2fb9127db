package dialect_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// upper is a toy dialect of clients: everything is in upper case.
type upper struct{ unified *int }

func (u upper) decode(req *schema.Request, _ chat.Room) (*chat.Request, error) {
	*u.unified++
	said := chat.Text(strings.ToLower(string(req.Body.Root().Get("SAYS").Text())))
	return &chat.Request{Messages: []chat.Message{{Role: chat.User, Content: chat.Content{Text: said}}}}, nil
}

func (upper) Reply(_ *schema.Request, answer *chat.Answer, reply *dialect.Reply) error {
	reply.Set(append(reply.Room(0), strings.ToUpper(string(answer.Choices[0].Text))...))
	return nil
}

func (upper) Events(_ *schema.Request, from dialect.Deltas) *dialect.Stream {
	return &dialect.Stream{Events: upperEvents{from}, IsComplete: func() bool { return false }}
}

func (u upper) client() *dialect.Client {
	return &dialect.Client{Reply: u.Reply, Events: u.Events}
}

type upperEvents struct{ from dialect.Deltas }

func (e upperEvents) Usage() schema.Usage { return e.from.Usage().Tokens }

func (upperEvents) HasContent() bool { return true }

func (e upperEvents) Next() ([]byte, error) {
	delta, err := e.from.Next()
	if err != nil {
		return nil, err
	}
	return []byte(strings.ToUpper(string(delta.Choices[0].Text))), nil
}

// echo is a toy dialect of backends: the call is what the first message says, and the
// answer is what the model says.
var echo = &dialect.Adapter{Call: echoCall, Decode: echoDecode, DecodeStream: echoDecodeStream}

func echoDecode(_ *schema.Request, body []byte, _ *jsonscan.Document, to *chat.Answer) error {
	c := to.Add(0)
	c.Text, c.Finish = body, chat.Stop
	return nil
}

func echoDecodeStream(*schema.Request, io.Reader) dialect.Deltas {
	deltas, _ := dialect.SplitAnswer(&chat.Answer{Choices: []chat.Choice{{Text: []byte("chunk"), Finish: chat.Stop}}})
	return deltas
}

func echoCall(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	asked, err := req.Chat()
	if err != nil {
		return err
	}
	to.Begin(call, to.Path, "application/json", "application/json")
	call.Body = [][]byte{asked.Messages[0].Text}
	return nil
}

func echoReply(_ *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	reply.Segments = [][]byte{answer.Body}
	return nil
}

func echoEvents(_ *schema.Request, _ io.Reader) *dialect.Stream {
	return dialect.StoredEvents(schema.Usage{}, []byte("chunk"))
}

// passed is a dialect that backends and clients share.
var passed = &dialect.Adapter{Call: passedCall, Reply: echoReply, Events: echoEvents}

func passedCall(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	to.Begin(call, to.Path, "application/json", "application/json")
	call.Body = [][]byte{req.Body.Data()}
	return nil
}

func doorRequest(t *testing.T, read *int) *schema.Request {
	t.Helper()
	req := schema.Request{Decode: upper{read}.decode}
	if err := req.ParseBody(schema.DoorMessages, []byte(`{"model":"M","SAYS":"HI"}`), schema.FieldsOf(struct {
		Model string `json:"model"`
	}{})); err != nil {
		t.Fatal(err)
	}
	return &req
}

func doorTarget(t *testing.T, kind *dialect.Kind, path string) *dialect.Target {
	t.Helper()
	target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test", Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestDoorIsTranslatedForBackendsOfAnotherDialect(t *testing.T) {
	target := doorTarget(t, &dialect.Kind{Routes: map[schema.ServiceType]dialect.Route{schema.Chat: {Path: "/v1/chat",
		Adapter: echo}}}, "")
	unified := 0
	req := doorRequest(t, &unified)
	client := upper{&unified}.client()
	if err := target.RefuseRequest(req, client); err != nil || unified != 0 {
		t.Fatalf("refused with %v after %d translations; translating is for requests that were admitted", err, unified)
	}
	to, adapter := target.ForDoor(req.Door, client)
	for range 2 { // two attempts
		var call wire.Call
		if err := adapter.Call(req, to, &call); err != nil {
			t.Fatal(err)
		}
		if got := string(call.Body[0]); got != "hi" || call.Path != "/v1/chat" || unified != 1 {
			t.Errorf("%s %s after %d translations", call.Path, got, unified)
		}
	}
	var reply dialect.Reply
	if err := adapter.Reply(req, dialect.Answer{Body: []byte("answer")}, &reply); err != nil ||
		string(reply.Segments[0]) != "ANSWER" {
		t.Errorf("%s, %v", reply.Segments, err)
	}
	events := adapter.Events(req, nil)
	if chunk, err := events.Next(); err != nil || string(chunk) != "CHUNK" {
		t.Errorf("%s, %v", chunk, err)
	}
}

// A backend that answers at once although a stream was asked for is streamed to the
// client in its own dialect.
func TestWholeAnswerBecomesTheDoorsEvents(t *testing.T) {
	target := doorTarget(t, &dialect.Kind{Routes: map[schema.ServiceType]dialect.Route{schema.Chat: {Path: "/v1/chat",
		Adapter: echo}}}, "")
	unified := 0
	req := doorRequest(t, &unified)
	req.Stream = true
	_, adapter := target.ForDoor(req.Door, upper{&unified}.client())
	var reply dialect.Reply
	body := []byte("hi")
	if err := adapter.Reply(req, dialect.Answer{Body: body}, &reply); err != nil {
		t.Fatal(err)
	}
	clear(body) // the memory of an answer is used again when it was read
	events, err := adapter.Split(req, &reply)
	if err != nil {
		t.Fatal(err)
	}
	if events.IsComplete == nil {
		t.Error("the events are not the client's")
	}
	if chunk, err := events.Next(); err != nil || string(chunk) != "HI" {
		t.Errorf("%s, %v", chunk, err)
	}
}

func TestDoorPassesToBackendsOfItsDialect(t *testing.T) {
	for own, want := range map[string]string{
		"":                     "/v1/door",
		"/proxied/v9/chat/all": "/proxied/v9/door",
		"/elsewhere":           "/v1/door",
	} {
		target := doorTarget(t, &dialect.Kind{
			Routes: map[schema.ServiceType]dialect.Route{schema.Chat: {Path: "/v1/chat/all", Adapter: echo}},
			Native: map[schema.Door]dialect.Route{schema.DoorMessages: {Path: "/v1/door", Adapter: passed}},
		}, own)
		unified := 0
		req := doorRequest(t, &unified)
		to, adapter := target.ForDoor(req.Door, upper{&unified}.client())
		var call wire.Call
		if err := adapter.Call(req, to, &call); err != nil {
			t.Fatal(err)
		}
		if string(call.Body[0]) != `{"model":"M","SAYS":"HI"}` || call.Path != want || unified != 0 {
			t.Errorf("path %q: %s %s after %d translations, want %s", own, call.Path, call.Body[0], unified, want)
		}
	}
}

func TestDoorWithoutTranslationIsRefusedByOtherBackends(t *testing.T) {
	target := doorTarget(t, &dialect.Kind{Routes: map[schema.ServiceType]dialect.Route{schema.Chat: {Path: "/v1/chat",
		Adapter: echo}}}, "")
	var known *schema.Error
	if err := target.RefuseRequest(doorRequest(t, new(int)), nil); !errors.As(err, &known) ||
		known.HTTPStatus() != 400 || !strings.Contains(known.Message, "messages") {
		t.Errorf("%v", err)
	}
}

// The targets of several doors that a backend has itself do not contain each other.
func TestTargetsOfDoorsHaveNoDoorsOfTheirOwn(t *testing.T) {
	route := dialect.Route{Path: "/v1/x", Adapter: nil}
	kind := &dialect.Kind{
		Name:   "k",
		Routes: map[schema.ServiceType]dialect.Route{schema.Chat: route},
		Native: map[schema.Door]dialect.Route{schema.DoorCompletions: route, schema.DoorModerations: route,
			schema.DoorMessages: route},
	}
	target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test"})
	if err != nil {
		t.Fatal(err)
	}
	for door := range kind.Native {
		if own, _ := target.ForModel("other").ForDoor(door, nil); own.Model != "other" {
			t.Errorf("%s: %+v", door, own)
		}
	}
}

// A kind may sign its calls: the credential is made last, of the call as it is sent.
func TestACredentialMayBeASignatureOfTheCall(t *testing.T) {
	kind := &dialect.Kind{
		Routes: map[schema.ServiceType]dialect.Route{schema.Chat: {Path: "/v1/chat", Adapter: echo}},
		Sign: func(e dialect.Endpoint) dialect.Credential {
			return func(_ context.Context, call *wire.Call) error {
				sum := sha256.Sum256(bytes.Join(call.Body, nil))
				call.AddHeader("X-Signature", e.APIKey+" "+call.Method+" "+call.Path+" "+hex.EncodeToString(sum[:4]))
				return nil
			}
		},
	}
	target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test", APIKey: "id"})
	if err != nil {
		t.Fatal(err)
	}
	var req schema.Request
	if err := req.ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)); err != nil {
		t.Fatal(err)
	}
	var call wire.Call
	if err := target.Unified().Call(&req, target, &call); err != nil {
		t.Fatal(err)
	}
	if err := target.Authorize(t.Context(), &call); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("hi"))
	want := wire.Header{Name: "X-Signature", Value: "id POST /v1/chat " + hex.EncodeToString(sum[:4])}
	if !slices.Contains(call.Header, want) || slices.ContainsFunc(call.Header,
		func(h wire.Header) bool { return h.Name == "Authorization" }) {
		t.Errorf("%v, want %v and no key", call.Header, want)
	}
}
