package gemini

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// settle checks a complete answer and returns its error, if any. missing is the
// error for a candidate that did not end.
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

// complete writes a whole answer, which will have about size bytes.
func (a *partialAnswer) complete(reply *dialect.Reply, size int) error {
	for i := range a.choices {
		if c := &a.choices[i]; c.finish == "" && c.filled && a.blocked == "" {
			c.finish = "stop" // a plain answer is whole, whatever it says of it
		}
	}
	if err := a.settle(fmt.Errorf("%w: no candidates", dialect.ErrInvalid)); err != nil {
		return err
	}
	a.out.BeginWhole(reply, size)
	for i := range a.choices {
		c := &a.choices[i]
		a.out.Choice(c.index, "message")
		c.writeMessage(&a.out)
		a.out.EndChoice(c.logprobs.Out, c.finishReason())
	}
	reply.Set(a.out.EndWithUsage(a.usage.Usage))
	reply.Usage = a.usage.Usage.Usage
	return nil
}

// writeMessage writes what a candidate said as the members of a message.
func (c *choice) writeMessage(out *dialect.Completion) {
	out.Role()
	if len(c.text) == 0 && (c.calls > 0 || c.refused()) {
		out.NoContent()
	} else {
		out.Content(c.text)
	}
	out.Name("refusal")
	if c.refused() {
		c.writeRefusal(out)
	} else {
		out.Literal("null")
	}
	c.writeExtras(out)
}

// refused reports whether everything was withheld.
func (c *choice) refused() bool { return c.finish == "content_filter" && !c.filled }

func (c *choice) writeRefusal(out *dialect.Completion) {
	out.Plain("The backend withheld the answer: " + c.reason + ".")
}

// writeExtras writes what a candidate has besides text.
func (c *choice) writeExtras(out *dialect.Completion) {
	out.Thinking(c.reasoning)
	out.List("tool_calls", c.toolCalls.Out)
	out.List("images", c.images.Out)
	if len(c.signature) > 0 {
		writeSignature(&out.Writer, c.signature)
	}
}

// tokens reads the probabilities of the tokens of a candidate.
func (a *partialAnswer) tokens(choice *choice, result jsonscan.Value) error {
	a.inner.AllowDuplicateKeys = true
	if err := a.inner.Parse(result.Raw()); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	tops := a.inner.Root().Get("topCandidates").First()
	for chosen := a.inner.Root().Get("chosenCandidates").First(); chosen.Kind() != jsonscan.Absent; chosen = chosen.Next() {
		w := &choice.logprobs
		beginToken(w, chosen)
		w.Name("top_logprobs")
		w.Array()
		if list := tops.Get("candidates"); list.Kind() == jsonscan.Array {
			doc := jsonscan.Document{AllowDuplicateKeys: true}
			if err := doc.Parse(list.Raw()); err != nil {
				return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
			}
			for one := doc.Root().First(); one.Kind() != jsonscan.Absent; one = one.Next() {
				beginToken(w, one)
				w.EndObject()
			}
		}
		w.Close("]}")
		tops = tops.Next()
	}
	return nil
}

// beginToken writes a token and its probability, and leaves the object open.
func beginToken(w *jsonwrite.Writer, token jsonscan.Value) {
	w.Object()
	w.Name("token")
	w.Escaped(dialect.RawText(token.Get("token")))
	w.Name("logprob")
	if v := token.Get("logProbability"); v.Kind() == jsonscan.Number {
		w.Raw(v.Raw())
	} else {
		w.Int(0) // what is zero is left out
	}
	w.Name("bytes")
	w.Literal("null")
}

// tokenCounts is the last report of an answer; a stream repeats it with running
// totals.
type tokenCounts struct{ dialect.Usage }

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
	u.Usage = dialect.Usage{
		Usage:  schema.Usage{Prompt: prompt, Completion: completion, Total: total, Known: true},
		Cached: cached, Reasoning: thoughts,
	}
}
