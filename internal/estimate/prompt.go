package estimate

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

const (
	// bytesPerToken is how many bytes of text a token has, on average over languages.
	bytesPerToken = 4
	// tokensPerMessage is what the frame of a message takes.
	tokensPerMessage = 4
	// tokensPerFile is assumed for an image or a sound within a message.
	tokensPerFile = 800
)

// tokensOf estimates the tokens of a text from its length in bytes.
func tokensOf(length int) int64 { return int64((length + bytesPerToken - 1) / bytesPerToken) }

// promptLength returns the length in bytes of what a model is to read: of all texts in the
// body that are not known to be settings, and of what the gateway recalls. So a member
// that is new to an API, or that only one backend knows, is not free.
func promptLength(door schema.Door, root jsonscan.Value, recalled [][]byte) int {
	length := membersLength(root)
	if door == schema.DoorRerank { // the query is read once with each document
		documents := 0
		for d := root.Get("documents").First(); d.Kind() != jsonscan.Absent; d = d.Next() {
			documents++
		}
		length += max(documents-1, 0) * textLength(root.Get("query").Raw(), false)
	}
	for _, items := range recalled {
		length += textLength(items, false)
	}
	return length
}

// membersLength adds up the texts of a body.
func membersLength(object jsonscan.Value) (length int) {
	for m := object.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
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
			return bytesPerToken * (bytes.Count(raw, []byte{','}) + 1)
		}
	case "tools", "functions", "text", "output_config", "output_format":
		return textLength(m.Raw(), true)
	case "response_format":
		if m.Kind() == jsonscan.Object {
			return textLength(m.Raw(), true)
		}
		return 0
	case "extra_body":
		return membersLength(m)
	case "model", "user", "metadata", "stream_options", "stop", "stop_sequences", "tool_choice", "function_call",
		"reasoning", "reasoning_effort", "thinking", "verbosity", "modalities", "audio", "logit_bias", "include", "truncation",
		"previous_response_id", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
		"encoding_format", "task_type", "voice", "stream_format", "size", "quality", "style", "background", "options",
		"generationConfig", "generation_config", "keep_alive":
		return 0
	}
	return textLength(m.Raw(), false)
}

// textLength adds up the lengths of the texts in a value, whatever its depth, and if
// wanted those of the names of members: a model reads those of a schema. Files count by
// their number. It reads the JSON text of the value once.
func textLength(raw []byte, withNames bool) (length int) {
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
			if withNames {
				length += len(name)
			}
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
		return max(tokensPerMessage*bytesPerToken, len(text))
	case name == "type" || name == "format" || name == "media_type":
		if len(text) <= longestKind {
			return 0
		}
	case name == "signature":
		if isEncoded(text) {
			return 0
		}
	case isFile(name, text):
		return tokensPerFile * bytesPerToken
	}
	return len(text)
}

const (
	// longestKind is the length up to which a text can name the kind of something.
	longestKind = 64
	// longestURLHead is the length up to which what precedes the content of a data URL
	// is looked at.
	longestURLHead = 128
)

// isFile reports whether the text of a member is a file. What a model reads as text is
// none, whatever it begins with.
func isFile(name string, text []byte) bool {
	switch name {
	case "text", "content":
		return false
	case "data", "file_data":
		return isEncoded(text)
	}
	return bytes.HasPrefix(text, []byte("data:")) && bytes.Contains(text[:min(len(text), longestURLHead)], []byte(";base64,")) && isEncoded(text)
}

// isEncoded reports whether a text may be encoded in base64, and not one that was written,
// such as that of a plain document. Looking for a blank costs little, however long it is.
func isEncoded(text []byte) bool { return bytes.IndexByte(text, ' ') < 0 }

// isTokens reports whether an array has the ids of tokens, or arrays of them, and no texts,
// which some backends read among them.
func isTokens(raw []byte) bool {
	first := bytes.TrimLeft(raw, "[ \t\r\n")
	return len(first) > 0 && first[0] >= '0' && first[0] <= '9' && bytes.IndexByte(raw, '"') < 0
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
