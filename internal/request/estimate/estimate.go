// Package estimate estimates the use of a request before anybody knows it: the tokens of
// its prompt, the most that the answer may have, and the things that are not counted in
// tokens. It also estimates the length of an answer if the backend reports nothing.
//
// Everything is read from the request as the client wrote it, because requests are
// translated only after they were let in.
package estimate

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	// mostTokens is more than any model answers.
	mostTokens = 10_000_000
	// mostInAll bounds products of numbers that callers write.
	mostInAll = 1_000_000_000_000
	// mostImages is more than any backend makes for a request.
	mostImages = 1000
	// assumedSound is how many seconds a sound that is to be transcribed is taken to have
	// until the backend reports its length, or for good if it does not.
	assumedSound = 60
	// leastThinking is the least number of tokens for thinking that backends of
	// Anthropic's get, where a request asks for an effort and leaves no room for it.
	leastThinking = 1024
	// Endless is how many tokens an answer is taken to have that neither its model nor a limit
	// ends: the context of many models.
	Endless = 128 << 10
)

// Use is the possible use of a request.
type Use struct {
	// Quantity has the estimate of the prompt's tokens, and the most of everything else.
	prices.Quantity
	// Echoed are the tokens of the prompt that the text of the answer repeats.
	Echoed int64
	// IsOpen means that the request sets no limit for the tokens of its answer.
	IsOpen bool
}

// Tokens returns how many tokens the request may use.
func (u *Use) Tokens() int64 { return u.Prompt + u.Completion }

// Most returns the most that a request may use. The recalled texts are parts of the
// conversation, as JSON, that the gateway adds to the request. An answer without a
// limit in the request counts as one of so many tokens as unbounded says.
func Most(req *schema.Request, recalled [][]byte, unbounded int64) Use {
	if req.Form != nil {
		return mostOfForm(req, unbounded)
	}
	root := req.Body.Root()
	var use Use
	use.Prompt = TokensOf(promptLength(req.Door, root, recalled)) + req.Remembered
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
	use.Prompt = TokensOf(len(prompt))
	if req.Service == schema.STT {
		use.Completion, use.Seconds = unbounded, assumedSound
		return use
	}
	text, _ := req.Form.Value("n")
	n, _ := strconv.ParseInt(text, 10, 64)
	use.addImages(n, unbounded)
	return use
}

// addImages adds images; nobody bounds their tokens.
func (u *Use) addImages(n, unbounded int64) {
	u.Images = min(max(n, 1), mostImages)
	u.Completion = u.Images * unbounded
}

// IsCountedInTokens reports whether requests and answers of a door count as tokens where
// the backend reports none. Speech, transcripts and images are counted in other things,
// and use tokens only where a backend says so.
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
	u.Completion, u.IsOpen = product(l.answer(), answers), !l.given || l.isOpen
}

