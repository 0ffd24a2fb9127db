package gemini

import (
	"fmt"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// settle judges an answer of which nothing more will come. missing is the error
// for a candidate that did not end.
func (a *partialAnswer) settle(missing error) error {
	if a.blocked != "" {
		if len(a.choices) == 0 {
			a.choice(0)
		}
		for i := range a.choices {
			if c := &a.choices[i]; c.finish == "" {
				c.finish, c.reason = "content_filter", a.blocked
			}
		}
	}
	if len(a.choices) == 0 {
		return missing
	}
	empty := true
	for i := range a.choices {
		c := &a.choices[i]
		if c.finish == "" {
			return missing
		}
		empty = empty && !c.filled && c.finish == "stop"
	}
	if empty {
		return fmt.Errorf("%w: nothing is in it", dialect.ErrInvalid)
	}
	return nil
}

// completion writes a whole answer.
func (a *partialAnswer) completion() ([]byte, error) {
	for i := range a.choices {
		if c := &a.choices[i]; c.finish == "" && c.filled && a.blocked == "" {
			c.finish = "stop" // a plain answer is whole, whatever it says of it
		}
	}
	if err := a.settle(fmt.Errorf("%w: no candidates", dialect.ErrInvalid)); err != nil {
		return nil, err
	}
	out := a.appendHead(nil, "chat.completion")
	for i := range a.choices {
		c := &a.choices[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(append(out, `{"index":`...), c.index, 10)
		out = c.appendMessage(append(out, `,"message":`...))
		out = c.appendRest(out, c.finishReason())
	}
	out = append(out, ']')
	if a.usage.Known {
		out = a.usage.append(append(out, `,"usage":`...))
	}
	return append(out, '}'), nil
}

// appendHead writes a completion or chunk up to the first choice.
func (a *partialAnswer) appendHead(dst []byte, object string) []byte {
	dst = append(append(dst, `{"id":"`...), a.id...)
	dst = append(append(append(dst, `","object":"`...), object...), `","created":`...)
	dst = strconv.AppendInt(dst, a.created, 10)
	dst = append(append(dst, `,"model":`...), a.model...)
	return append(dst, `,"system_fingerprint":null,"choices":[`...)
}

// appendMessage writes what a candidate said as a message.
func (c *choice) appendMessage(dst []byte) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	switch {
	case len(c.text) > 0:
		dst = append(append(append(dst, '"'), c.text...), '"')
	case c.calls > 0 || c.refused():
		dst = append(dst, "null"...)
	default:
		dst = append(dst, `""`...)
	}
	dst = append(dst, `,"refusal":`...)
	if c.refused() {
		dst = c.appendRefusal(dst)
	} else {
		dst = append(dst, "null"...)
	}
	dst = c.appendExtras(dst)
	return append(dst, '}')
}

// refused reports whether everything was withheld.
func (c *choice) refused() bool { return c.finish == "content_filter" && !c.filled }

func (c *choice) appendRefusal(dst []byte) []byte {
	return append(append(append(dst, `"The backend withheld the answer: `...), c.reason...), `."`...)
}

// appendExtras writes what a candidate has besides text, each with a comma
// before it. Clients know reasoning under two names.
func (c *choice) appendExtras(dst []byte) []byte {
	if len(c.reasoning) > 0 {
		dst = append(append(dst, `,"reasoning_content":"`...), c.reasoning...)
		dst = append(append(dst, `","reasoning":"`...), c.reasoning...)
		dst = append(dst, '"')
	}
	if len(c.toolCalls) > 0 {
		dst = append(append(append(dst, `,"tool_calls":[`...), c.toolCalls...), ']')
	}
	if len(c.images) > 0 {
		dst = append(append(append(dst, `,"images":[`...), c.images...), ']')
	}
	if len(c.signature) > 0 {
		dst = appendSignature(append(dst, ','), c.signature)
	}
	return dst
}

// appendRest ends a choice.
func (c *choice) appendRest(dst []byte, finish string) []byte {
	dst = append(dst, `,"logprobs":`...)
	if len(c.logprobs) > 0 {
		dst = append(append(append(dst, `{"content":[`...), c.logprobs...), `],"refusal":null}`...)
	} else {
		dst = append(dst, "null"...)
	}
	if finish == "" {
		return append(dst, `,"finish_reason":null}`...)
	}
	return append(append(append(dst, `,"finish_reason":"`...), finish...), `"}`...)
}

// tokens reads the probabilities of the tokens of a candidate.
func (a *partialAnswer) tokens(choice *choice, result jsonscan.Value) error {
	a.inner.AllowDuplicateKeys = true
	if err := a.inner.Parse(result.Raw()); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	tops := a.inner.Root().Get("topCandidates").First()
	for chosen := a.inner.Root().Get("chosenCandidates").First(); chosen.Kind() != jsonscan.Absent; chosen = chosen.Next() {
		if len(choice.logprobs) > 0 {
			choice.logprobs = append(choice.logprobs, ',')
		}
		choice.logprobs = appendToken(choice.logprobs, chosen)
		choice.logprobs = append(choice.logprobs, `,"top_logprobs":[`...)
		if list := tops.Get("candidates"); list.Kind() == jsonscan.Array {
			doc := jsonscan.Document{AllowDuplicateKeys: true}
			if err := doc.Parse(list.Raw()); err != nil {
				return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
			}
			for one := doc.Root().First(); one.Kind() != jsonscan.Absent; one = one.Next() {
				choice.logprobs = append(appendToken(choice.logprobs, one), "},"...)
			}
			if last := len(choice.logprobs) - 1; choice.logprobs[last] == ',' {
				choice.logprobs = choice.logprobs[:last]
			}
		}
		choice.logprobs = append(choice.logprobs, "]}"...)
		tops = tops.Next()
	}
	return nil
}

// appendToken writes a token and its probability, and leaves the object open.
func appendToken(dst []byte, token jsonscan.Value) []byte {
	dst = append(append(dst, `{"token":"`...), dialect.RawText(token.Get("token"))...)
	dst = append(dst, `","logprob":`...)
	if v := token.Get("logProbability"); v.Kind() == jsonscan.Number {
		dst = append(dst, v.Raw()...)
	} else {
		dst = append(dst, '0') // what is zero is left out
	}
	return append(dst, `,"bytes":null`...)
}

// tokenCounts is the last report of an answer; a stream repeats it with running
// totals.
type tokenCounts struct {
	schema.Usage
	cached, thoughts int64
}

func (u *tokenCounts) read(v jsonscan.Value) {
	if v.Kind() != jsonscan.Object || v.Empty() {
		return
	}
	var prompt, answer, thoughts, total, cached, tools int64
	counted, sane := false, true
	count := func(n *int64, m jsonscan.Value) {
		var ok bool
		*n, ok = dialect.TokenCount(m)
		sane = sane && ok
	}
	for m := v.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		switch string(m.Key()) {
		case "promptTokenCount":
			count(&prompt, m)
		case "candidatesTokenCount":
			count(&answer, m)
			counted = m.Given()
		case "thoughtsTokenCount":
			count(&thoughts, m)
		case "totalTokenCount":
			count(&total, m)
		case "cachedContentTokenCount":
			count(&cached, m)
		case "toolUsePromptTokenCount":
			count(&tools, m)
		}
	}
	if !sane {
		return
	}
	prompt += tools
	completion := answer + thoughts
	switch {
	case total == 0:
		total = prompt + completion
	case prompt+answer == total:
		completion = answer // some servers count the thoughts in
	case !counted && total > prompt+thoughts:
		completion = total - prompt
	}
	u.Usage = schema.Usage{Prompt: prompt, Completion: completion, Total: total, Known: true}
	u.cached, u.thoughts = cached, thoughts
}

func (u *tokenCounts) append(dst []byte) []byte {
	for _, member := range [...]struct {
		before string
		count  int64
	}{
		{`{"prompt_tokens":`, u.Prompt},
		{`,"completion_tokens":`, u.Completion},
		{`,"total_tokens":`, u.Total},
		{`,"prompt_tokens_details":{"cached_tokens":`, u.cached},
		{`},"completion_tokens_details":{"reasoning_tokens":`, u.thoughts},
	} {
		dst = strconv.AppendInt(append(dst, member.before...), member.count, 10)
	}
	return append(dst, "}}"...)
}
