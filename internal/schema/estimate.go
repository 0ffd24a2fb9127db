package schema

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

const (
	// bytesPerToken is how many bytes of text a token has, on average over languages.
	bytesPerToken = 4
	// tokensPerMessage is what the frame of a message takes.
	tokensPerMessage = 4
	// tokensPerFile is assumed for an image or a sound within a message.
	tokensPerFile = 800
)

// EstimatePrompt estimates the tokens of what a request sends, without a tokenizer: from
// the lengths of its texts. It is 0 for the service types that report no tokens.
func (r *Request) EstimatePrompt() int64 {
	var names [3]string
	switch r.Service {
	case Chat:
		names = [...]string{"messages", "tools", "functions"}
	case Embedding:
		names[0] = "input"
	case Rerank:
		names = [...]string{"query", "documents", ""}
	default:
		return 0
	}
	length := 0
	for _, name := range names {
		if name != "" {
			length += textLength(r.Field(name))
		}
	}
	return EstimateText(length)
}

// EstimateText estimates the tokens of a text from its length in bytes.
func EstimateText(length int) int64 { return int64((length + bytesPerToken - 1) / bytesPerToken) }

// MostAnswered returns how many tokens the answer to a request may have, as the request
// says it; ok is false where it does not, or cannot.
func (r *Request) MostAnswered() (tokens int64, ok bool) {
	const most = 10_000_000
	if r.Service != Chat {
		return 0, true
	}
	for _, name := range [...]string{"max_completion_tokens", "max_tokens"} {
		if tokens, ok = r.Field(name).Int(); ok {
			break
		}
	}
	if !ok {
		return 0, false
	}
	choices := int64(1)
	if n, given := r.Field("n").Int(); given {
		choices = min(max(n, 1), 1000)
	}
	return min(max(tokens, 0), most) * choices, true
}

// textLength adds up the lengths of the texts in a value, whatever its depth. Files count
// by their number. It reads the text of the value once.
func textLength(v jsonscan.Value) int {
	raw := v.Raw()
	if v.Kind() == jsonscan.Array && isTokens(raw) {
		return bytesPerToken * (bytes.Count(raw, []byte{','}) + 1)
	}
	length := 0
	var name []byte // of the member whose value comes next
	for {
		start := bytes.IndexByte(raw, '"')
		if start < 0 {
			return length
		}
		text := raw[start+1:]
		end := textEnd(text)
		text, raw = text[:end], bytes.TrimLeft(text[min(end+1, len(text)):], " \t\r\n")
		if len(raw) > 0 && raw[0] == ':' {
			name = text
			continue
		}
		length += lengthOf(string(name), text)
		name = nil
	}
}

// lengthOf returns what the text of a member, or of an element without a name, counts.
func lengthOf(name string, text []byte) int {
	switch {
	case name == "role":
		return tokensPerMessage * bytesPerToken
	case name == "type" || name == "format":
		return 0
	case name == "data" || bytes.HasPrefix(text, []byte("data:")): // a file
		return tokensPerFile * bytesPerToken
	}
	return len(text)
}

// isTokens reports whether an array has the ids of tokens, or arrays of them.
func isTokens(raw []byte) bool {
	first := bytes.TrimLeft(raw, "[ \t\r\n")
	return len(first) > 0 && first[0] >= '0' && first[0] <= '9'
}

// textEnd returns the length of a JSON text up to the quote that ends it.
func textEnd(text []byte) int {
	for at := 0; ; {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			return len(text)
		}
		at += quote
		escapes := 0
		for escapes < at && text[at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
		at++
	}
}

// RequestedUnits returns what a request asks for that is not counted in tokens: how many
// images, and how many characters that are to be spoken.
func (r *Request) RequestedUnits() (images, characters int64) {
	const most = 1000
	switch r.Service {
	case TTS:
		return 0, int64(utf8.RuneCount(r.Field("input").Text()))
	case ImgGen, ImgEdit:
		images = 1
		if r.Form != nil {
			if text, given := r.Form.Value("n"); given {
				if n, err := strconv.ParseInt(text, 10, 64); err == nil {
					images = n
				}
			}
		} else if n, given := r.Field("n").Int(); given {
			images = n
		}
		return min(max(images, 1), most), 0
	}
	return 0, 0
}
