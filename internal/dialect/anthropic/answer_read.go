package anthropic

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// ReplyChat translates a whole message into a completion.
func ReplyChat(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	doc := &reply.Doc
	doc.AllowDuplicateKeys = true
	if err := doc.Parse(answer.Body); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := doc.Root()
	if err := FailureIn(root); err != nil {
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
	var usage TokenCounts
	usage.Read(root.Get("usage"))

	var out dialect.Completion
	out.Identify(dialect.CompletionObject, dialect.RawText(root.Get("id")), time.Now().Unix(), req.Body.Root().Get("model").Raw())
	out.BeginWhole(reply, len(answer.Body)+512)
	out.Choice(0, "message")
	parts.write(&out, root.Get("stop_details").Get("explanation"))
	out.EndChoice(nil, finishReason(reason.Text(), len(parts.calls.Out) > 0))
	reply.Set(out.EndWithUsage(usage.detailed()))
	reply.Usage = usage.Report()
	return nil
}

// FailureIn returns the error that an answer or event is, or nil.
func FailureIn(root jsonscan.Value) error {
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
	blocks         jsonwrite.Writer // thinking as it came, for the caller to send back
	calls          jsonwrite.Writer
}

// add adds one block. What the backend did with tools of its own has no
// place in a completion.
func (p *answerParts) add(block jsonscan.Value) {
	switch string(block.Get("type").Text()) {
	case "text":
		p.text = append(p.text, dialect.RawText(block.Get("text"))...)
	case "thinking":
		p.thinking = append(p.thinking, dialect.RawText(block.Get("thinking"))...)
		if len(dialect.RawText(block.Get("signature"))) > 0 {
			p.blocks.Raw(block.Raw())
		}
	case "redacted_thinking":
		p.blocks.Raw(block.Raw())
	case "tool_use":
		beginCall(&p.calls, -1, block)
		if input := block.Get("input"); input.Given() {
			p.calls.Text(input.Raw())
		} else {
			p.calls.Plain("{}")
		}
		dialect.EndCall(&p.calls)
	}
}

// write writes the members of the completion's message.
func (p *answerParts) write(out *dialect.Completion, refusal jsonscan.Value) {
	refused := refusal.Kind() == jsonscan.String
	out.Role()
	if p.text == nil && (len(p.calls.Out) > 0 || refused) {
		out.NoContent()
	} else {
		out.Content(p.text)
	}
	out.Name("refusal")
	if refused {
		out.Raw(refusal.Raw())
	} else {
		out.Literal("null")
	}
	out.Thinking(p.thinking)
	out.List("thinking_blocks", p.blocks.Out)
	out.List("tool_calls", p.calls.Out)
}

// beginCall begins the tool call that a block is. Some servers of this dialect
// give no ids, and a name that is no string is empty.
func beginCall(w *jsonwrite.Writer, index int, block jsonscan.Value) {
	id, name := block.Get("id").Raw(), block.Get("name").Raw()
	if len(dialect.RawText(block.Get("id"))) == 0 {
		id = []byte(`"call_` + rand.Text() + `"`)
	}
	if block.Get("name").Kind() != jsonscan.String {
		name = []byte(`""`)
	}
	dialect.BeginCall(w, index, id, name)
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

// TokenCounts is what was reported about the tokens of one answer.
type TokenCounts struct {
	input, cacheWrite, cacheRead, output, thinking int64

	known bool
}

// Read reads a report. Reports of one stream are running totals of which
// later ones may leave parts out or zero, so the highest count is the right one.
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
		}
	}
}

// Report returns the totals. Tokens that went through the cache are not among
// those that the backend calls input.
func (u *TokenCounts) Report() schema.Usage {
	prompt := u.input + u.cacheWrite + u.cacheRead
	return schema.Usage{Prompt: prompt, Completion: u.output, Total: prompt + u.output, Known: u.known}
}

// detailed returns the totals with what is known of their parts.
func (u *TokenCounts) detailed() dialect.Usage {
	usage := dialect.Usage{Usage: u.Report(), Cached: u.cacheRead, Reasoning: -1}
	if u.thinking > 0 {
		usage.Reasoning = u.thinking
	}
	return usage
}
