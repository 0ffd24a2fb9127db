package responses

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// writeEcho writes the members of a response that repeat the request, with the values that
// hold where the request has none.
func writeEcho(w *jsonwrite.Writer, root jsonscan.Value) {
	f := fieldsOf(root)
	w.Literal(`"background":false`)
	for _, m := range echoed {
		if v := f[m.place]; v.Given() {
			w.Name(string(v.Key()))
			w.Raw(dialect.InOneLine(v))
		} else {
			w.Literal(m.without)
		}
	}
}

// echoOf returns the members of a response that repeat the request.
func echoOf(root jsonscan.Value) []byte {
	w := jsonwrite.Writer{Out: make([]byte, 0, sizeOfEcho(root))}
	writeEcho(&w, root)
	return w.Out
}

// sizeOfEcho returns about how long the members of a response are that repeat the request.
func sizeOfEcho(root jsonscan.Value) int {
	const without = 640
	return without + len(root.Raw()) - len(root.Get("input").Raw())
}

// echoed are the members of a request that a response repeats, in their order, and what
// it has where the request has none.
var echoed = [...]struct {
	place   int
	without string // the whole member
}{
	{fieldInstructions, `"instructions":null`},
	{fieldMaxOutputTokens, `"max_output_tokens":null`},
	{fieldMaxToolCalls, `"max_tool_calls":null`},
	{fieldMetadata, `"metadata":{}`},
	{fieldModel, `"model":""`},
	{fieldParallelToolCalls, `"parallel_tool_calls":true`},
	{fieldPreviousResponseID, `"previous_response_id":null`},
	{fieldPromptCacheKey, `"prompt_cache_key":null`},
	{fieldReasoning, `"reasoning":{"effort":null,"summary":null}`},
	{fieldSafetyIdentifier, `"safety_identifier":null`},
	{fieldServiceTier, `"service_tier":null`},
	{fieldStore, `"store":true`},
	{fieldTemperature, `"temperature":null`},
	{fieldText, `"text":{"format":{"type":"text"}}`},
	{fieldToolChoice, `"tool_choice":"auto"`},
	{fieldTools, `"tools":[]`},
	{fieldTopLogprobs, `"top_logprobs":0`},
	{fieldTopP, `"top_p":null`},
	{fieldTruncation, `"truncation":"disabled"`},
	{fieldUser, `"user":null`},
}

// The states of a response and of its items.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
)

// outcome is how a response stands.
type outcome struct {
	status string
	reason string         // why it is incomplete
	err    *schema.Error  // why it failed
	usage  *dialect.Usage // nil while it is not known
}

// beginResponse writes a response up to the items of its output.
func (r *Request) beginResponse(w *jsonwrite.Writer, o outcome) {
	w.Open(`{"id":`)
	w.Plain(r.ID)
	w.Literal(`"object":"response"`)
	w.Name("created_at")
	w.Int(r.Created)
	w.Name("status")
	w.Plain(o.status)
	if o.status == completed {
		w.Name("completed_at")
		w.Int(time.Now().Unix())
	} else {
		w.Literal(`"completed_at":null`)
	}
	w.Name("error")
	if o.err == nil {
		w.Literal("null")
	} else {
		w.Open(`{"code":`)
		w.Plain(errorCode(o.err))
		w.Name("message")
		w.Text([]byte(o.err.Message))
		w.EndObject()
	}
	w.Name("incomplete_details")
	if o.reason == "" {
		w.Literal("null")
	} else {
		w.Open(`{"reason":`)
		w.Plain(o.reason)
		w.EndObject()
	}
	w.Name("output")
	w.Array()
}

// endResponse writes what follows the items of the output.
func (r *Request) endResponse(w *jsonwrite.Writer, o outcome) {
	w.EndArray()
	w.Name("usage")
	if o.usage == nil {
		w.Literal("null")
	} else {
		writeUsage(w, o.usage)
	}
	if r.echo != nil {
		w.Raw(r.echo)
	} else {
		writeEcho(w, r.root)
	}
	w.EndObject()
}

// contextTooLong is the code of a request that is longer than the model can read.
const contextTooLong = "context_length_exceeded"

// errorCode returns the code of a response that failed. The API has few of them.
func errorCode(err *schema.Error) string {
	if err.Code == contextTooLong {
		return err.Code // not among them, but what clients look for
	}
	switch status := err.HTTPStatus(); {
	case status == 429:
		return "rate_limit_exceeded"
	case status >= 400 && status < 500:
		return "invalid_prompt"
	}
	return "server_error"
}

// readUsage reads the usage of a completion, nil if it has none.
func readUsage(v jsonscan.Value) *dialect.Usage {
	if v.Kind() != jsonscan.Object {
		return nil
	}
	u := dialect.ReadUsage(v)
	return &u
}

