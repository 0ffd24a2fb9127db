package messages

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Pass passes requests of the Messages API to backends that speak it themselves,
// and their answers to the client. Only the name of the model is changed.
var Pass = &dialect.Adapter{
	Account: accountids.Anthropic, Call: callPass, Continues: dialect.Always, Reply: replyPass, Events: eventsPass,
	Split:  splitPass,
	Decode: anthropic.Decode, DecodeStream: anthropic.DecodeStream,
}

// callPass passes the client's body on, with the headers and the query that belong to the
// dialect.
func callPass(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	to.Begin(call, withBeta(to.PathFor(req), req.Query), "application/json", dialect.Accept(req))
	passHeaders(call, req.Header)
	edits := call.Edits[:0]
	if to.ModelJSON != nil {
		edits = append(edits, req.Body.Root().Get("model").Replace(to.ModelJSON))
	}
	if bytes.Contains(req.Body.Data(), []byte(markedThinking)) {
		edits = withoutMarkedThinking(edits, req.Body.Root().Get("messages"))
	}
	edits = dialect.ContinueMessages(edits, req, "max_tokens")
	call.Edits = edits
	call.Body = req.Body.Splice(call.Body[:0], edits)
	return nil
}

// withBeta adds the parameter that clients use to ask for beta features.
func withBeta(path, query string) string {
	if query == "" || !strings.Contains(query, "beta") {
		return path
	}
	values, err := url.ParseQuery(query)
	if err != nil || !values.Has("beta") {
		return path
	}
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return path + separator + "beta=" + url.QueryEscape(values.Get("beta"))
}

// passHeaders passes on the client's version of the dialect, and the beta features it
// wants besides the configured ones of the instance.
func passHeaders(call *wire.Call, client http.Header) {
	if version := client.Get("Anthropic-Version"); version != "" {
		setHeader(call, "anthropic-version", version)
	}
	beta := strings.Join(client["Anthropic-Beta"], ",")
	if beta == "" {
		return
	}
	for _, h := range call.Header {
		if strings.EqualFold(h.Name, "anthropic-beta") && h.Value != "" {
			beta = h.Value + "," + beta
		}
	}
	setHeader(call, "anthropic-beta", beta)
}

func setHeader(call *wire.Call, name, value string) {
	call.Header = slices.DeleteFunc(call.Header, func(h wire.Header) bool { return strings.EqualFold(h.Name, name) })
	call.Header = append(call.Header, wire.Header{Name: name, Value: value})
}

// withoutMarkedThinking removes the thinking that a backend of another dialect gave
// earlier in the conversation: this backend refuses thinking that it has not signed.
func withoutMarkedThinking(edits []jsonscan.Edit, messages jsonscan.Value) []jsonscan.Edit {
	for m := range messages.All() {
		content := m.Get("content")
		if content.Kind() != jsonscan.Array || !bytes.Contains(content.Raw(), []byte(markedThinking)) {
			continue
		}
		var doc jsonscan.Document
		kept, all := jsonwrite.Writer{Out: []byte{'['}}, true
		for b := range doc.Rescan(content).All() {
			if _, marked := unmarkThinking(b.TextOf("signature")); marked &&
				b.Is("type", "thinking") {
				all = false
				continue
			}
			kept.Raw(b.Raw())
		}
		if all {
			continue
		}
		if len(kept.Out) == 1 {
			kept.Literal(`{"type":"text","text":"(no text)"}`) // an empty turn is refused
		}
		kept.EndArray()
		edits = append(edits, content.Replace(kept.Out))
	}
	return edits
}

// replyPass passes a message on under the model name that the client used.
func replyPass(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := dialect.Parse(&reply.Doc, answer.Body)
	if err != nil {
		return err
	}
	if err := anthropic.FailureIn(root); err != nil {
		return err
	}
	if root.Get("content").Kind() != jsonscan.Array {
		return dialect.Invalid("no content")
	}
	var usage anthropic.TokenCounts
	usage.Read(root.Get("usage"))
	reply.Usage = usage.Report()
	reply.Pass(req.ModelJSON())
	accountids.NoteMessage(req.Gave, answer.Body)
	return nil
}

func splitPass(req *schema.Request, reply *dialect.Reply) (*dialect.Stream, error) {
	return dialect.SplitPassed(req, reply, anthropic.Decode, eventsMessage)
}

// eventsPass passes the events of a streamed message on.
func eventsPass(req *schema.Request, body io.Reader) *dialect.Stream {
	e := &passedEvents{gave: req.Gave}
	e.SSE, e.Model = dialect.NewSSE(body), bytes.Clone(req.ModelJSON())
	return &dialect.Stream{Events: e, IsComplete: e.IsComplete, Ping: pingEvent, Failure: ErrorEvent}
}

