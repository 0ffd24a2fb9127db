package simulator

import "strconv"

// anthropicReply writes an answer in Anthropic's dialect, whole or as events.
type anthropicReply struct {
	step         *Step
	id, model    string
	promptTokens int
	answer       answer

	out   []byte // reused for every event
	block int    // the number of the block that is written
}

func newAnthropicReply(x *exchange, request *anthropicRequest, p *prompt) *anthropicReply {
	r := &anthropicReply{
		step:         &x.step,
		id:           "msg_" + hex(seedOf(p.said)) + strconv.FormatUint(x.serial, 10),
		model:        request.Model,
		promptTokens: p.tokens,
		answer:       p.reply(x.backend.options.Name, 0),
		out:          make([]byte, 0, 512),
	}
	if r.answer.call != nil {
		r.answer.call.id = "toolu_" + hex(seedOf(p.said))
	}
	return r
}

// plain returns the whole reply without its closing brace.
func (r *anthropicReply) plain() []byte {
	out := append(r.message(nil), `,"content":[`...)
	a := &r.answer
	first := len(out)
	next := func() {
		if len(out) > first {
			out = append(out, ',')
		}
	}
	if a.thought != "" {
		out = appendString(append(out, `{"type":"thinking","thinking":`...), a.thought)
		out = appendString(append(out, `,"signature":`...), r.signature())
		out = append(out, '}')
	}
	if a.text != "" {
		next()
		out = append(appendString(append(out, `{"type":"text","citations":null,"text":`...), a.text), '}')
	}
	if a.call != nil {
		next()
		out = append(r.appendToolUse(out), a.call.arguments...)
		out = append(out, '}')
	}
	out = r.appendStopReason(append(out, "],"...))
	return r.appendUsage(out, a.tokens)
}

// stream sends the events in their order: the start of the message, the start,
// deltas and stop of each block, then the stop reason and the usage.
func (r *anthropicReply) stream(s *eventStream) {
	if !s.named("message_start", r.messageStart()) {
		return
	}
	a := &r.answer
	ok := true
	if a.thought != "" {
		ok = r.sendBlock(s, `{"type":"thinking","thinking":"","signature":""}`,
			`"thinking_delta","thinking":`, a.thought, r.signature())
	}
	if ok && a.text != "" {
		ok = r.sendBlock(s, `{"type":"text","text":"","citations":null}`, `"text_delta","text":`, a.text, "")
	}
	if ok && a.call != nil {
		start := string(append(r.appendToolUse(nil), "{}}"...))
		ok = r.sendBlock(s, start, `"input_json_delta","partial_json":`, a.call.arguments, "")
	}
	if !ok {
		return
	}
	if !r.step.NoFinish {
		out := r.appendStopReason(append(r.out[:0], `{"type":"message_delta","delta":{`...))
		r.out = r.appendUsage(append(out, '}'), a.tokens)
		if !s.named("message_delta", r.step.close(r.out)) {
			return
		}
	}
	s.done("message_stop", `{"type":"message_stop"}`)
}

// sendBlock sends one content block. The start of the first one is followed by a
// ping, as in Anthropic's own API.
func (r *anthropicReply) sendBlock(s *eventStream, start, delta, content, signature string) bool {
	out := append(append(r.at("content_block_start"), `,"content_block":`...), start...)
	if !s.named("content_block_start", r.step.close(out)) {
		return false
	}
	if r.block == 0 && !s.named("ping", []byte(`{"type":"ping"}`)) {
		return false
	}
	for content != "" {
		n := tokenLength(content)
		out = append(append(r.at("content_block_delta"), `,"delta":{"type":`...), delta...)
		out = append(appendString(out, content[:n]), '}')
		if !s.named("content_block_delta", r.step.close(out)) {
			return false
		}
		content = content[n:]
	}
	if signature != "" {
		out = append(r.at("content_block_delta"), `,"delta":{"type":"signature_delta","signature":`...)
		out = append(appendString(out, signature), '}')
		if !s.named("content_block_delta", r.step.close(out)) {
			return false
		}
	}
	out = r.at("content_block_stop")
	r.block++
	return s.named("content_block_stop", r.step.close(out))
}

// at begins an event about the current block.
func (r *anthropicReply) at(event string) []byte {
	out := append(append(append(r.out[:0], `{"type":"`...), event...), `","index":`...)
	r.out = strconv.AppendInt(out, int64(r.block), 10)
	return r.out
}

func (r *anthropicReply) messageStart() []byte {
	out := r.message([]byte(`{"type":"message_start","message":`))
	out = append(out, `,"content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null`...)
	return r.step.close(append(r.appendUsage(out, 1), '}'))
}

// message begins a message with its id, type, role and model.
func (r *anthropicReply) message(out []byte) []byte {
	out = appendString(append(out, `{"id":`...), r.id)
	out = appendString(append(out, `,"type":"message","role":"assistant","container":null,"model":`...), r.model)
	return out
}

// signature is the signature of a thinking block; clients send it back.
func (r *anthropicReply) signature() string { return "sig" + hex(mix(seedOf(r.answer.thought))) }

// appendToolUse begins a tool call, up to its input.
func (r *anthropicReply) appendToolUse(out []byte) []byte {
	out = appendString(append(out, `{"type":"tool_use","id":`...), r.answer.call.id)
	out = appendString(append(out, `,"name":`...), r.answer.call.name)
	return append(out, `,"caller":{"type":"direct"},"input":`...)
}

func (r *anthropicReply) appendStopReason(out []byte) []byte {
	reason := "end_turn"
	switch {
	case r.answer.finish == finishLength:
		reason = "max_tokens"
	case r.answer.call != nil:
		reason = "tool_use"
	case r.answer.stopped != "":
		reason = "stop_sequence"
	}
	out = appendString(append(out, `"stop_reason":`...), reason)
	return append(appendStringOrNull(append(out, `,"stop_sequence":`...), r.answer.stopped), `,"stop_details":null`...)
}

func (r *anthropicReply) appendUsage(out []byte, said int) []byte {
	switch {
	case r.step.Usage&UsageNone != 0:
		return out
	case r.step.UsageValue != "":
		return append(append(out, `,"usage":`...), r.step.UsageValue...)
	}
	out = strconv.AppendInt(append(out, `,"usage":{"input_tokens":`...), int64(r.promptTokens), 10)
	out = append(out, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":`...)
	out = strconv.AppendInt(out, int64(said), 10)
	out = strconv.AppendInt(append(out, `,"output_tokens_details":{"thinking_tokens":`...),
		int64(r.answer.thoughtTokens), 10)
	return append(out, `},"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},`+
		`"server_tool_use":null,"service_tier":"standard","inference_geo":null}`...)
}
