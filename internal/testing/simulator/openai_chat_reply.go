package simulator

import (
	"strconv"
	"time"
)

const fingerprint = "fp_simulator"

// chatReply writes answers in OpenAI's dialect, whole or as chunks.
type chatReply struct {
	step         *Step
	work         *work
	usageAsked   bool
	id, model    string
	created      int64
	promptTokens int
	answers      []answer

	head []byte // the beginning of every chunk
	out  []byte // reused for every chunk
	said int    // completion tokens sent so far
}

func newChatReply(x *exchange, request *chatRequest, p *prompt) *chatReply {
	r := &chatReply{
		step:         &x.step,
		work:         &x.work,
		usageAsked:   request.StreamOptions.IncludeUsage,
		id:           "chatcmpl-" + hex(seedOf(p.said)) + "-" + strconv.FormatUint(x.serial, 10),
		model:        request.Model,
		created:      time.Now().Unix(),
		promptTokens: p.tokens,
		answers:      make([]answer, request.choices()),
	}
	for i := range r.answers {
		r.answers[i] = x.reply(p, request.Model, i)
	}
	return r
}

// plain returns the whole reply.
func (r *chatReply) plain() []byte {
	out := append(r.opening("chat.completion"), `"choices":[`...)
	total := 0
	for i := range r.answers {
		a := &r.answers[i]
		total += a.tokens
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(append(out, `{"index":`...), int64(i), 10)
		out = append(out, `,"message":{"role":"assistant","content":`...)
		if a.call == nil {
			out = appendString(out, a.text)
		} else {
			out = append(out, `null,"tool_calls":[{"id":`...)
			out = appendString(out, a.call.id)
			out = appendString(append(out, `,"type":"function","function":{"name":`...), a.call.name)
			out = appendString(append(out, `,"arguments":`...), a.call.arguments)
			out = append(out, "}}]"...)
		}
		out = append(out, `,"refusal":null},"logprobs":null,"finish_reason":`...)
		out = append(appendString(out, a.finish), '}')
	}
	out = append(out, ']')
	if r.step.Usage&UsageNone == 0 {
		out = r.appendUsage(append(out, `,"usage":`...), total)
	}
	return r.step.close(r.work.appendTimings(out))
}

// stream sends the reply as chunks: every answer's role first, then a token of
// each answer in turn, then the usage where it is wanted.
func (r *chatReply) stream(s *eventStream) {
	r.head = r.opening("chat.completion.chunk")
	rest := make([]string, len(r.answers))
	for i := range r.answers {
		rest[i] = r.answers[i].spoken()
		if !s.event(r.roleChunk(i)) {
			return
		}
	}
	for open := len(rest); open > 0; {
		for i := range r.answers {
			a := &r.answers[i]
			switch {
			case rest[i] != "":
				n := s.next(rest[i])
				if !s.event(r.tokenChunk(i, rest[i][:n])) {
					return
				}
				rest[i] = rest[i][n:]
			case a.finish != "":
				open--
				if !r.step.NoFinish && !s.event(r.finishChunk(i, a.finish, open == 0)) {
					return
				}
				a.finish = ""
			}
		}
	}
	if r.sendsFinalUsage() && !s.event(r.usageChunk()) {
		return
	}
	s.done("", doneMark)
}

func (r *chatReply) opening(object string) []byte {
	out := make([]byte, 0, 1024)
	out = appendString(append(out, `{"id":`...), r.id)
	out = appendString(append(out, `,"object":`...), object)
	out = strconv.AppendInt(append(out, `,"created":`...), r.created, 10)
	out = appendString(append(out, `,"model":`...), r.model)
	return append(out, `,"system_fingerprint":"`+fingerprint+`",`...)
}

func (r *chatReply) roleChunk(i int) []byte {
	out := append(r.choice(i), `"role":"assistant","content":`...)
	call := r.answers[i].call
	if call == nil {
		return r.endChoice(append(out, `"","refusal":null`...), "", false)
	}
	out = append(out, `null,"tool_calls":[{"index":0,"id":`...)
	out = appendString(out, call.id)
	out = appendString(append(out, `,"type":"function","function":{"name":`...), call.name)
	return r.endChoice(append(out, `,"arguments":""}}]`...), "", false)
}

func (r *chatReply) tokenChunk(i int, token string) []byte {
	r.said += countTokens(token)
	out := r.choice(i)
	if r.step.RoleAlways {
		out = append(out, `"role":"assistant",`...)
	}
	if r.answers[i].call == nil {
		return r.endChoice(appendString(append(out, `"content":`...), token), "", false)
	}
	out = appendString(append(out, `"tool_calls":[{"index":0,"function":{"arguments":`...), token)
	return r.endChoice(append(out, "}}]"...), "", false)
}

func (r *chatReply) finishChunk(i int, finish string, last bool) []byte {
	out := r.choice(i)
	if r.step.RoleAlways {
		out = append(out, `"role":"assistant"`...)
	}
	return r.endChoice(out, finish, last)
}

func (r *chatReply) usageChunk() []byte {
	out := append(append(r.out[:0], r.head...), `"choices":[],"usage":`...)
	r.out = r.step.close(r.work.appendTimings(r.appendUsage(out, r.said)))
	return r.out
}

// choice begins a chunk with one choice, up to the inside of its delta.
func (r *chatReply) choice(i int) []byte {
	out := append(append(r.out[:0], r.head...), `"choices":[{"index":`...)
	return append(strconv.AppendInt(out, int64(i), 10), `,"delta":{`...)
}

// endChoice completes the choice that choice began; last means that no choice follows.
func (r *chatReply) endChoice(out []byte, finish string, last bool) []byte {
	out = append(out, `},"logprobs":null,"finish_reason":`...)
	out = append(appendStringOrNull(out, finish), "}]"...)
	places := r.step.Usage
	switch {
	case places&UsageEvery != 0, places&UsageOnFinish != 0 && last:
		out = r.appendUsage(append(out, `,"usage":`...), r.said)
	case places&UsageNull != 0, r.sendsFinalUsage():
		out = append(out, `,"usage":null`...)
	}
	r.out = r.step.close(out)
	return r.out
}

// sendsFinalUsage reports whether a chunk without choices ends the stream. A
// step that puts usage elsewhere must set UsageFinal too.
func (r *chatReply) sendsFinalUsage() bool {
	if r.step.Usage == 0 {
		return r.usageAsked
	}
	return r.step.Usage&UsageFinal != 0
}

func (r *chatReply) appendUsage(out []byte, completion int) []byte {
	if r.step.UsageValue != "" {
		return append(out, r.step.UsageValue...)
	}
	out = strconv.AppendInt(append(out, `{"prompt_tokens":`...), int64(r.promptTokens), 10)
	out = strconv.AppendInt(append(out, `,"completion_tokens":`...), int64(completion), 10)
	out = strconv.AppendInt(append(out, `,"total_tokens":`...), int64(r.promptTokens+completion), 10)
	out = strconv.AppendInt(append(out, `,"prompt_tokens_details":{"cached_tokens":`...), int64(r.work.cached()), 10)
	return append(out, `,"audio_tokens":0}`+
		`,"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,`+
		`"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}