// passedEvents passes events on. It reads the facts that the gateway must know, and
// holds the start of the message back until its first block, because until then another
// instance can take over.
type passedEvents struct {
	dialect.Passed
	gave   func(ids []string)
	counts anthropic.TokenCounts

	pattern dialect.TextPattern // of pieces of the open block
	begun   bool                // the first block has begun, or the message has ended without one
	blocks  openBlocks          // which block is open
	sent    *chat.Transcript    // of the texts; nil for none
}

// count reads a report of tokens.
func (e *passedEvents) count(usage jsonscan.Value) {
	e.counts.Read(usage)
	e.Tokens = e.counts.Report()
}

// Next returns the next events.
func (e *passedEvents) Next() ([]byte, error) {
	if e.Onward != nil {
		return e.Onward.Next()
	}
	out, err := e.Read(e.take)
	if errors.Is(err, io.EOF) && !e.Complete {
		// The message was complete; a missing last event takes nothing from it.
		e.Complete = true
		return append(e.Out, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...), nil
	}
	return out, err
}

// take reads one event, and reports whether there is something to send.
func (e *passedEvents) take(event dialect.Event) (bool, error) {
	err := e.pass(event)
	return e.begun && len(e.Out) > 0, err
}

// deltaStart is how the events begin that have a piece of a block, and deltaName is
// their name.
var (
	deltaStart = []byte(`{"type":"content_block_delta",`)
	deltaName  = []byte("content_block_delta")
)

// learn remembers a piece of a block. The last member of the piece is its text. An
// event that has another text there is such a piece, too.
func (e *passedEvents) learn(piece []byte) {
	start := bytes.LastIndex(piece, []byte(`":"`)) + len(`":`)
	end := bytes.LastIndexByte(piece, '"')
	if start < len(deltaStart) || start >= end || !jsonscan.StringEnds(piece, start+1, end) ||
		bytes.IndexByte(piece, '\n') >= 0 {
		return
	}
	e.pattern.Learn(piece, start, end+1)
}

// pass reads one event and adds it to the output.
func (e *passedEvents) pass(event dialect.Event) error {
	if dialect.IsDone(event.Data) {
		return nil // not of this dialect; some gateways add it
	}
	if err := event.Failure(); err != nil {
		return err
	}
	if _, isPiece := e.pattern.Text(event.Data); isPiece && e.begun && e.Content && e.sent == nil {
		e.Out = dialect.AppendFrame(e.Out, deltaName, event.Data)
		return nil
	}
	root, err := dialect.Parse(&e.Doc, event.Data)
	if err != nil {
		return err
	}
	if e.begun && bytes.HasPrefix(event.Data, deltaStart) {
		e.AppendEvent(deltaName, nil) // most events are these, and nothing of them matters here
		e.learn(event.Data)
		e.Content = e.Content || pieceHasContent(root.Get("delta"))
		e.record(root.Get("delta"))
		return nil
	}
	if err := anthropic.FailureIn(root); err != nil {
		return err
	}
	kind := root.TextOf("type")
	if kind == nil {
		kind = event.Name
	}
	edits := e.Edits[:0]
	switch string(kind) {
	case "message_start":
		e.count(root.Get("message").Get("usage"))
		edits = dialect.RenameModel(edits, root.Get("message"), e.Model)
	case "message_delta":
		e.count(root.Get("usage"))
		e.Finished = e.Finished || dialect.IsFinishReason(root.Get("delta").Get("stop_reason"))
		e.begun = e.begun || e.Finished
	case "message_stop":
		if !e.begun {
			return dialect.ErrTruncated
		}
		e.Complete, e.Finished, e.Stopped = true, true, true
	case "ping":
		if !e.begun {
			return nil
		}
	case "content_block_start":
		e.begun = true
		e.blocks.start(root)
		e.recordStart(root.Get("content_block"))
		e.Content = e.Content || blockHasContent(root.Get("content_block"))
	case "content_block_delta":
		e.begun = true
		e.record(root.Get("delta"))
		e.Content = e.Content || pieceHasContent(root.Get("delta"))
	case "content_block_stop":
		e.begun = true
		e.blocks.stop()
	default:
		e.begun = true
	}
	accountids.NoteMessage(e.gave, event.Data)
	e.AppendEvent(kind, edits)
	return nil
}

// blockHasContent reports whether a block has content when it begins, as calls have.
func blockHasContent(block jsonscan.Value) bool {
	kind := block.TextOf("type")
	return bytes.Contains(kind, []byte("tool_")) ||
		len(chat.TextIn(block, "text"))+len(chat.TextIn(block, "thinking")) > 0
}

// pieceHasContent reports whether a piece of a block has content: a signature does not
// count.
func pieceHasContent(delta jsonscan.Value) bool {
	return len(chat.TextIn(delta, "text"))+len(chat.TextIn(delta, "thinking"))+len(chat.TextIn(delta,
		"partial_json")) > 0
}
