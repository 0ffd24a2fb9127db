package openai

import (
	"bytes"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// continuesChat reports whether a backend goes on with the beginning of an answer. A request
// that says itself how its last message is meant is left alone.
func continuesChat(req *schema.Request, to *dialect.Target) bool {
	s := req.Settings()
	return to.Quirks.Continues != dialect.NoContinuation && !s.Other("continue_final_message").Given() &&
		!s.Other("add_generation_prompt").Given()
}

// continuesText reports whether a text can be completed further: the prompt must be one text.
func continuesText(req *schema.Request, _ *dialect.Target) bool {
	return req.Body.Root().Get("prompt").Kind() == jsonscan.String
}

// continuedText adds the edits that let a text be completed further.
func continuedText(edits []jsonscan.Edit, req *schema.Request, begun *schema.Continuation) []jsonscan.Edit {
	root := req.Body.Root()
	prompt := root.Get("prompt")
	text := append([]byte{'"'}, chat.TextOf(prompt)...)
	edits = append(edits, prompt.Replace(append(append(text, begun.Text...), '"')))
	for _, name := range [...]string{"max_tokens", "max_completion_tokens"} {
		if limit := root.Get(name); begun.Most > 0 && limit.Given() {
			edits = append(edits, limit.Replace(strconv.AppendInt(nil, begun.Most, 10)))
		}
	}
	return edits
}

// sentTexts makes a transcript of the chunks that are passed on.
type sentTexts struct {
	to            *chat.Transcript
	doc           jsonscan.Document
	delta         chat.Delta
	completesText bool
}

// Record makes a transcript of the texts.
func (e *events) Record(to *chat.Transcript) {
	e.sent = &sentTexts{to: to, doc: jsonscan.Document{AllowDuplicateKeys: true, Deep: true},
		completesText: e.completesText()}
}

// addText adds the text of a chunk that was not scanned.
func (s *sentTexts) addText(text []byte, isThinking bool) {
	if isThinking && len(text) > 0 {
		s.to.Forbid("the model has thought")
		return
	}
	s.to.Add(text)
}

// add adds a choice of a chunk.
func (s *sentTexts) add(choice jsonscan.Value) {
	if s.doc.Parse(choice.Raw()) != nil {
		return // it was scanned before
	}
	choice = s.doc.Root()
	index, _ := choice.Get("index").Int()
	s.delta.Reset()
	to := s.delta.Add(index)
	if s.completesText {
		readText(to, choice)
		if choice.Get("logprobs").Given() {
			s.to.Forbid("it has probabilities")
		}
	} else {
		delta := choice.Get("delta")
		to.Read(choice, delta)
		if delta.Get("function_call").Given() || delta.Get("audio").Given() { // which other doors do not have
			s.to.Forbid("it has more than text")
		}
	}
	s.to.Note(&s.delta)
}

// onward writes the addition of another answer to a completion that broke off.
type onward struct {
	head          []byte // the beginning of every chunk
	w             jsonwrite.Writer
	completesText bool
}

// CanResume implements dialect.Resumer.
func (e *events) CanResume() bool {
	return e.id != nil && e.created != nil && !e.usageSent && !e.Finished
}

// Resume implements dialect.Resumer. Chunks of another answer have an id and a time of their
// own, and so the rest is written here.
func (e *events) Resume(_ *schema.Request, from dialect.Deltas) {
	e.chunk, e.segments, e.edits, e.mended, e.template = nil, nil, nil, nil, chunkTemplate{}
	e.reader = reader{wanted: e.wanted}
	if e.onward != nil {
		e.onward.From = from
		return
	}
	var w jsonwrite.Writer
	w.Object()
	for _, member := range [][]byte{e.id, e.object, e.created} {
		w.Raw(member)
	}
	w.Member("model", e.model)
	if !e.completesText() {
		w.Raw(anyFingerprint)
	}
	w.Name("choices").Array()
	e.onward = &dialect.Chunks{From: from, Writer: &onward{head: w.Out, completesText: e.completesText()},
		IncludeUsage: e.includeUsage && !e.usageSent}
}

// completesText reports whether the chunks belong to a text and not to a chat.
func (e *events) completesText() bool { return bytes.Equal(e.object, textObject) }

// Restart implements dialect.ChunkWriter.
func (o *onward) Restart() { o.w.Begin(dialect.Reuse(o.w.Out), nil) }

// Chunk implements dialect.ChunkWriter.
func (o *onward) Chunk(delta *chat.Delta) []byte {
	w := &o.w
	w.Begin(w.Out, o.head)
	if !o.completesText {
		delta.WriteChunk(w)
		return w.Out
	}
	for i := range delta.Choices {
		writeText(w, &delta.Choices[i])
	}
	w.EndArray()
	if delta.Usage.Known {
		w.Name("usage")
		delta.Usage.Write(w)
	}
	w.EndObject()
	return w.Out
}

// writeText writes a choice of the completion of a text.
func writeText(w *jsonwrite.Writer, c *chat.Choice) {
	w.Open(`{"index":`).Int(c.Index)
	w.Name("text").Escaped(c.Text)
	w.Literal(`"logprobs":null`)
	w.Name("finish_reason").EscapedOrNull([]byte(c.Finish))
	w.EndObject()
}
