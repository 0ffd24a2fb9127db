package simulator

import "strconv"

// geminiReply writes answers in Gemini's dialect, whole or as events.
type geminiReply struct {
	step         *Step
	id, model    string
	promptTokens int
	blocked      bool // the prompt is refused, and there are no candidates
	answers      []answer
	inArray      bool // events are the elements of a JSON array

	out           []byte // reused for every event
	sent          int
	said, thought int // tokens so far
}

// plain returns the whole reply.
func (r *geminiReply) plain() []byte {
	if r.blocked {
		return r.refusal()
	}
	out := []byte(`{"candidates":[`)
	for i := range r.answers {
		a := &r.answers[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"content":{"parts":[`...)
		if a.thought != "" {
			out = append(appendString(append(out, `{"text":`...), a.thought), `,"thought":true},`...)
		}
		if a.call != nil {
			out = appendFunctionCall(out, a.call)
		} else {
			out = append(appendString(append(out, `{"text":`...), a.text), '}')
		}
		out = r.appendEnd(append(out, `],"role":"model"}`...), i, a.finish)
		r.said += a.tokens - a.thoughtTokens
		r.thought += a.thoughtTokens
	}
	return r.closing(append(out, ']'))
}

// stream sends a piece of each candidate in turn. The counts are on every event
// and grow.
func (r *geminiReply) stream(s *eventStream) {
	if r.blocked {
		if s.event(r.element(r.refusal())) {
			r.end(s)
		}
		return
	}
	thoughts, rest := make([]string, len(r.answers)), make([]string, len(r.answers))
	for i := range r.answers {
		thoughts[i], rest[i] = r.answers[i].thought, r.answers[i].text
	}
	for open := len(r.answers); open > 0; {
		for i := range r.answers {
			a := &r.answers[i]
			var part []byte
			finish := ""
			switch {
			case thoughts[i] != "":
				n := tokenLength(thoughts[i])
				part = append(appendString([]byte(`{"text":`), thoughts[i][:n]), `,"thought":true}`...)
				thoughts[i] = thoughts[i][n:]
				r.thought++
			case rest[i] != "":
				n := tokenLength(rest[i])
				part = append(appendString([]byte(`{"text":`), rest[i][:n]), '}')
				rest[i] = rest[i][n:]
				r.said++
			case a.call != nil:
				part = appendFunctionCall(nil, a.call)
				r.said += a.tokens - a.thoughtTokens
				a.call = nil
			case a.finish != "":
				open--
				part, finish, a.finish = []byte(`{"text":""}`), a.finish, ""
				if r.step.NoFinish {
					continue
				}
			default:
				continue
			}
			if !s.event(r.element(r.event(i, part, finish))) {
				return
			}
		}
	}
	r.end(s)
}

// event makes an event with a part of one candidate.
func (r *geminiReply) event(i int, part []byte, finish string) []byte {
	out := append(append(r.out[:0], `{"candidates":[{"content":{"parts":[`...), part...)
	out = r.appendEnd(append(out, `],"role":"model"}`...), i, finish)
	r.out = r.closing(append(out, ']'))
	return r.out
}

// element makes an event an element of the array if the stream is an array.
func (r *geminiReply) element(event []byte) []byte {
	if !r.inArray {
		return event
	}
	before := ",\r\n"
	if r.sent == 0 {
		before = "["
	}
	r.sent++
	return append([]byte(before), event...)
}

func (r *geminiReply) end(s *eventStream) {
	if r.inArray {
		s.done("", "]\r\n")
		return
	}
	s.done("", "")
}

// refusal returns the reply to a blocked prompt, which has no candidates.
func (r *geminiReply) refusal() []byte {
	r.answers = nil
	return r.closing([]byte(`{"promptFeedback":{"blockReason":"SAFETY","safetyRatings":[` +
		`{"category":"HARM_CATEGORY_DANGEROUS_CONTENT","probability":"HIGH","blocked":true}]}`))
}

// appendEnd completes a candidate.
func (r *geminiReply) appendEnd(out []byte, i int, finish string) []byte {
	switch finish {
	case "":
	case finishLength:
		out = append(out, `,"finishReason":"MAX_TOKENS"`...)
	default: // Gemini reports STOP for tool calls too
		out = append(out, `,"finishReason":"STOP"`...)
	}
	return append(strconv.AppendInt(append(out, `,"index":`...), int64(i), 10), '}')
}

// closing completes a reply or an event.
func (r *geminiReply) closing(out []byte) []byte {
	switch {
	case r.step.Usage&UsageNone != 0:
	case r.step.UsageValue != "":
		out = append(append(out, `,"usageMetadata":`...), r.step.UsageValue...)
	default:
		out = strconv.AppendInt(append(out, `,"usageMetadata":{"promptTokenCount":`...), int64(r.promptTokens), 10)
		if r.said > 0 {
			out = strconv.AppendInt(append(out, `,"candidatesTokenCount":`...), int64(r.said), 10)
		}
		if r.thought > 0 {
			out = strconv.AppendInt(append(out, `,"thoughtsTokenCount":`...), int64(r.thought), 10)
		}
		out = strconv.AppendInt(append(out, `,"totalTokenCount":`...), int64(r.promptTokens+r.said+r.thought), 10)
		out = append(out, '}')
	}
	out = appendString(append(out, `,"modelVersion":`...), r.model)
	out = appendString(append(out, `,"responseId":`...), r.id)
	return r.step.close(out)
}

func appendFunctionCall(out []byte, call *toolCall) []byte {
	out = appendString(append(out, `{"functionCall":{"name":`...), call.name)
	return append(append(append(out, `,"args":`...), call.arguments...), "}}"...)
}
