package engine

import (
	"bytes"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// LlamaTokenize and LlamaDetokenize ask llama.cpp. Its endpoints have the same paths as
// vLLM's and other members.
var (
	LlamaTokenize   = &dialect.Adapter{Refuse: refuseMessages, Call: callLlamaTokenize, Reply: replyLlamaTokenize}
	LlamaDetokenize = &dialect.Adapter{Call: dialect.PassUnified, Reply: replyLlamaDetokenize}
)

// refuseMessages returns an error for messages, which llama.cpp splits into tokens only after
// they were made a text by another call.
func refuseMessages(req *schema.Request) error {
	if req.Body.Root().Get("prompt").Given() {
		return nil
	}
	return schema.InvalidValue("messages", say.New("call.counts_prompt"))
}

// callLlamaTokenize writes the request in the words of llama.cpp.
func callLlamaTokenize(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if err := refuseMessages(req); err != nil {
		return err
	}
	root := req.Body.Root()
	var w jsonwrite.Writer
	w.Object()
	w.Member("model", to.ModelNameJSON(req)) // for a server of several models
	w.Field("content", root.Get("prompt"))
	addSpecial := root.Get("add_special_tokens")
	if addSpecial.Given() {
		w.Field("add_special", addSpecial)
	} else {
		w.Literal(`"add_special":true`)
	}
	w.Literal(`"parse_special":true`)
	w.Field("with_pieces", root.Get("return_token_strs"))
	w.EndObject()
	to.Begin(call, to.PathFor(req), "application/json", "application/json")
	call.Body = append(call.Body[:0], w.Out)
	return nil
}

// replyLlamaTokenize writes the tokens as vLLM does. How long a prompt may be is not known.
func replyLlamaTokenize(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	_, list, err := reply.ScanMember(answer.Body, "tokens", jsonscan.Array)
	if err != nil {
		return err
	}
	doc := jsonscan.Document{Deep: true, AllowDuplicateKeys: true}
	var tokens, pieces jsonwrite.Writer
	tokens.Array()
	pieces.Array()
	count := int64(0)
	for token := range doc.Rescan(list).All() {
		id := token
		if token.Kind() == jsonscan.Object {
			id = token.Get("id")
			if piece := token.Get("piece"); piece.Kind() == jsonscan.String {
				pieces.Raw(piece.Raw())
			} else { // bytes that are a part of a character
				pieces.Text([]byte("�"))
			}
		}
		if id.Kind() != jsonscan.Number {
			return dialect.Invalid("a token without a number")
		}
		tokens.Raw(id.Raw())
		count++
	}
	tokens.EndArray()
	pieces.EndArray()
	w := jsonwrite.Writer{}
	w.Open(`{"count":`).Int(count)
	w.Member("tokens", tokens.Out)
	if req.Body.Root().IsTrue("return_token_strs") {
		w.Member("token_strs", pieces.Out)
	}
	w.EndObject()
	reply.Set(w.Out)
	return nil
}

// replyLlamaDetokenize writes the text under vLLM's name.
func replyLlamaDetokenize(_ *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	_, content, err := reply.ScanMember(answer.Body, "content", jsonscan.String)
	if err != nil {
		return err
	}
	var w jsonwrite.Writer
	w.Object()
	w.Field("prompt", content)
	w.EndObject()
	reply.Set(w.Out)
	return nil
}

// Infill passes requests for the text between two others to llama.cpp.
var Infill = &dialect.Adapter{Call: dialect.PassUnified, Reply: replyInfill, Events: eventsInfill, Split: splitInfill}

// replyInfill passes a whole answer on under the model name that the client used.
func replyInfill(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	if root.Get("content").Kind() != jsonscan.String {
		return dialect.Invalid("no content")
	}
	reply.Usage = usageOf(root)
	reply.Splice(dialect.RenameModel(reply.Edits[:0], root, req.ModelJSON()))
	return nil
}

// usageOf reads the counts of tokens at the end of an answer.
func usageOf(root jsonscan.Value) schema.Usage {
	prompt, hasPrompt := dialect.TokenCount(root.Get("tokens_evaluated"))
	written, hasWritten := dialect.TokenCount(root.Get("tokens_predicted"))
	if !hasPrompt || !hasWritten || !root.Get("tokens_predicted").Given() {
		return schema.Usage{}
	}
	return schema.Usage{Prompt: prompt, Completion: written, Total: prompt + written, Known: true}
}

// splitInfill makes a stream of an answer that was given whole although a stream was asked
// for.
func splitInfill(req *schema.Request, reply *dialect.Reply) (*dialect.Stream, error) {
	if !req.Stream {
		return nil, nil
	}
	return dialect.StoredEvents(reply.Usage, dialect.AppendFrame(nil, nil, reply.Segments...)), nil
}

// eventsInfill passes the events of a stream on.
func eventsInfill(req *schema.Request, body io.Reader) *dialect.Stream {
	e := &infillEvents{dialect.Passed{
		EventReader: dialect.EventReader{SSE: dialect.NewSSE(body)}, Model: bytes.Clone(req.ModelJSON()),
	}}
	return &dialect.Stream{Events: e, IsComplete: e.IsComplete}
}

// infillEvents passes events on. It reads the facts that the gateway must know.
type infillEvents struct{ dialect.Passed }

// Next returns the next event.
func (e *infillEvents) Next() ([]byte, error) { return e.Read(e.take) }

// take reads one event and makes it the output.
func (e *infillEvents) take(event dialect.Event) (bool, error) {
	root, ok, err := e.Scan(event)
	if !ok || err != nil {
		return false, err
	}
	if usage := usageOf(root); usage.Known { // every event has the counts so far
		e.Tokens = usage
	}
	e.Finished = e.Finished || root.IsTrue("stop")
	e.Complete = e.Finished
	e.Content = e.Content || len(root.TextOf("content")) > 0
	e.AppendEvent(nil, dialect.RenameModel(e.Edits[:0], root, e.Model))
	return true, nil
}
