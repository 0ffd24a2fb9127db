package anthropic

import (
	"crypto/rand"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Decode reads a whole message.
func Decode(_ *schema.Request, body []byte, doc *jsonscan.Document, to *chat.Answer) error {
	root, err := dialect.Parse(doc, body)
	if err != nil {
		return err
	}
	if err := FailureIn(root); err != nil {
		return err
	}
	content, reason := root.Get("content"), root.Get("stop_reason")
	if content.Kind() != jsonscan.Array || content.Empty() && !dialect.IsFinishReason(reason) {
		return dialect.Invalid("no content")
	}
	choice := to.Add(0)
	for block := range content.All() {
		addBlock(choice, block)
	}
	to.ID = idOf(root)
	choice.Refusal = chat.TextIn(root.Get("stop_details"), "explanation")
	choice.Finish = finishReason(reason.Text(), len(choice.Calls) > 0)
	choice.StopSequence = root.TextOf("stop_sequence")
	var usage TokenCounts
	usage.Read(root.Get("usage"))
	to.Usage = usage.detailed()
	return nil
}

// idOf returns the id of the answer that a message is, nil if the message has none.
func idOf(message jsonscan.Value) []byte {
	id := chat.TextIn(message, "id")
	if len(id) == 0 {
		return nil
	}
	return append([]byte(chat.IDPrefix), id...)
}

// FailureIn returns the error that an answer or event is, or nil.
func FailureIn(root jsonscan.Value) error {
	if root.Kind() != jsonscan.Object {
		return dialect.Invalid("it is no object")
	}
	if root.Is("type", "error") {
		return &dialect.Failure{Status: 200, Message: dialect.FailureMessage(root)}
	}
	return dialect.FailureIn(root)
}

// addBlock adds a block of a message to the model's words. The backend's use of tools
// of its own has no place in an answer.
func addBlock(choice *chat.Choice, block jsonscan.Value) {
	switch string(block.TextOf("type")) {
	case "text":
		choice.Text = chat.Join(choice.Text, chat.TextIn(block, "text"))
	case "thinking":
		choice.Thinking = chat.Join(choice.Thinking, chat.TextIn(block, "thinking"))
		if len(chat.TextIn(block, "signature")) > 0 {
			choice.Blocks = append(choice.Blocks, block.Raw()) // for the caller to send back
		}
	case "redacted_thinking":
		choice.Blocks = append(choice.Blocks, block.Raw())
	case "tool_use":
		call := beginCall(block, int64(len(choice.Calls)))
		if input := block.Get("input"); input.Given() {
			call.Arguments = chat.Escape(input.Raw())
		} else {
			call.Arguments = []byte("{}")
		}
		choice.Calls = append(choice.Calls, call)
	}
}

// beginCall returns the tool call that a block is, without its arguments. Some servers of
// this dialect give no ids.
func beginCall(block jsonscan.Value, index int64) chat.ToolCall {
	call := chat.ToolCall{Index: index, ID: chat.TextIn(block, "id"), Name: chat.TextIn(block, "name")}
	if len(call.ID) == 0 {
		call.ID = []byte("call_" + rand.Text())
	}
	return call
}

// finishReason translates the reason why the answer ended. A caller looks for calls
// only when the reason says so; a call that the limit cut off does not count.
func finishReason(reason []byte, called bool) chat.FinishReason {
	switch string(reason) {
	case "max_tokens", "model_context_window_exceeded":
		return chat.Length
	case "refusal":
		return chat.ContentFilter
	case "tool_use":
		return chat.ToolCalls
	}
	if called {
		return chat.ToolCalls
	}
	return chat.Stop
}

// TokenCounts is the backend's report about the tokens of one answer.
type TokenCounts struct {
	input, cacheWrite, cacheRead, output, thinking int64

	known, cacheReadTold bool
}

// Read reads a report. Reports of one stream are running totals. Later ones may leave
// parts out or zero, and so the highest count is the right one.
func (u *TokenCounts) Read(v jsonscan.Value) {
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
			u.cacheReadTold = u.cacheReadTold || c.to == &u.cacheRead
		}
	}
}

// Report returns the totals. Tokens that went through the cache are not part of the
// input tokens that the backend reports.
func (u *TokenCounts) Report() schema.Usage {
	prompt := u.input + u.cacheWrite + u.cacheRead
	return schema.Usage{
		Prompt: prompt, Completion: u.output, Total: prompt + u.output,
		Cached: u.cacheRead, Written: u.cacheWrite, IsCachedTold: u.cacheReadTold, Known: u.known,
	}
}

// detailed returns the totals with the known numbers of their parts.
func (u *TokenCounts) detailed() chat.Usage {
	usage := chat.Usage{Tokens: u.Report(), Cached: u.cacheRead, Reasoning: -1}
	if u.thinking > 0 {
		usage.Reasoning = u.thinking
	}
	return usage
}
