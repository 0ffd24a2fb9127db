package scatter

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Work is the work of a request, input by input.
type Work struct {
	req  *schema.Request
	list jsonscan.Value // the inputs, documents or prompts
	// ends is where each input ends in the body, and starts where it begins.
	starts, ends []int
	// tokens is the work of all inputs up to and including each.
	tokens []int64
}

// Read reads the work of a request. It returns nil if the request cannot be split, or has
// too little work for two.
func Read(req *schema.Request, settings Settings) *Work {
	name := listName(req)
	if name == "" {
		return nil
	}
	// A list in extra_body would count, too, but nobody who sends many inputs writes
	// them there.
	list := req.Body.Root().Get(name)
	if list.Kind() != jsonscan.Array || list.First().Kind() == jsonscan.Number || !hasOwnTop(req) {
		return nil
	}
	least := 2 * settings.leastInputs()
	if start, end := list.Span(); end-start < least {
		return nil // not even empty texts
	}
	w := &Work{req: req, list: list}
	each := eachCosts(req)
	var total int64
	for v := list.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		start, end := v.Span()
		total += each + tokensOf(v)
		w.starts, w.ends, w.tokens = append(w.starts, start), append(w.ends, end), append(w.tokens, total)
	}
	if len(w.ends) < least || total < 2*settings.leastTokens() {
		return nil
	}
	return w
}

// listName returns the name of the list that a request can be split at, empty if it cannot
// be.
func listName(req *schema.Request) string {
	if req.Decode != nil || req.Form != nil || req.Stream {
		return ""
	}
	switch req.Door {
	case schema.DoorEmbeddings:
		return "input"
	case schema.DoorRerank:
		return "documents"
	case schema.DoorCompletions:
		return "prompt"
	}
	return ""
}

// hasOwnTop reports whether the number of results of a rerank is in a place where it
// can be changed.
func hasOwnTop(req *schema.Request) bool {
	return req.Door != schema.DoorRerank || !req.Field(topName).Given() || req.Body.Root().Get(topName).Given()
}

const topName = "top_n"

// Inputs returns how many inputs there are.
func (w *Work) Inputs() int { return len(w.ends) }

// Tokens returns the work of all inputs, in tokens.
func (w *Work) Tokens() int64 { return w.tokens[len(w.tokens)-1] }

// Between returns the work of a piece, in tokens.
func (w *Work) Between(p Piece) int64 { return w.between(p.From, p.To) }

// between returns the work of some of the inputs.
func (w *Work) between(from, to int) int64 {
	tokens := int64(0)
	if to > 0 {
		tokens = w.tokens[to-1]
	}
	if from > 0 {
		tokens -= w.tokens[from-1]
	}
	return tokens
}

const (
	// frameTokens is the cost of any input whatever its length.
	frameTokens = 4
	// usualAnswer is how many tokens a completion has where the request sets no limit, as
	// in OpenAI's API.
	usualAnswer = 16
	// mostAnswer bounds the tokens that one completion counts.
	mostAnswer = 1 << 20
)

// eachCosts returns the tokens that every input costs beside its own: of a rerank those of
// the query, of a completion those of the answer.
func eachCosts(req *schema.Request) int64 {
	switch req.Door {
	case schema.DoorRerank:
		return frameTokens + estimate.TokensOf(len(req.Field("query").Raw()))
	case schema.DoorCompletions:
		answer, ok := req.Field("max_tokens").Int()
		if !ok || answer < 0 {
			answer = usualAnswer
		}
		return frameTokens + min(answer, mostAnswer)
	}
	return frameTokens
}

// tokensOf estimates the tokens of an input: a text, an object with a text, or ids.
func tokensOf(v jsonscan.Value) int64 {
	raw := v.Raw()
	if v.Kind() == jsonscan.Array {
		return int64(bytes.Count(raw, []byte{','}) + 1)
	}
	return estimate.TokensOf(len(raw))
}
