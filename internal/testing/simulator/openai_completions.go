package simulator

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// completionRequest is a request for the completion of texts. It has the options of a
// chat.
type completionRequest struct {
	chatRequest
	Prompt   jsontext.Value `json:"prompt"`
	Suffix   string         `json:"suffix"`
	Echo     bool           `json:"echo"`
	Logprobs *wholeNumber   `json:"logprobs"`
}

// answerCompletions serves POST /v1/completions.
func answerCompletions(x *exchange) {
	var request completionRequest
	if !x.decode(&request) || !x.serves(request.Model) {
		return
	}
	texts, problem := request.texts()
	if problem != nil {
		x.fail(http.StatusBadRequest, *problem)
		return
	}
	stops, problem := request.stops()
	if problem != nil {
		x.fail(http.StatusBadRequest, *problem)
		return
	}
	if n := request.choices(); n < 1 || n*len(texts) > mostChoices {
		x.refuse("n", "'n' must be between 1 and 128.")
		return
	}
	reply := &textReply{request: &request, chatReply: *newChatReply(x, &request.chatRequest,
		&prompt{said: strings.Join(texts, " ")})}
	reply.id = "cmpl-" + strings.TrimPrefix(reply.id, "chatcmpl-")
	reply.answers = nil
	for _, text := range texts {
		p := &prompt{said: text, limit: request.limit(), fills: request.IgnoreEOS && request.limit() > 0, stops: stops,
			isText: true}
		x.chains(p, false)
		p.read(text)
		reply.promptTokens += p.tokens
		for i := range request.choices() {
			reply.answers = append(reply.answers, x.reply(p, request.Model, i))
			reply.prompts = append(reply.prompts, text)
		}
	}
	if request.Stream && !x.step.Plain {
		reply.stream(x.stream())
		return
	}
	x.sendWritten("application/json", reply.plain)
}

// texts returns the prompts. Token ids are written as their numbers.
func (r *completionRequest) texts() ([]string, *apiError) {
	var texts []string
	var ids []int64
	var lists [][]int64
	switch value := given(r.Prompt); {
	case value == nil:
	case value.Kind() == '"':
		return []string{unquote(value)}, nil
	case json.Unmarshal(value, &texts, lenient()) == nil && len(texts) > 0:
		return texts, nil
	case json.Unmarshal(value, &ids, lenient()) == nil && len(ids) > 0:
		return []string{numbers(ids)}, nil
	case json.Unmarshal(value, &lists, lenient()) == nil && len(lists) > 0:
		texts = nil
		for _, list := range lists {
			texts = append(texts, numbers(list))
		}
		return texts, nil
	}
	return nil, invalidRequest("prompt", "invalid_value",
		"'prompt' must be a string, an array of strings, or arrays of token ids, and not empty.")
}

func numbers(ids []int64) string {
	var words []string
	for _, id := range ids {
		words = append(words, strconv.FormatInt(id, 10))
	}
	return strings.Join(words, " ")
}

// textReply writes completions of texts, whole or as chunks.
type textReply struct {
	chatReply
	request *completionRequest
	prompts []string // one for each answer
}

// plain returns the whole reply.
func (r *textReply) plain() []byte {
	out := append(r.opening("text_completion"), `"choices":[`...)
	total := 0
	for i := range r.answers {
		if i > 0 {
			out = append(out, ',')
		}
		total += r.answers[i].tokens
		text := r.answers[i].text
		if r.request.Echo {
			text = r.prompts[i] + text
		}
		out = r.choice(out, i, text, r.answers[i].finish)
	}
	out = append(out, ']')
	if r.step.Usage&UsageNone == 0 {
		out = r.appendUsage(append(out, `,"usage":`...), total)
	}
	return r.step.close(r.work.appendTimings(out))
}

