package anthropic

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Reply translates a whole message into a completion.
func (Chat) Reply(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	doc := &reply.Doc
	doc.AllowDuplicateKeys = true
	if err := doc.Parse(answer.Body); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := doc.Root()
	if err := failureIn(root); err != nil {
		return err
	}
	content, reason := root.Get("content"), root.Get("stop_reason")
	if content.Kind() != jsonscan.Array || content.Empty() && !dialect.IsFinishReason(reason) {
		return fmt.Errorf("%w: no content", dialect.ErrInvalid)
	}
	var parts answerParts
	for block := content.First(); block.Kind() != jsonscan.Absent; block = block.Next() {
		parts.add(block)
	}
	var usage tokenCounts
	usage.read(root.Get("usage"))

	out := make([]byte, 0, len(answer.Body)+512)
	out = append(out, `{"id":`...)
	out = appendID(out, root.Get("id"))
	out = append(out, `,"object":"chat.completion","created":`...)
	out = strconv.AppendInt(out, time.Now().Unix(), 10)
	out = append(out, `,"model":`...)
	out = append(out, req.Body.Root().Get("model").Raw()...)
	out = append(out, `,"system_fingerprint":null,"choices":[{"index":0,"message":`...)
	out = parts.appendMessage(out, root.Get("stop_details").Get("explanation"))
	out = append(out, `,"logprobs":null,"finish_reason":"`...)
	out = append(out, finishReason(reason.Text(), parts.calls != nil)...)
	out = append(out, `"}]`...)
	if usage.known {
		out = usage.append(append(out, `,"usage":`...))
	}
	reply.Segments = append(reply.Segments[:0], append(out, '}'))
	reply.Usage = usage.report()
	return nil
}

// failureIn returns the error that an answer or event is, or nil.
func failureIn(root jsonscan.Value) error {
	if root.Kind() != jsonscan.Object {
		return fmt.Errorf("%w: it is no object", dialect.ErrInvalid)
	}
	if string(root.Get("type").Text()) == "error" {
		return &dialect.Failure{Status: 200, Message: dialect.FailureMessage(root)}
	}
	return dialect.FailureIn(root)
}

// answerParts collects the blocks of an answer by what they become. Texts
// stay escaped, as they are going to be written again.
type answerParts struct {
	text, thinking []byte
	blocks         []byte // thinking as it came, for the caller to send back
	calls          []byte
}

// add takes in one block. What the backend did with tools of its own has no
// place in a completion.
func (p *answerParts) add(block jsonscan.Value) {
	switch string(block.Get("type").Text()) {
	case "text":
		p.text = append(p.text, dialect.RawText(block.Get("text"))...)
	case "thinking":
		p.thinking = append(p.thinking, dialect.RawText(block.Get("thinking"))...)
		if len(dialect.RawText(block.Get("signature"))) > 0 {
			p.keep(block)
		}
	case "redacted_thinking":
		p.keep(block)
	case "tool_use":
		if p.calls != nil {
			p.calls = append(p.calls, ',')
		}
		p.calls = append(p.calls, `{"id":`...)
		p.calls = appendCall(p.calls, block)
		p.calls = appendInput(p.calls, block.Get("input"))
		p.calls = append(p.calls, "}}"...)
	}
}

func (p *answerParts) keep(block jsonscan.Value) {
	if p.blocks != nil {
		p.blocks = append(p.blocks, ',')
	}
	p.blocks = append(p.blocks, block.Raw()...)
}

// appendMessage writes the message of the completion.
func (p *answerParts) appendMessage(dst []byte, refusal jsonscan.Value) []byte {
	refused := refusal.Kind() == jsonscan.String
	dst = append(dst, `{"role":"assistant","content":`...)
	if p.text == nil && (p.calls != nil || refused) {
		dst = append(dst, "null"...)
	} else {
		dst = append(append(append(dst, '"'), p.text...), '"')
	}
	dst = append(dst, `,"refusal":`...)
	if refused {
		dst = append(dst, refusal.Raw()...)
	} else {
		dst = append(dst, "null"...)
	}
	if len(p.thinking) > 0 {
		dst = appendThinking(append(dst, ','), p.thinking)
	}
	if p.blocks != nil {
		dst = append(append(append(dst, `,"thinking_blocks":[`...), p.blocks...), ']')
	}
	if p.calls != nil {
		dst = append(append(append(dst, `,"tool_calls":[`...), p.calls...), ']')
	}
	return append(dst, '}')
}

