package responses

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// beginReasoning begins a reasoning item.
func (s *Stream) beginReasoning() {
	s.beginItem(reasoningItem, reasoningPrefix)
	s.itemAdded(func(w *jsonwrite.Writer) { writeReasoningItem(w, s.open.id, nil, &state{}) })
}

// addThinking adds to the thoughts of the model. Clients get them as a summary, because
// they show that.
func (s *Stream) addThinking(text []byte) error {
	if s.open.kind != reasoningItem {
		s.beginReasoning()
	}
	if !s.open.started {
		s.open.started = true
		w := s.partEvent("response.reasoning_summary_part.added", "summary_index")
		w.Name("part")
		writeSummaryPart(&w, nil)
		s.end(w)
		s.prepareDelta("response.reasoning_summary_text.delta", "summary_index")
	}
	s.open.text = append(s.open.text, text...)
	return s.delta(text, "")
}

// closeReasoning ends a reasoning item, which takes along the data that the backend
// wants back.
func (s *Stream) closeReasoning() {
	if s.open.started {
		w := s.partEvent("response.reasoning_summary_text.done", "summary_index")
		w.Name("text").Escaped(s.open.text)
		s.end(w)
		w = s.partEvent("response.reasoning_summary_part.done", "summary_index")
		w.Name("part")
		writeSummaryPart(&w, s.open.text)
		s.end(w)
	}
	s.itemDone(func(w *jsonwrite.Writer) { writeReasoningItem(w, s.open.id, s.open.text, &s.kept) })
	s.kept.reset()
}

// beginPart makes sure that a part of a message is open for text, or for a refusal.
func (s *Stream) beginPart(refusal bool) {
	if s.open.kind != messageItem {
		s.beginItem(messageItem, messagePrefix)
		s.itemAdded(func(w *jsonwrite.Writer) { writeMessageItem(w, s.open.id, inProgress, nil) })
	}
	if s.open.started {
		if s.open.refusal == refusal {
			return
		}
		s.closePart()
		s.open.part++
	}
	s.open.started, s.open.refusal = true, refusal
	w := s.partEvent("response.content_part.added", "content_index")
	w.Name("part")
	if refusal {
		writeRefusalPart(&w, nil)
		s.prepareDelta("response.refusal.delta", "content_index")
	} else {
		writeTextPart(&w, nil, nil, nil)
		s.prepareDelta("response.output_text.delta", "content_index")
	}
	s.end(w)
}

// addText adds a text, escaped, to the open part. The probabilities of its tokens are
// elements of a JSON array.
func (s *Stream) addText(text, logprobs []byte) error {
	s.open.text = append(s.open.text, text...)
	if len(logprobs) == 0 {
		return s.delta(text, `,"logprobs":[]`)
	}
	s.open.logprobs.Raw(logprobs)
	s.size += len(logprobs)
	return s.delta(text, `,"logprobs":[`+string(logprobs)+`]`)
}

func (s *Stream) addRefusal(text []byte) error {
	s.open.text = append(s.open.text, text...)
	return s.delta(text, "")
}

// closePart ends the open part of a message.
func (s *Stream) closePart() {
	o := &s.open
	write := func(w *jsonwrite.Writer) { writeRefusalPart(w, o.text) }
	if o.refusal {
		w := s.partEvent("response.refusal.done", "content_index")
		w.Name("refusal").Escaped(o.text)
		s.end(w)
	} else {
		w := s.partEvent("response.output_text.done", "content_index")
		w.Name("text").Escaped(o.text)
		writeLogprobs(&w, o.logprobs.Out)
		s.end(w)
		write = func(w *jsonwrite.Writer) { writeTextPart(w, o.text, o.logprobs.Out, nil) }
	}
	w := s.partEvent("response.content_part.done", "content_index")
	w.Name("part")
	write(&w)
	s.end(w)
	write(&o.parts)
	o.text, o.logprobs, o.started = o.text[:0], jsonwrite.Writer{}, false
}

func writeLogprobs(w *jsonwrite.Writer, elements []byte) {
	w.Name("logprobs").Array()
	if len(elements) > 0 {
		w.Raw(elements)
	}
	w.EndArray()
}

// closeMessage ends a message.
func (s *Stream) closeMessage(status string) {
	if s.open.started {
		s.closePart()
	}
	s.itemDone(func(w *jsonwrite.Writer) { writeMessageItem(w, s.open.id, status, s.open.parts.Out) })
}

// addCall adds a call, or a piece of its arguments.
func (s *Stream) addCall(c *chat.ToolCall) error {
	if s.open.kind != callItem || c.Index != s.open.call || s.isOtherCall(c.ID) {
		if s.open.kind == callItem && c.Index < s.open.call {
			return dialect.Invalid("a piece of a call that had ended")
		}
		s.beginCall(c)
	}
	if len(c.Arguments) == 0 {
		return nil
	}
	if s.open.made.custom {
		text := s.open.input.Add(chat.Unescape(c.Arguments))
		if len(text) > 0 {
			return s.delta(text, "")
		}
		return s.grow(len(c.Arguments))
	}
	s.open.text = append(s.open.text, c.Arguments...)
	return s.delta(c.Arguments, "")
}

// isOtherCall reports whether an id names another call than the open one, although the
// backend gave both the same number.
func (s *Stream) isOtherCall(id []byte) bool {
	return len(id) > 0 && !bytes.Equal(id, s.open.callID[1:len(s.open.callID)-1])
}

// beginCall begins a call. The data that the backend wants back with it go into a
// reasoning item before it.
func (s *Stream) beginCall(c *chat.ToolCall) {
	id := callID(c)
	if c.Extra != nil {
		if s.open.kind != reasoningItem {
			s.beginReasoning()
		}
		s.kept.calls = append(s.kept.calls, signedCall{id, bytes.Clone(c.Extra)})
	}
	made := s.req.madeCall(string(chat.Unescape(c.Name)))
	if made.custom {
		s.beginItem(callItem, customPrefix)
		s.prepareDelta("response.custom_tool_call_input.delta", "")
	} else {
		s.beginItem(callItem, callPrefix)
		s.prepareDelta("response.function_call_arguments.delta", "")
	}
	s.open.call, s.open.callID, s.open.made = c.Index, id, made
	s.itemAdded(func(w *jsonwrite.Writer) { s.writeCall(w, inProgress, nil) })
}

// writeCall writes the open call.
func (s *Stream) writeCall(w *jsonwrite.Writer, status string, text []byte) {
	if s.open.made.custom {
		s.req.writeCustomItem(w, s.open.id, status, s.open.callID, s.open.made, text)
	} else {
		s.req.writeCallItem(w, s.open.id, status, s.open.callID, s.open.made, text)
	}
}

// closeCall ends a call. Arguments that the backend left out are an empty object.
func (s *Stream) closeCall(status string) {
	o := &s.open
	if o.made.custom {
		streamed := o.input.Begun()
		o.text = append(o.text[:0], o.input.End()...)
		if !streamed && len(o.text) > 0 {
			_ = s.delta(o.text, "") // the input was not where it was looked for
		}
		w := s.itemEvent("response.custom_tool_call_input.done")
		w.Name("input").Escaped(o.text)
		s.end(w)
	} else {
		if len(o.text) == 0 {
			o.text = append(o.text, "{}"...)
		}
		w := s.itemEvent("response.function_call_arguments.done")
		w.Name("name").Text([]byte(o.made.name))
		w.Name("arguments").Escaped(o.text)
		s.end(w)
	}
	s.itemDone(func(w *jsonwrite.Writer) { s.writeCall(w, status, o.text) })
}
