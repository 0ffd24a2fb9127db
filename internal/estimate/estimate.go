// Package estimate decides what a request may use before anybody knows what it does use:
// the tokens of its prompt, the most that the answer may have, and what is counted in
// other things than tokens. It also tells how long an answer was whose backend reports
// nothing.
//
// Everything is read from the request as the client wrote it, because requests are
// translated only after they were let in.
package estimate

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/prices"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

const (
	// mostTokens is more than any model answers.
	mostTokens = 10_000_000
	// mostInAll bounds products of what callers write.
	mostInAll = 1_000_000_000_000
	// mostImages is more than any backend makes for a request.
	mostImages = 1000
	// assumedSound is how many seconds a sound that is to be transcribed is taken to have
	// until the backend reports its length, or for good if it does not.
	assumedSound = 60
	// leastThinking is what backends of Anthropic's get for thinking at least, where a
	// request asks for an effort and leaves no room for it.
	leastThinking = 1024
)

// Use is what a request may use.
type Use struct {
	// Quantity has the estimate of the prompt's tokens, and the most of everything else.
	prices.Quantity
	// Echoed are the tokens of the prompt that the text of the answer repeats.
	Echoed int64
}

// Tokens returns how many tokens the request may use.
func (u *Use) Tokens() int64 { return u.Prompt + u.Completion }

// Most returns the most that a request may use. The recalled texts are parts of the
// conversation, as JSON, that the gateway adds to the request. An answer for which the
// request sets no limit counts as one of so many tokens as unbounded says.
func Most(req *schema.Request, recalled [][]byte, unbounded int64) Use {
	if req.Form != nil {
		return mostOfForm(req, unbounded)
	}
	root := req.Body.Root()
	if req.Source != nil {
		root = req.Source.Body.Root()
	}
	var use Use
	use.Prompt = tokensOf(promptLength(req.Door, root, recalled))
	switch req.Service {
	case schema.Chat:
		if req.Door != schema.DoorModerations {
			use.addAnswers(req, root, unbounded)
		}
	case schema.TTS:
		use.Completion = unbounded
		use.Characters = int64(utf8.RuneCount(req.Field("input").Text()))
	case schema.ImgGen:
		n, _ := wholeNumber(req.Field("n"))
		use.addImages(n, unbounded)
	}
	return use
}

func mostOfForm(req *schema.Request, unbounded int64) (use Use) {
	prompt, _ := req.Form.Value("prompt")
	use.Prompt = tokensOf(len(prompt))
	if req.Service == schema.STT {
		use.Completion, use.Seconds = unbounded, assumedSound
		return use
	}
	text, _ := req.Form.Value("n")
	n, _ := strconv.ParseInt(text, 10, 64)
	use.addImages(n, unbounded)
	return use
}

// addImages adds images, whose tokens nobody bounds.
func (u *Use) addImages(n, unbounded int64) {
	u.Images = min(max(n, 1), mostImages)
	u.Completion = u.Images * unbounded
}

// IsCountedInTokens tells whether what is sent through a door, and what comes back, counts
// as tokens where the backend reports none. Speech, transcripts and images are counted in
// other things, and use tokens only where a backend says so.
func IsCountedInTokens(door schema.Door) bool {
	switch door.Service() {
	case schema.Chat, schema.Embedding, schema.Rerank:
		return true
	}
	return false
}

// addAnswers adds the most that the answers to a request may have.
func (u *Use) addAnswers(req *schema.Request, root jsonscan.Value, unbounded int64) {
	l := limits{unbounded: unbounded, zeroIsNone: req.Door == schema.DoorMessages}
	l.readAll(root)
	answers := l.choices()
	if req.Door == schema.DoorCompletions {
		answers = product(answers, int64(req.Prompts()))
		if req.Field("echo").Kind() == jsonscan.True {
			u.Echoed = product(u.Prompt, max(l.n, 1))
		}
	}
	u.Completion = product(l.answer(), answers)
}

// limits are what a request says about the length and the number of its answers. Where it
// says several things, the one that allows most counts, because it depends on the backend
// which one that obeys.
type limits struct {
	unbounded  int64
	zeroIsNone bool // 0 asks for no answer; elsewhere it means no limit

	given   bool
	tokens  int64
	thinks  bool
	n, best int64
}

// The members of a request that limit its answers, in the words of all APIs. The first
// ones are numbers of tokens.
const (
	maxTokens = iota
	maxCompletionTokens
	maxOutputTokens
	maxOutputTokensCamel
	maxNewTokens
	nPredict
	numPredict
	numberOfAnswers
	candidateCount
	candidateCountCamel
	bestOf
	effort
	reasoning
	extraBody
	options
	generationConfig
	generationConfigCamel

	limitCount
)

var limitNames = jsonscan.NewNames(
	"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "max_new_tokens", "n_predict", "num_predict",
	"n", "candidate_count", "candidateCount", "best_of", "reasoning_effort", "reasoning",
	"extra_body", "options", "generation_config", "generationConfig",
)

type limitValues [limitCount]jsonscan.Value

// readAll reads the limits of a request. The members of extra_body count as if they stood
// beside it, unless the caller gave them there as well.
func (l *limits) readAll(root jsonscan.Value) {
	var found limitValues
	root.Find(limitNames, found[:])
	if extra := found[extraBody]; extra.Given() {
		var more limitValues
		extra.Find(limitNames, more[:])
		for i, v := range more {
			if !found[i].Given() {
				found[i] = v
			}
		}
	}
	l.read(&found)
	for _, inner := range [...]jsonscan.Value{found[options], found[generationConfig], found[generationConfigCamel]} {
		if inner.Given() {
			var own limitValues
			inner.Find(limitNames, own[:])
			l.read(&own)
		}
	}
}

func (l *limits) read(found *limitValues) {
	for _, v := range found[maxTokens : numPredict+1] {
		if v.Given() {
			l.limit(v)
		}
	}
	for _, v := range found[numberOfAnswers : candidateCountCamel+1] {
		n, _ := wholeNumber(v)
		l.n = max(l.n, n)
	}
	best, _ := wholeNumber(found[bestOf])
	l.best = max(l.best, best)
	for _, v := range [...]jsonscan.Value{found[effort], found[reasoning].Get("effort")} {
		l.thinks = l.thinks || v.Given() && string(v.Text()) != "none"
	}
}

// limit notes a number of tokens. One that is negative, zero or no number means that
// there is no limit.
func (l *limits) limit(v jsonscan.Value) {
	n, ok := wholeNumber(v)
	if !ok || n < 0 || n == 0 && !l.zeroIsNone {
		n = l.unbounded
	}
	l.given, l.tokens = true, max(l.tokens, n)
}

// answer returns how many tokens one answer may have.
func (l *limits) answer() int64 {
	if !l.given {
		return l.unbounded
	}
	tokens := min(l.tokens, mostTokens)
	if l.thinks && tokens <= leastThinking {
		tokens += leastThinking
	}
	return tokens
}

// choices returns how many answers are made for each prompt.
func (l *limits) choices() int64 { return max(l.n, l.best, 1) }

// wholeNumber reads a number, also one that is written as a text: some backends read it.
// It returns false for anything else.
func wholeNumber(v jsonscan.Value) (int64, bool) {
	switch v.Kind() {
	case jsonscan.Number:
		return v.Int()
	case jsonscan.String:
		n, err := strconv.ParseInt(string(v.Text()), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// product multiplies numbers that are not negative, up to a bound.
func product(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return mostInAll
	}
	return min(a*b, mostInAll)
}
