package openai

import (
	"bytes"
	"io"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Responses speaks the Responses API towards backends that speak it themselves: requests
// and answers pass as they are, apart from the name of the model and members that the API
// requires and the backend leaves out.
var Responses = &dialect.Adapter{Refuse: refuseResponses, Account: accountids.Responses, Call: dialect.PassBody,
	Reply: replyResponses, Events: eventsResponses}

// refuseResponses refuses fields that are refused in every request: the gateway neither counts nor
// follows work in the background, and does not know the owner of a conversation.
func refuseResponses(req *schema.Request) error { return responses.Refuse(req.Body.Root()) }

// replyResponses passes a response on under the model name that the client used.
func replyResponses(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, _, err := reply.ScanMember(answer.Body, "output", jsonscan.Array)
	if err != nil {
		return err
	}
	reply.Usage = schema.ReadUsage(root.Get("usage"))
	reply.Edits = dialect.RenameModel(reply.Edits[:0], root, jsonwrite.AppendText(nil, req.Model))
	if !responses.IsWhole(root) {
		reply.Edits = responses.EchoOf(req.Body.Root()).Complete(reply.Edits, root)
	}
	reply.Segments = reply.Doc.Splice(reply.Segments[:0], reply.Edits)
	noteResponse(req.Passed, root)
	accountids.NoteResponse(req.Gave, root)
	return nil
}

// noteResponse tells the id of a response that is passed on.
func noteResponse(note func(id string), response jsonscan.Value) {
	if id := response.TextOf("id"); note != nil && len(id) > 0 {
		note(string(id))
	}
}

// eventsResponses passes the events of a response on.
func eventsResponses(req *schema.Request, body io.Reader) *dialect.Stream {
	e := &responseEvents{
		Passed: dialect.Passed{
			EventReader: dialect.EventReader{SSE: dialect.NewSSE(body)}, Model: jsonwrite.AppendText(nil, req.Model),
		},
		note: req.Passed, gave: req.Gave, request: req.Body.Root(),
	}
	return &dialect.Stream{Events: e, IsComplete: e.IsComplete, Failure: e.failure}
}

// responseEvents passes the events of a backend on. It scans only events that have a
// response in them.
type responseEvents struct {
	dialect.Passed
	note  func(id string)
	gave  func(ids []string)
	count int64 // of events that went out

	// request is the body of the request until the first event, which shows whether the
	// backend leaves members of responses out. If it does, echo has the members that
	// complete them.
	request jsonscan.Value
	echo    *responses.Echo
}

// failure returns the event that ends a response which broke off.
func (e *responseEvents) failure(known *schema.Error, _ string) []byte {
	return responses.ErrorEvent(known, e.count)
}

// Next returns the next event in its frame.
func (e *responseEvents) Next() ([]byte, error) {
	out, err := e.Read(e.take)
	if err == nil {
		e.count++
	}
	return out, err
}

// take reads an event, and reports whether it is passed on.
func (e *responseEvents) take(event dialect.Event) (bool, error) {
	if dialect.IsDone(event.Data) || len(bytes.TrimSpace(event.Data)) == 0 {
		return false, nil // not of this API, or only to keep the connection alive
	}
	return true, e.write(event)
}

// write writes an event into its frame.
func (e *responseEvents) write(event dialect.Event) error {
	if err := event.Failure(); err != nil {
		return err
	}
	name := event.Name
	if len(name) == 0 || hasResponse(name) || e.count == 0 {
		root, err := dialect.Parse(&e.Doc, event.Data)
		if err != nil {
			return err
		}
		name = root.TextOf("type")
		if err := e.inspect(root, name); err != nil {
			return err
		}
		response := root.Get("response")
		e.AppendEvent(name, e.complete(dialect.RenameModel(e.Edits[:0], response, e.Model), response))
	} else {
		e.Out = dialect.AppendFrame(e.Out, name, event.Data)
	}
	e.Content = e.Content || e.contentIn(string(name), event.Data)
	return nil
}

// complete adds the edits that give the response of an event the members that the
// backend left out.
func (e *responseEvents) complete(edits []jsonscan.Edit, response jsonscan.Value) []jsonscan.Edit {
	if e.count == 0 {
		if !responses.IsWhole(response) {
			e.echo = responses.EchoOf(e.request)
		}
		e.request = jsonscan.Value{}
	}
	if e.echo == nil {
		return edits
	}
	return e.echo.Complete(edits, response)
}

// contentIn reports whether an event has content: a piece of something, or an item that is
// neither a message nor reasoning, which begin empty. It scans the event.
func (e *responseEvents) contentIn(name string, data []byte) bool {
	isPiece, isItem := strings.HasSuffix(name, ".delta"), strings.HasPrefix(name, "response.output_item.")
	if !isPiece && !isItem || e.Doc.Parse(data) != nil {
		return strings.HasSuffix(name, ".partial_image")
	}
	if isPiece {
		return len(chat.TextIn(e.Doc.Root(), "delta")) > 0
	}
	item := e.Doc.Root().Get("item")
	switch string(item.TextOf("type")) {
	case "message", "reasoning":
		return hasElements(item.Get("content")) || hasElements(item.Get("summary"))
	}
	return true
}

// hasElements reports whether a value is a list that is not empty.
func hasElements(v jsonscan.Value) bool { return v.Kind() == jsonscan.Array && !v.Empty() }

// hasResponse reports whether events of a name have the response in them.
func hasResponse(name []byte) bool {
	switch string(name) {
	case "response.created", "response.queued", "response.in_progress", "response.completed", "response.incomplete",
		"response.failed":
		return true
	}
	return false
}

// inspect reads from an event whether it is an error, whether it is the last one, its
// usage, and the id of the response.
func (e *responseEvents) inspect(root jsonscan.Value, name []byte) error {
	response := root.Get("response")
	switch string(name) {
	case "":
		if err := dialect.FailureIn(root); err != nil {
			return err
		}
		return dialect.Invalid("an event without a type")
	case "error":
		return dialect.ReadFailure(200, root.Raw())
	case "response.failed":
		e.Tokens = schema.ReadUsage(response.Get("usage"))
		message := string(response.Get("error").TextOf("message"))
		return &dialect.Failure{Status: 200, Message: message, Code: string(response.Get("error").TextOf("code"))}
	case "response.created":
		noteResponse(e.note, response)
	case "response.completed", "response.incomplete":
		e.Stopped, e.Complete = true, true
		e.Tokens = schema.ReadUsage(response.Get("usage"))
		accountids.NoteResponse(e.gave, response)
	}
	return nil
}
