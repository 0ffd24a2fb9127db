package estimate

import (
	"bytes"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	// mostPerToken is more bytes of text than a token has on average in any prompt, and mostRepeated
	// how many equal characters count as one: tokenizers have tokens for long runs of one character.
	mostPerToken = 16
	mostRepeated = 8
)

// Prompt is the length in tokens of what a model reads at a time.
type Prompt struct {
	// Least is a lower bound, and Likely an estimate.
	Least, Likely int64
}

// MayExceed reports, from the length of the body alone, whether the prompt of a request may be longer
// than a window. Without isLoose only a prompt that is certainly longer counts.
func MayExceed(req *schema.Request, recalled [][]byte, window int64, isLoose bool) bool {
	if req.Form != nil {
		return false
	}
	length := len(req.Body.Root().Raw())
	for _, items := range recalled {
		length += len(items)
	}
	per := mostPerToken
	if isLoose {
		per = bytesPerToken - 1
	}
	return int64(length/per)+req.Remembered >= window
}

// PromptOf measures the prompt of a request, and the recalled texts, which are parts of the
// conversation as JSON. Of a list of texts that are read one by one it measures the longest. It
// returns false for requests without a prompt that a window limits, and for those that ask for
// truncation. The lower bound costs more than the estimate, and is 0 if it is not wanted.
func PromptOf(req *schema.Request, recalled [][]byte, withLeast bool) (p Prompt, isLimited bool) {
	root := req.Body.Root()
	switch {
	case req.Form != nil, req.Uncounted, req.Door == schema.DoorCompact, req.Door == schema.DoorModerations,
		!IsCountedInTokens(req.Door), asksForTruncation(root), asksForTruncation(root.Get("extra_body")):
		return p, false
	}
	areAlone := req.Service != schema.Chat || req.Door == schema.DoorCompletions
	var least, likely int
	for m := range root.All() {
		name := string(m.Key())
		if !promptMembers[name] {
			continue
		}
		if !areAlone || name == "messages" {
			if withLeast {
				least += walk(m.Raw(), false, leastOf)
			}
			likely += memberLength(m)
			continue
		}
		for _, text := range alone(m) {
			least, likely = max(least, leastOfTokens(text)), max(likely, walk(text, false, lengthOf))
		}
	}
	if req.Service == schema.Chat && !areAlone {
		for _, name := range [...]string{"tools", "functions"} {
			likely += walk(root.Get(name).Raw(), true, lengthOf)
		}
	}
	for _, items := range recalled {
		if withLeast {
			least += walk(items, false, leastOf)
		}
		likely += walk(items, false, lengthOf)
	}
	p = Prompt{int64(least/mostPerToken) + req.Remembered, TokensOf(likely) + req.Remembered}
	p.Likely = max(p.Likely, p.Least)
	return p, true
}

// promptMembers are the members of requests that models read whole. Of tools, reasoning and whatever
// else a template may leave out the lower bound has nothing.
var promptMembers = map[string]bool{
	"messages": true, "prompt": true, "system": true, "input": true, "instructions": true, "contents": true,
	"systemInstruction": true, "system_instruction": true, "query": true, "queries": true, "documents": true,
	"texts": true, "text_1": true, "text_2": true, "content": true, "requests": true,
}

// asksForTruncation reports whether the backend is asked to shorten the prompt.
func asksForTruncation(root jsonscan.Value) bool {
	truncate := root.Get("truncate")
	return root.Get("truncate_prompt_tokens").Given() || root.Is("truncation", "auto") ||
		truncate.Kind() == jsonscan.True || truncate.Kind() == jsonscan.String && string(truncate.Text()) != "NONE"
}

// alone returns the texts of a member that are read one by one: the elements of a list, but for a list
// of the ids of tokens.
func alone(m jsonscan.Value) [][]byte {
	if m.Kind() != jsonscan.Array || m.First().Kind() == jsonscan.Number {
		return [][]byte{m.Raw()}
	}
	var all [][]byte
	for _, element := range m.Elements() {
		all = append(all, element.Raw())
	}
	return all
}

// leastOfTokens is the length of a text, or that of the ids of tokens, whose number is exact.
func leastOfTokens(raw []byte) int {
	if isTokens(raw) {
		return mostPerToken * (bytes.Count(raw, []byte{','}) + 1)
	}
	return walk(raw, false, leastOf)
}

// readMembers are the members whose texts every model reads. Others may be media, proofs or reports that
// clients send back, which a lower bound leaves out.
var readMembers = map[string]bool{
	"": true, "content": true, "text": true, "input": true, "prompt": true, "suffix": true, "instructions": true,
	"system": true, "arguments": true, "output": true, "query": true, "queries": true, "documents": true,
	"texts": true, "text_1": true, "text_2": true, "description": true, "input_prefix": true, "input_suffix": true,
}

// leastOf returns the least length that the text of a member, with its escapes, may count as.
func leastOf(name string, text []byte) (length int) {
	if !readMembers[name] || IsFile(name, text) {
		return 0
	}
	run, last := 0, byte(0)
	before := text[:0] // the character before, if it is none of ASCII
	for len(text) > 0 {
		if c := text[0]; c != '\\' && c < utf8.RuneSelf {
			if c != last {
				run, last, before = 0, c, nil
			}
			if run%mostRepeated == 0 {
				length++
			}
			run++
			text = text[1:]
			continue
		}
		var size int
		counts := 1
		switch {
		case text[0] == '\\' && len(text) > 5 && text[1] == 'u':
			size = 6
		case text[0] == '\\':
			size = min(2, len(text))
		default:
			_, size = utf8.DecodeRune(text)
			counts = size
		}
		if !bytes.Equal(before, text[:size]) {
			run, last = 0, 0
		}
		if run%mostRepeated == 0 {
			length += counts
		}
		run++
		before, text = text[:size], text[size:]
	}
	return length
}

// Words returns the texts of the prompt as a text of JSON without its quotes, to count its tokens: a
// little less than a model reads.
func Words(req *schema.Request) []byte {
	var words []byte
	for m := range req.Body.Root().All() {
		if promptMembers[string(m.Key())] {
			walk(m.Raw(), false, func(name string, text []byte) int {
				if leastOf(name, text) > 0 {
					words = append(append(words, text...), ' ')
				}
				return 0
			})
		}
	}
	return words
}
