package genai

import (
	"bytes"
	"crypto/rand"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// The two forms of streams. Neither has comments: clients read every line that is not empty,
// and only line ends say nothing.
var (
	eventsClient = &dialect.Client{Reply: reply, Events: streamEvents,
		Frame: &dialect.Stream{Filler: []byte("\n"), Failure: failureEvent}}
	arrayClient = &dialect.Client{Reply: reply, Events: streamEvents,
		Frame: &dialect.Stream{Filler: []byte("\n"), Failure: failureElement}}
)

// ClientFor returns how the callers of generateContent are translated for. A stream is a
// JSON array, unless the client asks for events.
func ClientFor(req *schema.Request) *dialect.Client {
	if asksForEvents(req.Query) || !req.Stream {
		return eventsClient
	}
	return arrayClient
}

// asksForEvents reports whether a query asks for server-sent events.
func asksForEvents(query string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "alt=sse" || pair == "%24alt=sse" || pair == "$alt=sse" {
			return true
		}
	}
	return false
}

// failureEvent returns the event that ends an answer which is not complete, and
// failureElement the element of an array that does.
func failureEvent(known *schema.Error, requestID string) []byte {
	return dialect.AppendFrame(nil, nil, Error(known, requestID))
}

func failureElement(known *schema.Error, requestID string) []byte {
	return append(append([]byte(",\n"), Error(known, requestID)...), "]\n"...)
}

// framing is how the parts of a stream are sent.
type framing struct {
	isArray bool
	begun   bool
}

// append appends a part in its frame.
func (f *framing) append(dst []byte, part ...[]byte) []byte {
	if !f.isArray {
		return dialect.AppendFrame(dst, nil, part...)
	}
	if f.begun {
		dst = append(dst, ",\n"...)
	} else {
		dst = append(dst, '[')
	}
	f.begun = true
	for _, p := range part {
		dst = append(dst, p...)
	}
	return dst
}

// end appends the text behind the last part.
func (f *framing) end(dst []byte) []byte {
	if f.isArray {
		dst = append(dst, "]\n"...)
	}
	return dst
}

// stream returns a stream in the form that a request asks for.
func (f *framing) stream(events dialect.Events, isComplete func() bool) *dialect.Stream {
	if !f.isArray {
		return &dialect.Stream{Events: events, IsComplete: isComplete, Filler: []byte("\n"), Failure: failureEvent}
	}
	return &dialect.Stream{
		Events: events, IsComplete: isComplete, ContentType: "application/json", Filler: []byte("\n"),
		Failure: func(known *schema.Error, requestID string) []byte {
			if f.begun {
				return failureElement(known, requestID)
			}
			return append(append([]byte{'['}, Error(known, requestID)...), "]\n"...)
		},
	}
}

// wishes are the parts of a request that matter for its answer.
type wishes struct {
	model         []byte // the client's name of it, as JSON
	wantsThoughts bool
	framing
}

// readWishes copies the needed parts, because the request may be gone before its answer
// is.
func readWishes(req *schema.Request) wishes {
	config := member(req.Body.Root(), "generationConfig", "generation_config")
	thinking := member(config, "thinkingConfig", "thinking_config")
	var doc jsonscan.Document
	if thinking.Kind() == jsonscan.Object {
		thinking = doc.Rescan(thinking)
	}
	return wishes{
		model: bytes.Clone(req.ModelJSON()), wantsThoughts: member(thinking, "includeThoughts",
			"include_thoughts").Kind() == jsonscan.True,
		framing: framing{isArray: req.Stream && !asksForEvents(req.Query)},
	}
}

// reply writes a whole answer.
func reply(req *schema.Request, answer *chat.Answer, reply *dialect.Reply) error {
	if answer.First() == nil {
		return dialect.Invalid("no choice")
	}
	w := answerWriter{Writer: jsonwrite.Writer{Out: reply.Room(answer.Size())}, wishes: readWishes(req)}
	w.begin()
	for i := range answer.Choices {
		w.candidate(&answer.Choices[i], answer.Choices[i].Calls)
	}
	w.end(answer.ID, &answer.Usage)
	reply.Set(w.Out)
	return nil
}

