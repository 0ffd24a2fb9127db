package simulator

import (
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ollamaRequest is a chat request in Ollama's dialect.
type ollamaRequest struct {
	Model     string          `json:"model"`
	Messages  []ollamaMessage `json:"messages"`
	Stream    *bool           `json:"stream"`
	Think     jsontext.Value  `json:"think"` // true, false or a level
	Format    jsontext.Value  `json:"format"`
	KeepAlive jsontext.Value  `json:"keep_alive"`
	Options   struct {
		NumPredict int            `json:"num_predict"`
		Stop       jsontext.Value `json:"stop"`
	} `json:"options"`
	Tools []struct {
		Function struct {
			Name       string         `json:"name"`
			Parameters jsontext.Value `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

type ollamaMessage struct {
	Role      string   `json:"role"`
	Content   string   `json:"content"`
	Thinking  string   `json:"thinking"`
	Images    []string `json:"images"`
	ToolCalls []struct {
		Function struct {
			Name      string         `json:"name"`
			Arguments jsontext.Value `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// answerOllamaChat serves POST /api/chat.
func answerOllamaChat(x *exchange) {
	var request ollamaRequest
	if !x.decodeOllama(&request, &request.Model) {
		return
	}
	p, problem := request.prompt()
	if problem != "" {
		x.fail(http.StatusBadRequest, apiError{message: problem})
		return
	}
	r := &ollamaReply{step: &x.step, work: &x.work, model: request.Model, promptTokens: p.tokens}
	goes := x.keepFor(request.KeepAlive)
	if len(request.Messages) == 0 {
		if reason := x.loadOrGo(request.Model, goes); reason != "" {
			x.send(http.StatusOK, "application/json; charset=utf-8",
				x.step.close(append(r.message("", "", nil), `,"done":true,"done_reason":"`+reason+`"`...)))
		}
		return
	}
	x.chains(p, x.backend.options.Chain)
	r.answer = x.reply(p, request.Model, 0)
	if (request.Stream == nil || *request.Stream) && !x.step.Plain {
		r.stream(x.streamAs(asLines, linesType))
		return
	}
	x.sendWritten("application/json; charset=utf-8",
		func() []byte { return r.last(r.message(r.answer.text, r.answer.thought, r.answer.call)) })
}

// prompt converts the request to the prompt that all dialects share.
func (r *ollamaRequest) prompt() (p *prompt, problem string) {
	p = &prompt{limit: max(r.Options.NumPredict, 0), wholeCalls: true}
	for i := range r.Messages {
		r.Messages[i].addTo(p, i == len(r.Messages)-1)
	}
	for i := range r.Tools {
		function := &r.Tools[i].Function
		p.tools = append(p.tools, tool{function.Name, given(function.Parameters)})
	}
	if stop := given(r.Options.Stop); stop != nil && json.Unmarshal(stop, &p.stops, lenient()) != nil {
		return nil, `option "stop" must be of type array`
	}
	switch think := given(r.Think); {
	case think == nil:
		p.thinks = p.saysThink()
	case think.Kind() == '"': // low, medium or high
		p.thinks = true
	default:
		p.thinks = think.Kind() == 't'
	}
	switch format := given(r.Format); {
	case format == nil || string(format) == `""`:
	case string(format) == `"json"`:
		p.wantsJSON = true
	case format.Kind() == '{':
		p.wantsJSON, p.jsonSchema = true, format
		p.toolChoice.never = true // the text has this form, and a call would be another
	default:
		return nil, "invalid format: expected \"json\" or a JSON schema"
	}
	return p, ""
}

func (m *ollamaMessage) addTo(p *prompt, last bool) {
	p.images += len(m.Images)
	p.read(m.Content, m.Thinking)
	p.tokens += len(m.Images) * imageTokens
	for i := range m.ToolCalls {
		function := &m.ToolCalls[i].Function
		p.read(function.Name, string(function.Arguments))
	}
	switch m.Role {
	case "user":
		p.said = m.Content
	case "tool":
		p.answering, p.toolResult = last, m.Content
	case "assistant":
		if last {
			p.begun = m.Content
		}
	}
}

// ollamaReply writes an answer in Ollama's dialect, whole or as lines.
type ollamaReply struct {
	step         *Step
	work         *work
	model        string
	promptTokens int
	answer       answer

	out []byte // reused for every line
}

// stream sends the thought, the text and the tool call, then a line that ends.
func (r *ollamaReply) stream(s *eventStream) {
	for rest := r.answer.thought; rest != ""; {
		n := s.next(rest)
		if !s.event(r.between(r.message("", rest[:n], nil))) {
			return
		}
		rest = rest[n:]
	}
	for rest := r.answer.text; rest != ""; {
		n := s.next(rest)
		if !s.event(r.between(r.message(rest[:n], "", nil))) {
			return
		}
		rest = rest[n:]
	}
	if r.answer.call != nil && !s.event(r.between(r.message("", "", r.answer.call))) {
		return
	}
	if !r.step.NoDone && !s.event(r.last(r.message("", "", nil))) {
		return
	}
	s.done("", "")
}

// message begins a line, up to the end of its message.
func (r *ollamaReply) message(text, thought string, call *toolCall) []byte {
	out := appendString(append(r.out[:0], `{"model":`...), r.model)
	out = time.Now().UTC().AppendFormat(append(out, `,"created_at":"`...), time.RFC3339Nano)
	out = appendString(append(out, `","message":{"role":"assistant","content":`...), text)
	if thought != "" {
		out = appendString(append(out, `,"thinking":`...), thought)
	}
	if call != nil {
		out = appendString(append(out, `,"tool_calls":[{"id":`...), call.id)
		out = appendString(append(out, `,"function":{"index":0,"name":`...), call.name)
		out = append(append(out, `,"arguments":`...), call.arguments...)
		out = append(out, "}}]"...)
	}
	r.out = append(out, '}')
	return r.out
}

// between ends a line that is not the last one.
func (r *ollamaReply) between(line []byte) []byte {
	r.out = r.step.close(append(line, `,"done":false`...))
	return r.out
}

// last ends the last line of the answer.
func (r *ollamaReply) last(line []byte) []byte {
	line = append(line, `,"done":true`...)
	if !r.step.NoFinish {
		reason := r.answer.finish
		if reason == finishTool { // Ollama reports stop for tool calls too
			reason = finishStop
		}
		line = appendString(append(line, `,"done_reason":`...), reason)
	}
	if r.step.Usage&UsageNone == 0 {
		prompt, said := int64(r.promptTokens), int64(r.answer.tokens)
		load, read, wrote := r.work.durations(prompt, said)
		line = strconv.AppendInt(append(line, `,"total_duration":`...), load+read+wrote, 10)
		line = strconv.AppendInt(append(line, `,"load_duration":`...), load, 10)
		line = strconv.AppendInt(append(line, `,"prompt_eval_count":`...), prompt, 10)
		line = strconv.AppendInt(append(line, `,"prompt_eval_duration":`...), read, 10)
		line = strconv.AppendInt(append(line, `,"eval_count":`...), said, 10)
		line = strconv.AppendInt(append(line, `,"eval_duration":`...), wrote, 10)
	}
	r.out = r.step.close(line)
	return r.out
}
