package simulator

import (
	"net/http"
	"time"
)

// answerOllamaGenerate serves POST /api/generate, which completes a text.
func answerOllamaGenerate(x *exchange) {
	var request struct {
		ollamaRequest
		Prompt   string `json:"prompt"`
		Suffix   string `json:"suffix"`
		Logprobs bool   `json:"logprobs"`
	}
	if !x.decodeOllama(&request, &request.Model) {
		return
	}
	request.Messages = []ollamaMessage{{Role: "user", Content: request.Prompt}}
	p, problem := request.prompt()
	if problem != "" {
		x.fail(http.StatusBadRequest, apiError{message: problem})
		return
	}
	r := &ollamaTextReply{ollamaReply: ollamaReply{step: &x.step, work: &x.work, model: request.Model,
		promptTokens: p.tokens}, logprobs: request.Logprobs}
	goes := x.keepFor(request.KeepAlive)
	if request.Prompt == "" {
		if reason := x.loadOrGo(request.Model, goes); reason != "" {
			x.send(http.StatusOK, "application/json; charset=utf-8",
				x.step.close(append(r.text("", ""), `,"done":true,"done_reason":"`+reason+`"`...)))
		}
		return
	}
	x.chains(p, false)
	p.isText = true
	r.answer = x.reply(p, request.Model, 0)
	if (request.Stream == nil || *request.Stream) && !x.step.Plain {
		r.stream(x.streamAs(asLines, linesType))
		return
	}
	x.sendWritten("application/json; charset=utf-8",
		func() []byte { return r.last(r.text(r.answer.text, r.answer.thought)) })
}

// ollamaTextReply writes a completed text, whole or as lines.
type ollamaTextReply struct {
	ollamaReply
	logprobs bool
}

// stream sends the text, then a line that ends.
func (r *ollamaTextReply) stream(s *eventStream) {
	for rest := r.answer.text; rest != ""; {
		n := s.next(rest)
		if !s.event(r.between(r.text(rest[:n], ""))) {
			return
		}
		rest = rest[n:]
	}
	if !r.step.NoDone && !s.event(r.last(r.text("", ""))) {
		return
	}
	s.done("", "")
}

// text begins a line, up to the end of its text.
func (r *ollamaTextReply) text(text, thought string) []byte {
	out := appendString(append(r.out[:0], `{"model":`...), r.model)
	out = time.Now().UTC().AppendFormat(append(out, `,"created_at":"`...), time.RFC3339Nano)
	out = appendString(append(out, `","response":`...), text)
	if thought != "" {
		out = appendString(append(out, `,"thinking":`...), thought)
	}
	if r.logprobs && text != "" {
		out = appendString(append(out, `,"logprobs":[{"token":`...), text)
		out = append(out, `,"logprob":-0.5}]`...)
	}
	r.out = out
	return r.out
}