// answerWriter writes answers, or parts of them.
type answerWriter struct {
	jsonwrite.Writer
	wishes
}

func (w *answerWriter) begin() {
	w.Writer = jsonwrite.Writer{Out: w.Out}
	w.Open(`{"candidates":[`)
}

// end writes the members behind the candidates.
func (w *answerWriter) end(id []byte, usage *chat.Usage) {
	w.EndArray()
	if usage.Known {
		writeUsage(&w.Writer, usage)
	}
	w.Member("modelVersion", w.model)
	w.Name("responseId").Escaped(bytes.TrimPrefix(id, []byte(chat.IDPrefix)))
	w.EndObject()
}

// writeUsage writes the usage, which counts thoughts apart from the answer.
func writeUsage(w *jsonwrite.Writer, u *chat.Usage) {
	cached, thoughts := u.Parts()
	w.Open(`"usageMetadata":{"promptTokenCount":`).Int(u.Prompt)
	w.Name("candidatesTokenCount").Int(u.Completion - thoughts)
	w.Name("totalTokenCount").Int(u.Total)
	if cached > 0 {
		w.Name("cachedContentTokenCount").Int(cached)
	}
	if thoughts > 0 {
		w.Name("thoughtsTokenCount").Int(thoughts)
	}
	w.EndObject()
}

// candidate writes a choice, or the addition of a delta to it, with these calls.
func (w *answerWriter) candidate(c *chat.Choice, calls []chat.ToolCall) {
	w.Open(`{"content":{"parts":[`)
	if len(c.Thinking) > 0 && w.wantsThoughts {
		w.Open(`{"text":`).Escaped(c.Thinking)
		w.Close(`,"thought":true}`)
	}
	text, signature := c.Text, chat.SignatureIn(c.Extra)
	if len(text) == 0 {
		text = c.Refusal
	}
	if len(text) > 0 || len(signature) > 0 {
		w.Open(`{"text":`).Escaped(text)
		w.EscapedMember("thoughtSignature", signature)
		w.EndObject()
	}
	for _, image := range c.Images {
		if kind, data, ok := bytes.Cut(bytes.TrimPrefix(image, []byte("data:")), []byte(";base64,")); ok {
			w.Open(`{"inlineData":{`)
			w.EscapedMember("mimeType", kind)
			w.EscapedMember("data", data)
			w.Close("}}")
		}
	}
	for i := range calls {
		w.call(&calls[i])
	}
	w.Close(`],"role":"model"}`)
	if c.Finish != "" {
		w.Name("finishReason").Plain(finishReason(c.Finish))
	}
	w.Name("index").Int(c.Index)
	w.logprobs(c.Logprobs)
	w.EndObject()
}

// call writes a function call.
func (w *answerWriter) call(call *chat.ToolCall) {
	w.Open(`{"functionCall":{`)
	w.EscapedMember("id", call.ID)
	w.EscapedMember("name", call.Name)
	w.Name("args")
	call.WriteObject(&w.Writer)
	w.EndObject()
	w.EscapedMember("thoughtSignature", chat.SignatureIn(call.Extra))
	w.EndObject()
}

// logprobs writes the probabilities of tokens.
func (w *answerWriter) logprobs(elements []byte) {
	if len(elements) == 0 {
		return
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true, Deep: true}
	if doc.Parse(append(append([]byte{'['}, elements...), ']')) != nil {
		return // they were written from scanned values
	}
	var chosen, tops jsonwrite.Writer
	for token := doc.Root().First(); token.Kind() == jsonscan.Object; token = token.Next() {
		writeToken(&chosen, token)
		tops.Open(`{"candidates":[`)
		for top := token.Get("top_logprobs").First(); top.Kind() == jsonscan.Object; top = top.Next() {
			writeToken(&tops, top)
		}
		tops.Close("]}")
	}
	w.Open(`"logprobsResult":{"topCandidates":[`).Raw(tops.Out)
	w.Close(`],"chosenCandidates":[`)
	w.Out = append(w.Out, chosen.Out...)
	w.Close("]}")
}