func writeUsage(w *jsonwrite.Writer, u *dialect.Usage) {
	w.Open(`{"input_tokens":`)
	w.Int(u.Prompt)
	w.Open(`"input_tokens_details":{"cached_tokens":`)
	w.Int(u.Cached)
	w.Close(`,"cache_write_tokens":0}`)
	w.Name("output_tokens")
	w.Int(u.Completion)
	w.Open(`"output_tokens_details":{"reasoning_tokens":`)
	w.Int(u.Reasoning)
	w.EndObject()
	w.Name("total_tokens")
	w.Int(u.Total)
	w.EndObject()
}

// incompleteReason returns why an answer is incomplete, by the reason why the model ended
// it; empty if it is complete.
func incompleteReason(finish string) string {
	switch finish {
	case "length":
		return "max_output_tokens"
	case "content_filter":
		return "content_filter"
	}
	return ""
}

// answer writes the response that a whole completion is into the memory of the reply.
func (r *Request) answer(completion jsonscan.Value, reply *dialect.Reply) error {
	choice := completion.Get("choices").First()
	message := choice.Get("message")
	if message.Kind() != jsonscan.Object {
		return fmt.Errorf("%w: no message", dialect.ErrInvalid)
	}
	end := outcome{status: completed, reason: incompleteReason(string(choice.Get("finish_reason").Text())), usage: readUsage(completion.Get("usage"))}
	if end.reason != "" {
		end.status = incomplete
	}
	if end.usage == nil {
		end.usage = new(dialect.Usage)
	}
	const rest = 1024 // about how long a response with an item is without what was said
	a := answer{req: r, reason: end.reason}
	a.Out = reply.Room(len(message.Raw()) + sizeOfEcho(r.root) + rest)
	r.beginResponse(&a.Writer, end)
	a.addMessage(message, choice.Get("logprobs").Get("content"))
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

// status returns the state of an item, of which only the last can be incomplete.
func (a *answer) status(last bool) string {
	if last && a.reason != "" {
		return incomplete
	}
	return completed
}

// addMessage adds the items that a message is.
func (a *answer) addMessage(message, logprobs jsonscan.Value) {
	var kept state
	kept.add(message)
	calls := message.Get("tool_calls")
	for c := calls.First(); c.Kind() != jsonscan.Absent; c = c.Next() {
		if extra := c.Get("extra_content"); extra.Kind() == jsonscan.Object {
			kept.calls = append(kept.calls, signedCall{c.Get("id").Raw(), extra.Raw()})
		}
	}
	if thinking := dialect.ThinkingIn(message); len(thinking) > 0 || !kept.empty() {
		writeReasoningItem(&a.Writer, a.next(reasoningPrefix), thinking, &kept)
	}
	for image := message.Get("images").First(); image.Kind() != jsonscan.Absent; image = image.Next() {
		if data := dialect.ImageData(image); data != nil {
			writeImageItem(&a.Writer, a.next(imagePrefix), data)
		}
	}
	content, refusal := dialect.ContentIn(message), message.Get("refusal")
	hasText := len(content) > 0
	hasRefusal := len(dialect.RawText(refusal)) > 0
	hasCalls := calls.Kind() == jsonscan.Array && !calls.Empty()
	if hasText || hasRefusal || !hasCalls && a.count == 0 {
		beginMessageItem(&a.Writer, a.next(messagePrefix), a.status(!hasCalls))
		if hasText || !hasRefusal {
			writeTextPart(&a.Writer, content, dialect.ElementsOf(logprobs), annotationsOf(message.Get("annotations")))
		}
		if hasRefusal {
			writeRefusalPart(&a.Writer, dialect.RawText(refusal))
		}
		endMessageItem(&a.Writer)
	}
	for c := calls.First(); c.Kind() != jsonscan.Absent; c = c.Next() {
		a.addCall(c)
	}
}

func (a *answer) addCall(c jsonscan.Value) {
	function, status := c.Get("function"), a.status(c.Next().Kind() == jsonscan.Absent)
	id := c.Get("id").Raw()
	if len(dialect.RawText(c.Get("id"))) == 0 {
		id = newCallID()
	}
	made := a.req.madeCall(string(function.Get("name").Text()))
	arguments := dialect.ArgumentsIn(function.Get("arguments"))
	if made.custom {
		input := customInput{}
		input.add(jsonscan.Unescape(nil, arguments))
		a.req.writeCustomItem(&a.Writer, a.next(customPrefix), status, id, made, input.end())
		return
	}
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

// newCallID returns an id for a call to which the backend gave none, as JSON.
func newCallID() []byte { return []byte(`"call_` + rand.Text() + `"`) }

// annotationsOf returns the sources that a text names, which lie one level deeper in the
// unified form.
func annotationsOf(list jsonscan.Value) []byte {
	var w jsonwrite.Writer
	for v := list.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		citation := v.Get("url_citation")
		if citation.Kind() != jsonscan.Object {
			continue
		}
		w.Object()
		w.Literal(`"type":"url_citation"`)
		for m := citation.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
			w.Copy(m)
		}
		w.EndObject()
	}
	return w.Out
}
