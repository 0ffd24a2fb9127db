package telemetry

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// askedBy reads the instructions and the messages of a request, whichever door it came to.
func askedBy(body string) (instructions []part, messages []message) {
	request := readObject(body)
	for _, name := range [...]string{"system", "instructions", "systemInstruction", "system_instruction"} {
		if inner := objectOf(request[name]); inner != nil {
			instructions = append(instructions, partsOf(inner["parts"])...)
			continue
		}
		instructions = append(instructions, partsOf(request[name])...)
	}
	for _, name := range [...]string{"messages", "input", "contents"} {
		for _, one := range request.list(name) {
			messages = append(messages, messageOf(objectOf(one)))
		}
	}
	for _, name := range [...]string{"input", "prompt"} {
		if text := request.text(name); text != "" {
			messages = append(messages, message{Role: "user", Parts: []part{textPart("text", text)}})
		}
	}
	return instructions, messages
}

// messageOf reads a message, or an item of the Responses API.
func messageOf(o object) message {
	m := message{Role: o.text("role")}
	if m.Role == "model" { // Gemini's word
		m.Role = "assistant"
	}
	switch o.text("type") {
	case "function_call", "custom_tool_call":
		return message{Role: "assistant", Parts: []part{callPart(o.text("call_id"), o.text("name"),
			first(o, "arguments", "input"))}}
	case "function_call_output", "custom_tool_call_output":
		return message{Role: "tool", Parts: []part{responsePart(o.text("call_id"), o["output"])}}
	case "reasoning":
		return message{Role: "assistant", Parts: reasoned(o.list("summary"))}
	}
	if m.Role == "tool" {
		m.Parts = []part{responsePart(o.text("tool_call_id"), o["content"])}
		return m
	}
	if thought, ok := first(o, "reasoning_content", "reasoning", "thinking").(string); ok && thought != "" {
		m.Parts = append(m.Parts, textPart("reasoning", thought))
	}
	m.Parts = append(m.Parts, partsOf(first(o, "content", "parts"))...)
	if text := o.text("refusal"); text != "" {
		m.Parts = append(m.Parts, textPart("text", text))
	}
	for _, one := range o.list("tool_calls") {
		call := objectOf(one)
		function := call.object("function")
		m.Parts = append(m.Parts, callPart(call.text("id"), function.text("name"), function["arguments"]))
	}
	if m.Parts == nil {
		m.Parts = []part{}
	}
	return m
}

// first returns the first member of these names that is there.
func first(o object, names ...string) any {
	for _, name := range names {
		if value := o[name]; value != nil {
			return value
		}
	}
	return nil
}

// partsOf reads the content of a message, which is a text or a list of parts.
func partsOf(content any) (parts []part) {
	if text, ok := content.(string); ok && text != "" {
		return []part{textPart("text", text)}
	}
	list, _ := content.([]any)
	for _, one := range list {
		if text, ok := one.(string); ok {
			parts = append(parts, textPart("text", text))
		} else if o := objectOf(one); o != nil {
			parts = append(parts, partOf(o))
		}
	}
	return parts
}

func partOf(o object) part {
	switch kind := o.text("type"); kind {
	case "text", "input_text", "output_text":
		return textPart("text", o.text("text"))
	case "refusal":
		return textPart("text", o.text("refusal"))
	case "thinking":
		return textPart("reasoning", o.text("thinking"))
	case "tool_use":
		return callPart(o.text("id"), o.text("name"), o["input"])
	case "tool_result":
		return responsePart(o.text("tool_use_id"), o["content"])
	case "": // Gemini's parts have no type
		if call := o.object("functionCall"); call != nil {
			return callPart(call.text("id"), call.text("name"), call["args"])
		}
		if response := o.object("functionResponse"); response != nil {
			return responsePart(response.text("id"), response["response"])
		}
		if text, ok := o["text"].(string); ok {
			if o["thought"] == true {
				return textPart("reasoning", text)
			}
			return textPart("text", text)
		}
		return part{"type": "unknown"}
	default:
		return part{"type": kind} // pictures, sounds and files are not sent
	}
}

func textPart(kind, text string) part { return part{"type": kind, "content": text} }

func callPart(id, name string, arguments any) part {
	return part{"type": "tool_call", "id": id, "name": name, "arguments": asObject(arguments)}
}

// asObject reads arguments that are written as a text: the conventions want an object, if it is one.
func asObject(arguments any) any {
	if text, ok := arguments.(string); ok {
		var read object
		if json.Unmarshal([]byte(text), &read) == nil {
			return read
		}
	}
	return arguments
}

func responsePart(id string, response any) part {
	return part{"type": "tool_call_response", "id": id, "response": response}
}

func reasoned(summary []any) []part {
	parts := []part{}
	for _, one := range summary {
		parts = append(parts, textPart("reasoning", objectOf(one).text("text")))
	}
	return parts
}

// answeredBy reads the messages of an answer, a stream or not, in the dialect of any door.
func answeredBy(body string) []message {
	var answer answering
	switch trimmed := strings.TrimLeft(body, " \r\n"); {
	case strings.HasPrefix(trimmed, "{") && !strings.Contains(trimmed, "\n{"):
		answer.add(readObject(trimmed))
	default:
		for line := range strings.Lines(trimmed) {
			data := strings.TrimSpace(strings.TrimPrefix(line, "data:"))
			var o object
			if json.Unmarshal([]byte(data), &o) == nil {
				answer.add(o)
			}
		}
	}
	for i := range answer.messages {
		m := &answer.messages[i]
		m.FinishReason = cmp.Or(m.FinishReason, answer.reason, "unknown")
		for _, p := range m.Parts {
			if p["type"] == "tool_call" {
				p["arguments"] = asObject(p["arguments"])
			}
		}
	}
	return answer.messages
}

