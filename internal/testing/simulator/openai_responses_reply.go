package simulator

import (
	"strconv"
	"time"
)

// responseReply writes an answer of the Responses API, whole or as events.
type responseReply struct {
	step         *Step
	id, model    string
	created      int64
	promptTokens int
	answer       answer

	out      []byte // reused for every event
	sequence int64
	item     int // the number of the item that is written
}

func newResponseReply(x *exchange, request *responseRequest, p *prompt) *responseReply {
	return &responseReply{
		step:         &x.step,
		id:           "resp_" + hex(seedOf(p.said)) + strconv.FormatUint(x.serial, 10),
		model:        request.Model,
		created:      time.Now().Unix(),
		promptTokens: p.tokens,
		answer:       p.reply(x.backend.options.Name, 0),
	}
}

// whole returns the response, without its output while it is in progress.
func (r *responseReply) whole(status string) []byte {
	if status == "completed" && r.answer.finish == finishLength {
		status = "incomplete"
	}
	out := appendString([]byte(`{"id":`), r.id)
	out = strconv.AppendInt(append(out, `,"object":"response","created_at":`...), r.created, 10)
	out = appendString(append(out, `,"status":`...), status)
	out = append(out, `,"error":null,"incomplete_details":`...)
	if status == "incomplete" {
		out = append(out, `{"reason":"max_output_tokens"}`...)
	} else {
		out = append(out, "null"...)
	}
	out = appendString(append(out, `,"model":`...), r.model)
	out = append(out, `,"output":[`...)
	if status != "in_progress" {
		for i, item := range r.items() {
			if i > 0 {
				out = append(out, ',')
			}
			out = item.append(out, true)
		}
	}
	out = append(out, `],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"temperature":1,"top_p":1,`+
		`"metadata":{}`...)
	if status != "in_progress" && r.step.Usage&UsageNone == 0 {
		out = r.appendUsage(append(out, `,"usage":`...))
	}
	return r.step.close(out)
}

func (r *responseReply) appendUsage(out []byte) []byte {
	if r.step.UsageValue != "" {
		return append(out, r.step.UsageValue...)
	}
	out = strconv.AppendInt(append(out, `{"input_tokens":`...), int64(r.promptTokens), 10)
	out = strconv.AppendInt(append(
		out, `,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":`...),
		int64(r.answer.tokens), 10)
	out = strconv.AppendInt(append(out, `,"output_tokens_details":{"reasoning_tokens":`...),
		int64(r.answer.thoughtTokens), 10)
	return append(strconv.AppendInt(append(out, `},"total_tokens":`...), int64(r.promptTokens+r.answer.tokens), 10),
		'}')
}

// responseItem is an item of the output: a thought, a message or a call.
type responseItem struct {
	kind, id string
	text     string // or the arguments of the call
	call     *toolCall
}

// items returns the output.
func (r *responseReply) items() []responseItem {
	var all []responseItem
	suffix := r.id[len("resp_"):]
	a := &r.answer
	if a.thought != "" {
		all = append(all, responseItem{kind: "reasoning", id: "rs_" + suffix, text: a.thought})
	}
	if a.call != nil {
		return append(all, responseItem{kind: "function_call", id: "fc_" + suffix, text: a.call.arguments,
			call: a.call})
	}
	return append(all, responseItem{kind: "message", id: "msg_" + suffix, text: a.text})
}