// limits holds a request's bounds on the length and the number of its answers. Where it
// has several, the one that allows most counts, because it depends on the backend which
// one it obeys.
type limits struct {
	unbounded  int64
	zeroIsNone bool // 0 asks for no answer; elsewhere it means no limit

	given   bool
	isOpen  bool // a limit is given that means none
	tokens  int64
	least   int64 // the answer does not end before
	goesOn  bool  // its end is ignored
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
	maxResponseOutputTokens
	maxNewTokens
	nPredict
	numPredict
	minTokens
	minNewTokens
	ignoreEnd
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
	"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "max_response_output_tokens",
	"max_new_tokens", "n_predict", "num_predict",
	"min_tokens", "min_new_tokens", "ignore_eos", "n", "candidate_count", "candidateCount", "best_of",
	"reasoning_effort", "reasoning",
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
	l.goesOn = l.goesOn || isTrue(found[ignoreEnd])
	for _, v := range found[maxTokens : numPredict+1] {
		if v.Given() {
			l.limit(v)
		}
	}
	for _, v := range found[minTokens : minNewTokens+1] {
		least, _ := wholeNumber(v)
		l.least = max(l.least, least)
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
	l.given = true
	if !ok || n < 0 || n == 0 && !l.zeroIsNone {
		l.isOpen = true
		return
	}
	l.tokens = max(l.tokens, n)
}

// open returns how many tokens an answer counts for that has no limit.
func (l *limits) open() int64 {
	if l.goesOn {
		return max(l.unbounded, Endless)
	}
	return l.unbounded
}

// answer returns how many tokens one answer may have.
func (l *limits) answer() int64 {
	if !l.given {
		return max(l.open(), min(l.least, mostTokens))
	}
	tokens := max(l.tokens, l.least)
	if l.isOpen {
		tokens = max(tokens, l.open())
	}
	tokens = min(tokens, mostTokens)
	if l.thinks && tokens <= leastThinking {
		tokens += leastThinking
	}
	return tokens
}

// isTrue reports whether a value is true, also one that is written as a text or a number.
func isTrue(v jsonscan.Value) bool {
	switch v.Kind() {
	case jsonscan.True:
		return true
	case jsonscan.Number:
		n, _ := v.Float()
		return n != 0
	case jsonscan.String:
		yes, _ := strconv.ParseBool(string(v.Text()))
		return yes
	}
	return false
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

const (
	// bytesPerToken is how many bytes of text a token has, on average over languages.
	bytesPerToken = 4
	// tokensPerMessage is the size of the frame of a message.
	tokensPerMessage = 4
	// tokensPerFile is assumed for an image or a sound within a message.
	tokensPerFile = 800
)

// A part that is no text counts like a text of so many bytes.
const (
	MessageLength = tokensPerMessage * bytesPerToken // the frame of a message, with its role
	FileLength    = tokensPerFile * bytesPerToken    // an image, a sound or a document
	TokenLength   = bytesPerToken                    // a token that is given by its id
)

// TokensOf estimates the tokens of a text from its length in bytes.
func TokensOf(length int) int64 { return int64((length + bytesPerToken - 1) / bytesPerToken) }

// promptLength returns the length in bytes of the prompt: of all texts in the body that
// are not known to be settings, and of the texts that the gateway recalls. So a member
// that is new to an API, or that only one backend knows, is not free.
func promptLength(door schema.Door, root jsonscan.Value, recalled [][]byte) int {
	length := membersLength(root)
	switch door {
	case schema.DoorRerank:
		length += repeatedLength(root.Get("query"), root.Get("documents"))
	case schema.DoorScore:
		length += repeatedLength(root.Get("text_1"), root.Get("text_2"))
		length += repeatedLength(root.Get("data_1"), root.Get("data_2"))
		length += repeatedLength(root.Get("queries"), root.Get("documents")) + repeatedLength(root.Get("queries"),
			root.Get("items"))
	}
	for _, items := range recalled {
		length += Length(items, false)
	}
	return length
}

// repeatedLength returns how much more of a query is read than is sent: it is read once with
// each document. Of several queries each has a document of its own.
func repeatedLength(query, documents jsonscan.Value) int {
	if query.Kind() == jsonscan.Array && query.First().Next().Kind() != jsonscan.Absent {
		return 0
	}
	n := documents.Len()
	return max(n-1, 0) * Length(query.Raw(), false)
}

// membersLength adds up the texts of a body.
func membersLength(object jsonscan.Value) (length int) {
	for m := range object.All() {
		switch m.Kind() {
		case jsonscan.String, jsonscan.Array, jsonscan.Object:
			length += memberLength(m)
		}
	}
	return length
}

func memberLength(m jsonscan.Value) int {
	switch string(m.Key()) {
	case "prompt", "input":
		if raw := m.Raw(); m.Kind() == jsonscan.Array && isTokens(raw) {
			return TokenLength * (bytes.Count(raw, []byte{','}) + 1)
		}
	case "tools", "functions", "text", "output_config", "output_format":
		return Length(m.Raw(), true)
	case "response_format", "format":
		if m.Kind() == jsonscan.Object {
			return Length(m.Raw(), true)
		}
		return 0
	case "extra_body":
		return membersLength(m)
	case "model", "user", "metadata", "stream_options", "stop", "stop_sequences", "tool_choice", "function_call",
		"reasoning", "reasoning_effort", "thinking", "verbosity", "modalities", "audio", "logit_bias", "include",
		"truncation",
		"max_output_tokens", "max_response_output_tokens", "previous_response_id", "service_tier", "safety_identifier",
		"prompt_cache_key", "prompt_cache_retention",
		"encoding_format", "task_type", "voice", "stream_format", "size", "quality", "style", "background", "options",
		"generationConfig", "generation_config", "keep_alive", "toolConfig", "tool_config", "safetySettings",
		"safety_settings", "labels":
		return 0
	}
	return Length(m.Raw(), false)
}

// Length adds up the lengths in bytes of the texts in a value of JSON, whatever its depth, and if
// wanted of the names of members: a model reads the names in a schema. Files count by their number.
// TokensOf makes tokens of it.
func Length(raw []byte, withNames bool) int { return walk(raw, withNames, lengthOf) }

// walk adds up the lengths that a function returns for the texts.
func walk(raw []byte, withNames bool, of func(name string, text []byte) int) (length int) {
	var name []byte // of the next value
	for {
		start := bytes.IndexByte(raw, '"')
		if start < 0 {
			return length
		}
		text := raw[start+1:]
		end := jsonscan.EndOfText(text)
		text, raw = text[:end], bytes.TrimLeft(text[min(end+1, len(text)):], " \t\r\n")
		if len(raw) > 0 && raw[0] == ':' {
			name = text
			if withNames {
				length += len(name)
			}
			continue
		}
		length += of(string(name), text)
		if string(name) != imagesName { // each element there is an image
			name = nil
		}
	}
}

// lengthOf returns the length that the text of a member, or of an element without a
// name, counts as.
func lengthOf(name string, text []byte) int {
	switch {
	case name == "role":
		return max(MessageLength, len(text))
	case name == "type" || name == "format" || name == "media_type":
		if len(text) <= longestKind {
			return 0
		}
	case name == "signature", name == "thoughtSignature":
		if isEncoded(text) {
			return 0
		}
	case IsFile(name, text):
		return FileLength
	}
	return len(text)
}

const (
	// longestKind bounds a text that names the kind of something.
	longestKind = 64
	// longestURLHead bounds the search for the end of a data URL's head, which precedes
	// the content.
	longestURLHead = 128
)

// imagesName is the member of Ollama's API for images, as texts without names of their
// own.
const imagesName = "images"

// IsFile reports whether the text of a member, with its escapes, is a file in base64. A text
// for the model is no file, whatever it begins with.
func IsFile(name string, text []byte) bool {
	switch name {
	case "text", "content":
		return false
	case "data", "file_data", imagesName:
		return isEncoded(text)
	case "audio":
		return len(text) > longestKind && isEncoded(text)
	}
	return bytes.HasPrefix(text, []byte("data:")) &&
		bytes.Contains(text[:min(len(text), longestURLHead)], []byte(";base64,")) && isEncoded(text)
}

// isEncoded reports whether a text may be encoded in base64, and not a written one, such
// as a plain document. Looking for a blank costs little, however long it is.
func isEncoded(text []byte) bool { return bytes.IndexByte(text, ' ') < 0 }

// isTokens reports whether an array has the ids of tokens, or arrays of them, and no texts,
// which some backends read among them.
func isTokens(raw []byte) bool {
	first := bytes.TrimLeft(raw, "[ \t\r\n")
	return len(first) > 0 && first[0] >= '0' && first[0] <= '9' && bytes.IndexByte(raw, '"') < 0
}