// answering is an answer while its parts are added.
type answering struct {
	messages []message
	reason   string
}

// add adds a whole answer, or an event of a stream.
func (a *answering) add(o object) {
	switch o.text("type") {
	case "content_block_start":
		if block := o.object("content_block"); block != nil {
			a.at(0).Parts = append(a.at(0).Parts, partOf(block))
		}
		return
	case "content_block_delta":
		a.extendBlock(o.object("delta"))
		return
	case "message_delta":
		a.reason = finished(o.object("delta").text("stop_reason"))
		return
	case "response.output_text.delta":
		a.at(0).extend("text", o.text("delta"))
		return
	}
	if response := o.object("response"); response != nil { // an event of a response holds its state at that time
		if len(response.list("output")) > 0 {
			a.messages = nil
			a.addOutput(response)
		}
		return
	}
	for n, one := range slices.Concat(o.list("choices"), o.list("candidates")) {
		a.addChoice(n, objectOf(one))
	}
	a.addOutput(o)
	if said := o.object("message"); said != nil && o.text("type") == "" { // Ollama's, whole or a line of many
		a.merge(0, messageOf(said))
		a.reason = finished(o.text("done_reason"))
	}
	if text := o.text("response"); text != "" {
		a.at(0).extend("text", text)
		a.reason = finished(o.text("done_reason"))
	}
	if content := o.list("content"); content != nil && o.text("type") == "message" {
		a.merge(0, messageOf(o))
		a.reason = finished(o.text("stop_reason"))
	}
}

// addOutput adds the items of a response.
func (a *answering) addOutput(response object) {
	for _, item := range response.list("output") {
		a.at(0).Parts = append(a.at(0).Parts, messageOf(objectOf(item)).Parts...)
		a.reason = "stop"
		if details := response.object("incomplete_details"); details != nil {
			a.reason = finished(details.text("reason"))
		}
	}
}

func (a *answering) addChoice(place int, choice object) {
	if number, ok := choice["index"].(float64); ok && number >= 0 && number < 128 {
		place = int(number)
	}
	said := objectOf(first(choice, "message", "delta", "content"))
	for n, one := range said.list("tool_calls") { // of a stream, each in pieces
		if number, ok := objectOf(one)["index"].(float64); ok {
			n = int(number)
		}
		a.at(place).extendCall(n, objectOf(one))
	}
	delete(said, "tool_calls")
	a.merge(place, messageOf(said))
	if text := choice.text("text"); text != "" {
		a.at(place).extend("text", text)
	}
	if reason, _ := first(choice, "finish_reason", "finishReason").(string); reason != "" {
		a.at(place).FinishReason = finished(reason)
	}
}

// at returns the message of a choice.
func (a *answering) at(place int) *message {
	for len(a.messages) <= place {
		a.messages = append(a.messages, message{Role: "assistant", Parts: []part{}})
	}
	return &a.messages[place]
}

// merge adds the parts of another message to the message of a choice; texts go on with the
// last one.
func (a *answering) merge(place int, more message) {
	to := a.at(place)
	for _, p := range more.Parts {
		kind, _ := p["type"].(string)
		if content, ok := p["content"].(string); ok && (kind == "text" || kind == "reasoning") {
			to.extend(kind, content)
		} else {
			to.Parts = append(to.Parts, p)
		}
	}
}

// extend goes on with the last part if it is of this type, or begins another.
func (m *message) extend(kind, text string) {
	if text == "" {
		return
	}
	if last := len(m.Parts) - 1; last >= 0 && m.Parts[last]["type"] == kind {
		before, _ := m.Parts[last]["content"].(string)
		m.Parts[last]["content"] = before + text
		return
	}
	m.Parts = append(m.Parts, textPart(kind, text))
}

// extendCall adds a piece of a call of a tool, which the stream numbers.
func (m *message) extendCall(number int, piece object) {
	function := piece.object("function")
	var own []part
	for _, p := range m.Parts {
		if p["type"] == "tool_call" {
			own = append(own, p)
		}
	}
	if number >= len(own) {
		m.Parts = append(m.Parts, part{
			"type": "tool_call", "id": piece.text("id"), "name": function.text("name"),
			"arguments": function.text("arguments"),
		})
		return
	}
	if number >= 0 {
		before, _ := own[number]["arguments"].(string)
		own[number]["arguments"] = before + function.text("arguments")
	}
}

// extendBlock adds to the last block of a message of Anthropic's API, which are sent one by one.
func (a *answering) extendBlock(delta object) {
	m := a.at(0)
	m.extend("text", delta.text("text"))
	m.extend("reasoning", delta.text("thinking"))
	if piece := delta.text("partial_json"); piece != "" && len(m.Parts) > 0 {
		last := m.Parts[len(m.Parts)-1]
		before, _ := last["arguments"].(string)
		last["arguments"] = before + piece
	}
}

// finished returns the word of the conventions for why an answer ended.
func finished(reason string) string {
	switch reason {
	case "end_turn", "stop_sequence", "STOP":
		return "stop"
	case "max_tokens", "max_output_tokens", "MAX_TOKENS":
		return "length"
	case "tool_use", "tool_calls", "function_call":
		return "tool_call"
	case "refusal", "SAFETY":
		return "content_filter"
	}
	return reason
}
