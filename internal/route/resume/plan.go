package resume

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// How is how an answer goes on.
type How uint8

// The ways to go on with an answer.
const (
	// Restarted means that a model has made nothing of the answer. It begins anew.
	Restarted How = iota
	// Continued means that the model goes on with the text that was sent.
	Continued
	// Aligned means that the answer is made again, and the sent part is left out.
	Aligned
	// HowCount is how many ways there are.
	HowCount
)

// String returns the word for it in metrics and records.
func (h How) String() string { return [...]string{"restarted", "continued", "aligned"}[h] }

// Break is a stream that broke off: the client's request, and the part of the answer
// that was sent.
type Break struct {
	sent *chat.Transcript
	// told is the usage that the first backend has reported.
	told schema.Usage
	text string
	wishes
}

// wishes are the parts of a request that matter when its answer goes on.
type wishes struct {
	isDeterministic, mayContinue, isText bool
	limit                                int64 // of tokens, 0 for none
	stops                                [][]byte
}

// Read returns how the answer to a request can go on after the sent part, given the
// usage that its backend has reported so far. Its reason is empty if there is a way.
func Read(req *schema.Request, sent *chat.Transcript, told schema.Usage) (b *Break, reason string) {
	if sent.Bar != "" {
		return nil, sent.Bar
	}
	b = &Break{sent: sent, told: told, text: string(sent.Text)}
	if reason = b.read(req); reason != "" {
		return b, reason
	}
	switch isCut := sent.IsCut(); {
	case isCut && !b.isDeterministic:
		reason = "its last character was cut"
	case isCut:
		b.mayContinue = false
	case !b.mayContinue && !b.isDeterministic:
		reason = "the request is not deterministic, and asks for what cannot be continued"
	}
	return b, reason
}

// constraints are the members of requests that prescribe the form of the answer to
// engines.
var constraints = [...]string{
	"guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
	"grammar", "json_schema", "format", "regex", "ebnf",
}

// read reads the parts of the request that matter. It returns why the answer cannot go
// on, if it cannot.
func (w *wishes) read(req *schema.Request) (reason string) {
	req.Continue(nil, 0) //nolint:errcheck // an empty beginning has no faults
	s := req.Settings()
	if req.Door != schema.DoorCompletions {
		asked, err := req.Chat()
		if err != nil {
			return "the request can only be passed on"
		}
		n := len(asked.Messages)
		w.mayContinue = n > 0 && asked.Messages[n-1].Role != chat.Assistant
	} else {
		w.isText, w.mayContinue = true, true
		if req.Prompts() != 1 || req.Field("echo").Kind() == jsonscan.True ||
			req.Field("suffix").Given() || req.Field("best_of").Given() {
			return "the request asks for more than the rest of a text"
		}
	}
	if dialect.WantedChoices(req) != 1 {
		return "the request asks for several answers"
	}
	if asksFor(s.Other("logprobs")) || asksFor(s.Other("top_logprobs")) ||
		s.Logprobs != nil && string(s.Logprobs) != "false" {
		return "the request asks for probabilities"
	}
	if s.Format.Given && s.Format.Type != "text" {
		w.mayContinue = false
	}
	for _, name := range constraints {
		w.mayContinue = w.mayContinue && !s.Other(name).Given()
	}
	if temperature, given := s.Temperature.Float(); given && temperature == 0 || s.Seed.Given() {
		w.isDeterministic = true
	}
	w.limit, _ = s.MaxTokens.Int()
	w.readStops(s.Stop)
	return ""
}

// asksFor reports whether a member asks for something.
func asksFor(v jsonscan.Value) bool { return v.Given() && v.Kind() != jsonscan.False }

// readStops reads the stop sequences.
func (w *wishes) readStops(stop jsonscan.Value) {
	if stop.Kind() == jsonscan.String {
		w.stops = append(w.stops, bytes.Clone(stop.Text()))
		return
	}
	for v := stop.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		if text := v.Text(); len(text) > 0 {
			w.stops = append(w.stops, bytes.Clone(text))
		}
	}
}

// Plan is how an answer goes on at one instance.
type Plan struct {
	How How
	// Text is the beginning of the answer that the model gets, and Most the limit of tokens
	// for the rest; 0 means no limit in the request.
	Text []byte
	Most int64
	// Sent is how many tokens of the answer were sent.
	Sent int64

	broken *Break
	// blank is the white space at the end of the sent text, which is not part of Text:
	// templates of models cut it off, and some providers refuse it. The model may write it
	// again.
	blank []byte
	// isFull says that the answer has all the tokens that it may have. Only its end is
	// missing.
	isFull bool
}

// For returns the plan for an instance that can go on with a text, or cannot. It returns
// false if the answer cannot go on there.
func (b *Break) For(canContinue bool) (Plan, bool) {
	p := Plan{broken: b, Sent: max(b.sent.Tokens(), b.told.Completion)}
	text := b.given()
	switch {
	case canContinue && b.mayContinue && len(text) > 0:
		p.How, p.Text, p.blank = Continued, text, []byte(b.text[len(text):])
		if b.limit > 0 {
			p.Most, p.isFull = max(b.limit-p.Sent, 1), p.Sent >= b.limit
		}
	case b.isDeterministic:
		p.How = Aligned
	default:
		return Plan{}, false
	}
	return p, true
}

// Begun returns the text that a model is to go on with, as a JSON string has it; nil where
// the answer can only be made again.
func (b *Break) Begun() []byte {
	if !b.mayContinue {
		return nil
	}
	return chat.Escape(b.given())
}

// given returns the part of the sent text that a model gets to go on with.
func (b *Break) given() []byte {
	text := []byte(b.text)
	if !b.isText {
		text = bytes.TrimRightFunc(text, unicode.IsSpace)
	}
	return text
}

// rests returns the missing part of each stop sequence that may have begun at the end of the
// sent text.
func (b *Break) rests() (rests [][]byte) {
	for _, stop := range b.stops {
		for k := min(len(stop)-1, len(b.text)); k > 0; k-- {
			if b.text[len(b.text)-k:] == string(stop[:k]) {
				rests = append(rests, stop[k:])
			}
		}
	}
	return rests
}

// commonPrefix returns the length of the longest common beginning of two texts, in
// whole characters.
func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) {
		r, size := utf8.DecodeRune(a[n:])
		if other, _ := utf8.DecodeRune(b[n:]); other != r {
			break
		}
		n += size
	}
	return n
}