// appendThinking writes a piece of thinking under both names that clients
// look for.
func appendThinking(dst, text []byte) []byte {
	dst = append(append(dst, `"reasoning_content":"`...), text...)
	dst = append(append(dst, `","reasoning":"`...), text...)
	return append(dst, '"')
}

// appendCall writes a tool call from behind its id's name to before its
// arguments. Some servers of this dialect give no ids.
func appendCall(dst []byte, block jsonscan.Value) []byte {
	if id := block.Get("id"); len(dialect.RawText(id)) > 0 {
		dst = append(dst, id.Raw()...)
	} else {
		dst = append(append(append(dst, `"call_`...), rand.Text()...), '"')
	}
	dst = append(dst, `,"type":"function","function":{"name":"`...)
	dst = append(dst, dialect.RawText(block.Get("name"))...)
	return append(dst, `","arguments":`...)
}

// appendInput writes the input of a call as a text.
func appendInput(dst []byte, input jsonscan.Value) []byte {
	if !input.Given() {
		return append(dst, `"{}"`...)
	}
	dst, _ = jsontext.AppendQuote(dst, input.Raw()) // a scanned text is valid UTF-8
	return dst
}

// appendID makes the id of a completion from that of a message.
func appendID(dst []byte, id jsonscan.Value) []byte {
	dst = append(dst, `"chatcmpl-`...)
	if given := dialect.RawText(id); len(given) > 0 {
		dst = append(dst, given...)
	} else {
		dst = append(dst, rand.Text()...)
	}
	return append(dst, '"')
}

// finishReason translates the reason why the answer ended. A caller looks
// for calls only when the reason says so; a call that the limit cut off is none.
func finishReason(reason []byte, called bool) string {
	switch string(reason) {
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "refusal":
		return "content_filter"
	case "tool_use":
		return "tool_calls"
	}
	if called {
		return "tool_calls"
	}
	return "stop"
}

// tokenCounts is what was reported about the tokens of one answer.
type tokenCounts struct {
	input, cacheWrite, cacheRead, output, thinking int64

	known bool
}

// read takes in a report. Reports of one stream are running totals of which
// later ones may leave parts out or zero, so the highest count is the right one.
func (u *tokenCounts) read(v jsonscan.Value) {
	counts := [...]struct {
		from jsonscan.Value
		to   *int64
	}{
		{v.Get("input_tokens"), &u.input},
		{v.Get("cache_creation_input_tokens"), &u.cacheWrite},
		{v.Get("cache_read_input_tokens"), &u.cacheRead},
		{v.Get("output_tokens"), &u.output},
		{v.Get("output_tokens_details").Get("thinking_tokens"), &u.thinking},
	}
	const most = 1 << 40 // anything above is no count of tokens
	for _, c := range counts {
		if n, ok := c.from.Int(); ok && n >= 0 && n <= most {
			*c.to = max(*c.to, n)
			u.known = true
		}
	}
}

// report returns the totals. Tokens that went through the cache are not among
// those that the backend calls input.
func (u *tokenCounts) report() schema.Usage {
	prompt := u.input + u.cacheWrite + u.cacheRead
	return schema.Usage{Prompt: prompt, Completion: u.output, Total: prompt + u.output, Known: u.known}
}

// append writes the usage of a completion.
func (u *tokenCounts) append(dst []byte) []byte {
	total := u.report()
	dst = strconv.AppendInt(append(dst, `{"prompt_tokens":`...), total.Prompt, 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), total.Completion, 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), total.Total, 10)
	dst = strconv.AppendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), u.cacheRead, 10)
	dst = append(dst, '}')
	if u.thinking > 0 {
		dst = strconv.AppendInt(append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...), u.thinking, 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
