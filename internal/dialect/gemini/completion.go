package gemini

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// decode reads a whole answer.
func decode(_ *schema.Request, body []byte, doc *jsonscan.Document, to *chat.Answer) error {
	a := partialAnswer{to: to}
	if err := a.take(doc, body); err != nil {
		return err
	}
	for i := range a.candidates {
		if c := &a.candidates[i]; c.finish == "" && c.filled && a.blocked == "" {
			c.finish = chat.Stop // a plain answer is whole, whatever it says of it
		}
	}
	if err := a.settle(dialect.Invalid("no candidates")); err != nil {
		return err
	}
	to.Usage = a.usage.Usage
	for i := range a.candidates {
		c := &a.candidates[i]
		choice := a.choice(c.index)
		choice.Finish = c.finishReason()
		if c.refused() {
			choice.Refusal = c.refusal()
		}
	}
	return nil
}

// settle checks a complete answer and returns its error, if any. missing is the
// error for a candidate that did not end.
func (a *partialAnswer) settle(missing error) error {
	if a.blocked != "" {
		if len(a.candidates) == 0 {
			a.candidate(0)
		}
		for i := range a.candidates {
			if c := &a.candidates[i]; c.finish == "" {
				c.finish, c.reason = chat.ContentFilter, a.blocked
			}
		}
	}
	if len(a.candidates) == 0 {
		return missing
	}
	empty := true
	for i := range a.candidates {
		c := &a.candidates[i]
		if c.finish == "" {
			return missing
		}
		empty = empty && !c.filled && c.finish == chat.Stop
	}
	if empty {
		return dialect.ErrEmpty
	}
	return nil
}

// refused reports whether everything was withheld.
func (c *candidate) refused() bool { return c.finish == chat.ContentFilter && !c.filled }

func (c *candidate) refusal() []byte {
	return []byte("The backend withheld the answer: " + c.reason + ".")
}

// tokens reads the probabilities of the tokens of a candidate.
func (a *partialAnswer) tokens(choice *chat.Choice, result jsonscan.Value) error {
	a.inner.Rescan(result)
	tops := a.inner.Root().Get("topCandidates").First()
	for chosen := range a.inner.Root().Get("chosenCandidates").All() {
		w := jsonwrite.Writer{Out: choice.Logprobs}
		if len(w.Out) > 0 {
			w.Out = append(w.Out, ',')
		}
		beginToken(&w, chosen)
		w.Name("top_logprobs").Array()
		if list := tops.Get("candidates"); list.Kind() == jsonscan.Array {
			var doc jsonscan.Document
			if _, err := dialect.Parse(&doc, list.Raw()); err != nil {
				return err
			}
			for one := range doc.Root().All() {
				beginToken(&w, one)
				w.EndObject()
			}
		}
		w.Close("]}")
		choice.Logprobs = w.Out
		tops = tops.Next()
	}
	return nil
}

// beginToken writes a token and its probability, and leaves the object open.
func beginToken(w *jsonwrite.Writer, token jsonscan.Value) {
	w.Open(`{"token":`).Escaped(chat.TextIn(token, "token"))
	w.Name("logprob")
	if v := token.Get("logProbability"); v.Kind() == jsonscan.Number {
		w.Raw(v.Raw())
	} else {
		w.Int(0) // zeros are left out
	}
	w.Name("bytes").Literal("null")
}

// tokenCounts is the last report of an answer; a stream repeats it with running
// totals.
type tokenCounts struct{ chat.Usage }

// ReadUsage reads a report of tokens.
func ReadUsage(v jsonscan.Value) chat.Usage {
	var u tokenCounts
	u.read(v)
	return u.Usage
}

func (u *tokenCounts) read(v jsonscan.Value) {
	if v.Kind() != jsonscan.Object || v.Empty() {
		return
	}
	var prompt, answer, thoughts, total, cached, tools int64
	counted, cachedTold, sane := false, false, true
	count := func(n *int64, m jsonscan.Value) {
		var ok bool
		*n, ok = dialect.TokenCount(m)
		sane = sane && ok
	}
	for m := range v.All() {
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
			cachedTold = m.Given()
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
	case !counted && prompt > 0 && total > prompt+thoughts:
		completion = total - prompt
	}
	u.Usage = chat.Usage{
		Tokens: schema.Usage{
			Prompt: prompt, Completion: completion, Total: total,
			Cached: cached, IsCachedTold: cachedTold, Known: true,
		},
		Cached: cached, Reasoning: thoughts,
	}
}