func writeToken(w *jsonwrite.Writer, token jsonscan.Value) {
	w.Object()
	w.Field("token", token.Get("token"))
	w.Field("logProbability", token.Get("logprob"))
	w.EndObject()
}

// finishReason returns why a candidate ended, in the words of the API.
func finishReason(reason chat.FinishReason) string {
	switch reason {
	case chat.Length:
		return "MAX_TOKENS"
	case chat.ContentFilter:
		return "SAFETY"
	}
	return "STOP"
}

// streamEvents writes deltas.
func streamEvents(req *schema.Request, from dialect.Deltas) *dialect.Stream {
	e := &clientEvents{Written: dialect.Written{From: from}, answerWriter: answerWriter{wishes: readWishes(req)}}
	return e.stream(e, e.IsComplete)
}

// clientEvents writes the parts of a stream. The API tells a call whole, and why an answer
// ended together with the usage. Both are kept for the last part.
type clientEvents struct {
	dialect.Written
	answerWriter

	id       []byte
	choices  []ended
	gathered int // the bytes of calls
	out      []byte
}

// ended holds the facts about a choice that the last part tells.
type ended struct {
	index  int64
	calls  dialect.Calls
	finish chat.FinishReason
}

// CanResume implements dialect.Resumer.
func (e *clientEvents) CanResume() bool { return e.id != nil && !e.Complete }

// Next returns the next part.
func (e *clientEvents) Next() ([]byte, error) { return e.NextFrom(e) }

// Restart implements dialect.EventWriter.
func (e *clientEvents) Restart() { e.out, e.Out = dialect.Reuse(e.out), dialect.Reuse(e.Out) }

// Bytes implements dialect.EventWriter.
func (e *clientEvents) Bytes() []byte { return e.out }

// Add writes the parts of a delta.
func (e *clientEvents) Add(delta *chat.Delta) error {
	if e.id == nil {
		if e.id = bytes.Clone(delta.ID); len(e.id) == 0 {
			e.id = []byte(rand.Text())
		}
	}
	e.Content = e.Content || delta.HasContent()
	e.begin()
	empty := len(e.Out)
	for i := range delta.Choices {
		c := &delta.Choices[i]
		if err := e.gather(c); err != nil {
			return err
		}
		hasThoughts := len(c.Thinking) > 0 && e.wantsThoughts
		if len(c.Text)+len(c.Refusal)+len(c.Images)+len(c.Logprobs)+len(chat.SignatureIn(c.Extra)) > 0 || hasThoughts {
			finish := c.Finish
			c.Finish = ""
			e.candidate(c, nil)
			c.Finish = finish
		}
	}
	if len(e.Out) > empty {
		e.end(e.id, new(chat.Usage))
		e.out = e.append(e.out, e.Out)
	}
	return nil
}

// gather keeps the calls of a choice, and why it ended.
func (e *clientEvents) gather(c *chat.Choice) error {
	at := -1
	for i := range e.choices {
		if e.choices[i].index == c.Index {
			at = i
		}
	}
	if at < 0 {
		if len(e.choices) == mostChoices {
			return dialect.Invalid("too many choices")
		}
		at = len(e.choices)
		e.choices = append(e.choices, ended{index: c.Index})
	}
	known := &e.choices[at]
	if c.Finish != "" {
		known.finish = c.Finish
	}
	for i := range c.Calls {
		if err := known.calls.Add(&c.Calls[i], &e.gathered); err != nil {
			return err
		}
	}
	return nil
}

// mostChoices is how many answers a stream may have. They are looked up one by one.
const mostChoices = 128

// End writes the last part.
func (e *clientEvents) End() {
	if len(e.choices) == 0 {
		e.choices = []ended{{}}
	}
	e.begin()
	for i := range e.choices {
		c := &e.choices[i]
		if c.finish == "" {
			c.finish = chat.Stop
		}
		e.candidate(&chat.Choice{Index: c.index, Finish: c.finish}, c.calls)
	}
	usage := e.From.Usage()
	e.end(e.id, &usage)
	e.out = e.framing.end(e.append(e.out, e.Out))
	e.choices = nil
}
