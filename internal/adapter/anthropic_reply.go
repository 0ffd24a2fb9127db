package adapter

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Reply translates a whole message into a completion.
func (anthropicChat) Reply(req *schema.Request, answer Answer, reply *Reply) error {
	doc := &reply.doc
	doc.AllowDuplicateKeys = true
	if err := doc.Parse(answer.Body); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	root := doc.Root()
	if err := anthropicComplaint(root); err != nil {
		return err
	}
	content, reason := root.Get("content"), root.Get("stop_reason")
	if content.Kind() != jsonscan.Array || content.Empty() && !isReason(reason) {
		return fmt.Errorf("%w: no content", ErrInvalid)
	}
	var parts anthropicParts
	for block := content.First(); block.Kind() != jsonscan.Absent; block = block.Next() {
		parts.add(block)
	}
	var usage anthropicUsage
	usage.read(root.Get("usage"))

	out := make([]byte, 0, len(answer.Body)+512)
	out = append(out, `{"id":`...)
	out = appendAnthropicID(out, root.Get("id"))
	out = append(out, `,"object":"chat.completion","created":`...)
	out = strconv.AppendInt(out, time.Now().Unix(), 10)
	out = append(out, `,"model":`...)
	out = append(out, req.Body.Root().Get("model").Raw()...)
	out = append(out, `,"system_fingerprint":null,"choices":[{"index":0,"message":`...)
	out = parts.appendMessage(out, root.Get("stop_details").Get("explanation"))
	out = append(out, `,"logprobs":null,"finish_reason":"`...)
	out = append(out, anthropicFinish(reason.Text(), parts.calls != nil)...)
	out = append(out, `"}]`...)
	if usage.known {
		out = usage.append(append(out, `,"usage":`...))
	}
	reply.Segments = append(reply.Segments[:0], append(out, '}'))
	reply.Usage = usage.report()
	return nil
}

// anthropicComplaint returns the error that an answer or event is, or nil.
func anthropicComplaint(root jsonscan.Value) error {
	if root.Kind() != jsonscan.Object {
		return fmt.Errorf("%w: it is no object", ErrInvalid)
	}
	if string(root.Get("type").Text()) == "error" {
		return &Failure{Status: 200, Message: messageOf(root)}
	}
	return complaint(root)
}

// anthropicParts collects the blocks of an answer by what they become. Texts
// stay escaped, as they are going to be written again.
type anthropicParts struct {
	text, thinking []byte
	blocks         []byte // thinking as it came, for the caller to send back
	calls          []byte
}

// add takes in one block. What the backend did with tools of its own has no
// place in a completion.
func (p *anthropicParts) add(block jsonscan.Value) {
	switch string(block.Get("type").Text()) {
	case "text":
		p.text = append(p.text, innerText(block.Get("text"))...)
	case "thinking":
		p.thinking = append(p.thinking, innerText(block.Get("thinking"))...)
		if len(innerText(block.Get("signature"))) > 0 {
			p.keep(block)
		}
	case "redacted_thinking":
		p.keep(block)
	case "tool_use":
		if p.calls != nil {
			p.calls = append(p.calls, ',')
		}
		p.calls = append(p.calls, `{"id":`...)
		p.calls = appendAnthropicCall(p.calls, block)
		p.calls = appendAnthropicInput(p.calls, block.Get("input"))
		p.calls = append(p.calls, "}}"...)
	}
}

func (p *anthropicParts) keep(block jsonscan.Value) {
	if p.blocks != nil {
		p.blocks = append(p.blocks, ',')
	}
	p.blocks = append(p.blocks, block.Raw()...)
}

// appendMessage writes the message of the completion.
func (p *anthropicParts) appendMessage(dst []byte, refusal jsonscan.Value) []byte {
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
		dst = appendAnthropicThinking(append(dst, ','), p.thinking)
	}
	if p.blocks != nil {
		dst = append(append(append(dst, `,"thinking_blocks":[`...), p.blocks...), ']')
	}
	if p.calls != nil {
		dst = append(append(append(dst, `,"tool_calls":[`...), p.calls...), ']')
	}
	return append(dst, '}')
}

// appendAnthropicThinking writes a piece of thinking under both names that clients
// look for.
func appendAnthropicThinking(dst, text []byte) []byte {
	dst = append(append(dst, `"reasoning_content":"`...), text...)
	dst = append(append(dst, `","reasoning":"`...), text...)
	return append(dst, '"')
}

// appendAnthropicCall writes a tool call from behind its id's name to before its
// arguments. Some servers of this dialect give no ids.
func appendAnthropicCall(dst []byte, block jsonscan.Value) []byte {
	if id := block.Get("id"); len(innerText(id)) > 0 {
		dst = append(dst, id.Raw()...)
	} else {
		dst = append(append(append(dst, `"call_`...), rand.Text()...), '"')
	}
	dst = append(dst, `,"type":"function","function":{"name":"`...)
	dst = append(dst, innerText(block.Get("name"))...)
	return append(dst, `","arguments":`...)
}

// appendAnthropicInput writes the input of a call as a text.
func appendAnthropicInput(dst []byte, input jsonscan.Value) []byte {
	if !input.Given() {
		return append(dst, `"{}"`...)
	}
	dst, _ = jsontext.AppendQuote(dst, input.Raw()) // a scanned text is valid UTF-8
	return dst
}

// appendAnthropicID makes the id of a completion from that of a message.
func appendAnthropicID(dst []byte, id jsonscan.Value) []byte {
	dst = append(dst, `"chatcmpl-`...)
	if given := innerText(id); len(given) > 0 {
		dst = append(dst, given...)
	} else {
		dst = append(dst, rand.Text()...)
	}
	return append(dst, '"')
}

// anthropicFinish translates the reason why the answer ended. A caller looks
// for calls only when the reason says so; a call that the limit cut off is none.
func anthropicFinish(reason []byte, called bool) string {
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

// anthropicUsage is what was reported about the tokens of one answer.
type anthropicUsage struct {
	input, cacheWrite, cacheRead, output, thinking int64

	known bool
}

// read takes in a report. Reports of one stream are running totals of which
// later ones may leave parts out or zero, so the highest count is the right one.
func (u *anthropicUsage) read(v jsonscan.Value) {
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
func (u *anthropicUsage) report() schema.Usage {
	prompt := u.input + u.cacheWrite + u.cacheRead
	return schema.Usage{Prompt: prompt, Completion: u.output, Total: prompt + u.output, Known: u.known}
}

// append writes the usage of a completion.
func (u *anthropicUsage) append(dst []byte) []byte {
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
