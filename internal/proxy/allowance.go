package proxy

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/allowance"
	"github.com/patchbay-ai/patchbay/internal/prices"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// allowed is what a request took from the limits of its key and its tenant.
type allowed struct {
	use allowance.Use
	// counted says that what the request uses matters to a limit or has a price. Then
	// prompt is the estimate of the tokens that it sends, answer that of those that it was
	// sent, and things what it asks for that is not counted in tokens.
	counted bool
	prompt  int64
	answer  textMeter
	things  prices.Quantity
}

// take counts the request in the limits of its key and its tenant, or in none if one of
// them is reached.
func (a *allowed) take(r *request, price *prices.Price, now time.Time) error {
	grant := r.caller.Grant
	if a.counted = grant.CountsTokens() || price != nil; a.counted {
		a.prompt = r.req.EstimatePrompt()
		a.things.Images, a.things.Characters = r.req.AskedThings()
	}
	if grant == nil {
		return nil
	}
	var reserved int64
	if grant.CountsTokens() {
		answer, said := r.req.MostAnswered()
		if !said {
			answer = grant.ReserveTokens
		}
		reserved = a.prompt + answer
	}
	if refusal := a.use.Take(grant.Accounts, reserved, now); refusal != nil {
		return keyLimited(refusal)
	}
	return nil
}

// tokens returns what the request used: what the backend reported, or else an estimate
// of what was sent both ways. A request that no backend answered used nothing, unless
// the client did not wait for the answer.
func (a *allowed) tokens(usage schema.Usage, answered bool) int64 {
	if usage.Known {
		return usage.Total
	}
	if !answered {
		return 0
	}
	return a.prompt + a.answer.tokens()
}

// cost returns what the request cost, by what the backend reported or else by estimates.
func (a *allowed) cost(price *prices.Price, usage schema.Usage, answered bool) prices.Amount {
	if price == nil || !answered {
		return 0
	}
	used := a.things
	used.Prompt, used.Cached, used.Completion, used.Seconds = usage.Prompt, usage.Cached, usage.Completion, usage.Seconds
	if !usage.Known {
		used.Prompt, used.Completion = a.prompt, a.answer.tokens()
	}
	return price.Cost(used)
}

// keyLimited says that a limit of a key or a tenant is reached.
func keyLimited(r *allowance.Refusal) *schema.Error {
	kind, name, _ := strings.Cut(r.Account.Name, "/")
	whose := "this API key"
	if kind == "tenant" {
		whose = "the tenant " + name
	}
	what := "requests at a time"
	switch r.Unit {
	case allowance.Requests:
		what = "requests a minute"
	case allowance.Tokens:
		what = "tokens a minute"
	}
	message := fmt.Sprintf("The limit of %s, %d %s, is reached; try again in %s.", whose, r.State.Limit, what, r.State.RetryAfter.Round(time.Millisecond))
	known := schema.NewError(schema.CodeKeyRateLimited, message)
	known.RetryAfter, known.Spread = max(r.State.RetryAfter, time.Millisecond), true
	return known
}

// textMeter estimates the tokens of an answer from the JSON texts that a client is sent:
// those that hold what a model wrote.
type textMeter struct {
	texts int // how many there were
	bytes int
}

// textNames are the members that hold what a model wrote, in all forms of answers.
var textNames = [...]string{"content", "text", "arguments", "partial_json", "thinking", "delta"}

// add adds a part of an answer.
func (m *textMeter) add(part []byte) {
	for {
		at := bytes.Index(part, []byte(`":`))
		if at < 0 {
			return
		}
		name := part[:at]
		part = bytes.TrimLeft(part[at+2:], " ")
		if len(part) == 0 || part[0] != '"' || !endsWithName(name) {
			continue
		}
		length := textEnd(part[1:])
		if length > 0 {
			m.texts++
			m.bytes += length
		}
		part = part[1+length:]
	}
}

func endsWithName(text []byte) bool {
	for _, name := range textNames {
		if bytes.HasSuffix(text, []byte(name)) { // also reasoning_content and the like
			return true
		}
	}
	return false
}

// textEnd returns the length of a JSON text without its quotes.
func textEnd(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

// tokens is at least one for each text: streams have about one token in each event.
func (m *textMeter) tokens() int64 { return max(int64(m.texts), schema.EstimateText(m.bytes)) }