// stream sends one completion after the other, token by token.
func (r *textReply) stream(s *eventStream) {
	r.head = r.opening("text_completion")
	for i := range r.answers {
		if r.request.Echo && !s.event(r.chunk(i, r.prompts[i], "")) {
			return
		}
		for rest := r.answers[i].text; rest != ""; {
			n := s.next(rest)
			r.said += countTokens(rest[:n])
			if !s.event(r.chunk(i, rest[:n], "")) {
				return
			}
			rest = rest[n:]
		}
		if !r.step.NoFinish && !s.event(r.chunk(i, "", r.answers[i].finish)) {
			return
		}
	}
	if r.sendsFinalUsage() && !s.event(r.usageChunk()) {
		return
	}
	s.done("", doneMark)
}

func (r *textReply) chunk(i int, text, finish string) []byte {
	out := append(append(r.out[:0], r.head...), `"choices":[`...)
	out = append(r.choice(out, i, text, finish), ']')
	if r.step.Usage&UsageEvery != 0 {
		out = r.appendUsage(append(out, `,"usage":`...), r.said)
	}
	r.out = r.step.close(out)
	return r.out
}

// choice appends one choice, with made-up probabilities where they were asked for.
func (r *textReply) choice(out []byte, i int, text, finish string) []byte {
	out = strconv.AppendInt(append(out, `{"index":`...), int64(i), 10)
	out = appendString(append(out, `,"text":`...), text)
	if r.request.Logprobs == nil || text == "" {
		out = append(out, `,"logprobs":null`...)
	} else {
		out = appendString(append(out, `,"logprobs":{"tokens":[`...), text)
		out = appendString(append(out, `],"token_logprobs":[-0.5],"top_logprobs":[{`...), text)
		out = append(out, `:-0.5}],"text_offset":[0]}`...)
	}
	return append(appendStringOrNull(append(out, `,"finish_reason":`...), finish), '}')
}

// answerModerations serves POST /v1/moderations. A text that says HARM is harmful.
func answerModerations(x *exchange) {
	var request struct {
		Model string         `json:"model"`
		Input jsontext.Value `json:"input"`
	}
	if !x.decode(&request) || !x.serves(request.Model) {
		return
	}
	var inputs []jsontext.Value
	switch value := given(request.Input); {
	case value == nil:
	case value.Kind() == '"':
		inputs = []jsontext.Value{value}
	default:
		_ = json.Unmarshal(value, &inputs, lenient()) // none is refused below
	}
	if len(inputs) == 0 {
		x.refuse("input", "'input' must be a string, an array of strings, or an array of objects.")
		return
	}
	out := append([]byte(`{"id":"modr-`+hex(seedOf(string(request.Input)))+`","model":`),
		appendString(nil, request.Model)...)
	out = append(out, `,"results":[`...)
	for i, input := range inputs {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendModeration(out, strings.Contains(string(input), "HARM"))
	}
	x.sendJSON(append(out, ']'))
}

// harms are the categories of a moderation, in the order of OpenAI's schema.
var harms = [...]string{
	"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm",
	"self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors", "violence", "violence/graphic",
}

// appendModeration adds the result for one input, which is violent if it is flagged.
func appendModeration(out []byte, isFlagged bool) []byte {
	flagged := strconv.FormatBool(isFlagged)
	categories, scores, types := []byte(nil), []byte(nil), []byte(nil)
	for i, harm := range harms {
		if i > 0 {
			categories, scores, types = append(categories, ','), append(scores, ','), append(types, ',')
		}
		told, score := "false", "0.01"
		if harm == "violence" {
			told, score = flagged, "0.5"
		}
		categories = append(categories, `"`+harm+`":`+told...)
		scores = append(scores, `"`+harm+`":`+score...)
		types = append(types, `"`+harm+`":["text"]`...)
	}
	return append(out, `{"flagged":`+flagged+`,"categories":{`+string(categories)+`},"category_scores":{`+
		string(scores)+
		`},"category_applied_input_types":{`+string(types)+`}}`...)
}