// append writes the item, whole or as it is when it begins.
func (i *responseItem) append(out []byte, whole bool) []byte {
	status, text := "in_progress", ""
	if whole {
		status, text = "completed", i.text
	}
	out = appendString(append(out, `{"id":`...), i.id)
	out = appendString(append(out, `,"type":`...), i.kind)
	out = appendString(append(out, `,"status":`...), status)
	switch i.kind {
	case "function_call":
		out = appendString(append(out, `,"call_id":`...), i.call.id)
		out = appendString(append(out, `,"name":`...), i.call.name)
		out = appendString(append(out, `,"arguments":`...), text)
	case "reasoning":
		out = append(out, `,"summary":[`...)
		if whole {
			out = i.appendPart(out, text)
		}
		out = append(out, ']')
	default:
		out = append(out, `,"role":"assistant","content":[`...)
		if whole {
			out = i.appendPart(out, text)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

// appendPart writes the only part of a message or of a thought.
func (i *responseItem) appendPart(out []byte, text string) []byte {
	if i.kind == "reasoning" {
		return append(appendString(append(out, `{"type":"summary_text","text":`...), text), '}')
	}
	return append(appendString(append(out, `{"type":"output_text","text":`...), text),
		`,"annotations":[],"logprobs":[]}`...)
}

// stream sends the events in their order.
func (r *responseReply) stream(s *eventStream) {
	for _, name := range []string{"response.created", "response.in_progress"} {
		if !r.send(s, name, append(append(r.begin(name), `,"response":`...), r.whole("in_progress")...)) {
			return
		}
	}
	for _, item := range r.items() {
		if !r.sendItem(s, &item) {
			return
		}
		r.item++
	}
	if r.step.NoFinish || r.step.NoDone {
		s.done("", "")
		return
	}
	name := "response.completed"
	if r.answer.finish == finishLength {
		name = "response.incomplete"
	}
	out := append(append(r.begin(name), `,"response":`...), r.whole("completed")...)
	s.done(name, string(append(out, '}')))
}

// sendItem sends the events of an item: its beginning, its text token by token, its end.
func (r *responseReply) sendItem(s *eventStream, item *responseItem) bool {
	if !r.send(s, "response.output_item.added", item.append(r.atItem("response.output_item.added", "item"), false)) {
		return false
	}
	prefix, part, index := "response.output_text", "response.content_part", "content_index"
	switch item.kind {
	case "function_call":
		prefix, part, index = "response.function_call_arguments", "", ""
	case "reasoning":
		prefix, part, index = "response.reasoning_summary_text", "response.reasoning_summary_part", "summary_index"
	}
	at := func(name, member string) []byte {
		out := r.begin(name)
		out = appendString(append(out, `,"item_id":`...), item.id)
		out = strconv.AppendInt(append(out, `,"output_index":`...), int64(r.item), 10)
		if index != "" {
			out = append(append(append(out, `,"`...), index...), `":0`...)
		}
		return append(append(append(out, `,"`...), member...), `":`...)
	}
	if part != "" && !r.send(s, part+".added", item.appendPart(at(part+".added", "part"), "")) {
		return false
	}
	end := ""
	if prefix == "response.output_text" {
		end = `,"logprobs":[]`
	}
	for rest := item.text; rest != ""; {
		n := tokenLength(rest)
		if !r.send(s, prefix+".delta", append(appendString(at(prefix+".delta", "delta"), rest[:n]), end...)) {
			return false
		}
		rest = rest[n:]
	}
	member := "text"
	if item.kind == "function_call" {
		member = "arguments"
	}
	if !r.send(s, prefix+".done", append(appendString(at(prefix+".done", member), item.text), end...)) {
		return false
	}
	if part != "" && !r.send(s, part+".done", item.appendPart(at(part+".done", "part"), item.text)) {
		return false
	}
	return r.send(s, "response.output_item.done", item.append(r.atItem("response.output_item.done", "item"), true))
}

// begin begins an event.
func (r *responseReply) begin(name string) []byte {
	out := append(append(append(r.out[:0], `{"type":"`...), name...), `","sequence_number":`...)
	r.out = strconv.AppendInt(out, r.sequence, 10)
	r.sequence++
	return r.out
}

// atItem begins an event about the current item, up to the value of a member.
func (r *responseReply) atItem(name, member string) []byte {
	out := strconv.AppendInt(append(r.begin(name), `,"output_index":`...), int64(r.item), 10)
	return append(append(append(out, `,"`...), member...), `":`...)
}

// send sends an event that lacks its closing brace.
func (r *responseReply) send(s *eventStream, name string, event []byte) bool {
	r.out = event
	return s.named(name, r.step.close(event))
}
