package responses

import (
	"bytes"
	"crypto/rand"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/custominput"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The states of a response and of its items.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
)

// outcome is the state of a response.
type outcome struct {
	status string
	reason string        // why it is incomplete
	err    *schema.Error // why it failed
	usage  *chat.Usage   // nil while it is not known
}

// beginResponse writes a response up to the items of its output.
func (r *Request) beginResponse(w *jsonwrite.Writer, o outcome) {
	w.Open(`{"id":`).Plain(r.ID)
	w.Literal(`"object":"response"`)
	w.Name("created_at").Int(r.Created)
	w.Name("status").Plain(o.status)
	if o.status == completed {
		w.Name("completed_at").Int(time.Now().Unix())
	} else {
		w.Literal(`"completed_at":null`)
	}
	w.Name("error")
	if o.err == nil {
		w.Literal("null")
	} else {
		w.Open(`{"code":`).Plain(errorCode(o.err))
		w.Name("message").Text([]byte(o.err.Message))
		w.EndObject()
	}
	w.Name("incomplete_details")
	if o.reason == "" {
		w.Literal("null")
	} else {
		w.Open(`{"reason":`).Plain(o.reason)
		w.EndObject()
	}
	w.Name("output").Array()
}

// endResponse writes the members after the items of the output.
func (r *Request) endResponse(w *jsonwrite.Writer, o outcome) {
	w.EndArray()
	w.Name("usage")
	if o.usage == nil {
		w.Literal("null")
	} else {
		WriteUsage(w, o.usage)
	}
	if r.echo != nil {
		w.Raw(r.echo)
	} else {
		writeEcho(w, r.root, r.hasBriefTools)
	}
	w.EndObject()
}

// errorCode returns the code of a response that failed. The API has few of them.
func errorCode(err *schema.Error) string {
	if err.Code == schema.CodeContextLength {
		return err.Code // not among them, but clients look for it
	}
	switch status := err.HTTPStatus(); {
	case status == 429:
		return "rate_limit_exceeded"
	case status >= 400 && status < 500:
		return "invalid_prompt"
	}
	return "server_error"
}

// WriteUsage writes the usage of a response.
func WriteUsage(w *jsonwrite.Writer, u *chat.Usage) {
	cached, reasoning := u.Parts()
	w.Open(`{"input_tokens":`).Int(u.Prompt)
	w.Open(`"input_tokens_details":{"cached_tokens":`).Int(cached)
	w.Close(`,"cache_write_tokens":0}`)
	w.Name("output_tokens").Int(u.Completion)
	w.Open(`"output_tokens_details":{"reasoning_tokens":`).Int(reasoning)
	w.EndObject()
	w.Name("total_tokens").Int(u.Total)
	w.EndObject()
}

// incompleteReason returns why an answer is incomplete, by the reason why the model ended
// it; empty if it is complete.
func incompleteReason(finish chat.FinishReason) string {
	switch finish {
	case chat.Length:
		return "max_output_tokens"
	case chat.ContentFilter:
		return "content_filter"
	}
	return ""
}

// answer writes the response that a whole answer is into the memory of the reply.
func (r *Request) answer(whole *chat.Answer, reply *dialect.Reply) error {
	choice := whole.First()
	if choice == nil {
		return dialect.Invalid("no choice")
	}
	end := outcome{status: completed, reason: incompleteReason(choice.Finish), usage: &whole.Usage}
	if end.reason != "" {
		end.status = incomplete
	}
	const rest = 1024 // about the length of a response with an item, without the model's words
	a := answer{req: r, reason: end.reason}
	a.Out = reply.Room(rest + sizeOfEcho(r.root) + whole.Size())
	r.beginResponse(&a.Writer, end)
	a.addMessage(choice)
	r.endResponse(&a.Writer, end)
	reply.Set(a.Out)
	return nil
}

// answer writes the items of a whole answer.
type answer struct {
	jsonwrite.Writer
	req    *Request
	count  int
	reason string // why the answer is incomplete
}

func (a *answer) next(prefix string) string {
	id := itemID(prefix, a.req.ID, a.count)
	a.count++
	return id
}

// status returns the state of an item. Only the last one can be incomplete.
func (a *answer) status(last bool) string {
	if last && a.reason != "" {
		return incomplete
	}
	return completed
}

// addMessage adds the items that a message is.
func (a *answer) addMessage(message *chat.Choice) {
	var kept state
	kept.add(message)
	for i := range message.Calls {
		if c := &message.Calls[i]; c.Extra != nil {
			kept.calls = append(kept.calls, signedCall{quoted(c.ID), c.Extra})
		}
	}
	if len(message.Thinking) > 0 || !kept.empty() {
		writeReasoningItem(&a.Writer, a.next(reasoningPrefix), message.Thinking, &kept)
	}
	for _, address := range message.Images {
		if data := imageData(address); data != nil {
			writeImageItem(&a.Writer, a.next(imagePrefix), data)
		}
	}
	hasText, hasRefusal, hasCalls := len(message.Text) > 0, len(message.Refusal) > 0, len(message.Calls) > 0
	if hasText || hasRefusal || !hasCalls && a.count == 0 {
		beginMessageItem(&a.Writer, a.next(messagePrefix), a.status(!hasCalls))
		if hasText || !hasRefusal {
			writeTextPart(&a.Writer, message.Text, message.Logprobs, annotationsOf(message.Annotations))
		}
		if hasRefusal {
			writeRefusalPart(&a.Writer, message.Refusal)
		}
		endMessageItem(&a.Writer)
	}
	for i := range message.Calls {
		a.addCall(&message.Calls[i], a.status(i == len(message.Calls)-1))
	}
}

// imageData returns the content of an image at an address, in base64, nil if the address
// does not have it.
func imageData(address []byte) []byte {
	_, data, found := bytes.Cut(address, []byte(";base64,"))
	if !found {
		return nil
	}
	return data
}

func (a *answer) addCall(c *chat.ToolCall, status string) {
	id := callID(c)
	made := a.req.madeCall(string(chat.Unescape(c.Name)))
	if made.custom {
		input := custominput.Input{}
		input.Add(chat.Unescape(c.Arguments))
		a.req.writeCustomItem(&a.Writer, a.next(customPrefix), status, id, made, input.End())
		return
	}
	arguments := c.Arguments
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	a.req.writeCallItem(&a.Writer, a.next(callPrefix), status, id, made, arguments)
}

// madeCall returns how the client knows the tool that the backend calls by a name.
func (r *Request) madeCall(name string) tool {
	if t, renamed := r.tools[name]; renamed {
		return t
	}
	return tool{name: name}
}

// callID returns the id of a call as JSON. It makes one for a call without an id from the
// backend.
func callID(c *chat.ToolCall) []byte {
	if len(c.ID) == 0 {
		return []byte(`"call_` + rand.Text() + `"`)
	}
	return quoted(c.ID)
}

// quoted returns a text as JSON.
func quoted(text []byte) []byte { return slices.Concat([]byte{'"'}, text, []byte{'"'}) }

// annotationsOf returns the sources that a text names, which lie one level deeper in the
// unified form.
func annotationsOf(list []byte) []byte {
	if list == nil {
		return nil
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if doc.Parse(list) != nil {
		return nil // the whole was scanned before: a part has no faults
	}
	var w jsonwrite.Writer
	for v := range doc.Root().All() {
		citation := v.Get("url_citation")
		if citation.Kind() != jsonscan.Object {
			continue
		}
		w.Object()
		w.Literal(`"type":"url_citation"`)
		for m := range citation.All() {
			w.Copy(m)
		}
		w.EndObject()
	}
	return w.Out
}
