package schema

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// Keys that differ only in case are one key to many backends and two to this
// gateway: "Model" beside "model" would be a way to use a model that was not
// permitted, and "STREAM" one to get an answer that nobody expects. A key that
// some backend would take for a field which is read here is therefore refused like
// a duplicate.

// readNames are the fields that the gateway reads of requests of each service type. The other
// names belong to the doors and objects that have fields of their own.
var (
	readNames = [ServiceTypeCount]*jsonscan.Names{
		Chat: jsonscan.NewNames("model", "user", "extra_body",
			"messages", "stream", "stream_options", "max_tokens", "max_completion_tokens",
			"temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "stop", "stop_sequences", "n",
			"best_of", "seed", "logprobs", "top_logprobs", "logit_bias", "response_format", "tools", "tool_choice",
			"parallel_tool_calls", "functions", "function_call", "reasoning", "reasoning_effort", "thinking",
			"modalities", "audio", "metadata", "service_tier", "store", "system", "output_config",
			"web_search_options", "moderation", "google"),
		Embedding: jsonscan.NewNames("model", "user", "extra_body",
			"input", "encoding_format", "dimensions", "title", "task_type"),
		Rerank: jsonscan.NewNames("model", "user", "extra_body", "query", "documents", "top_n", "return_documents"),
		TTS: jsonscan.NewNames("model", "user", "extra_body",
			"input", "voice", "response_format", "speed", "stream_format"),
		STT: jsonscan.NewNames("model", "user", "extra_body",
			"file", "language", "prompt", "response_format", "temperature", "stream", "translate"),
		ImgGen:  imageNames,
		ImgEdit: imageNames,
	}
	imageNames = jsonscan.NewNames("model", "user", "extra_body",
		"prompt", "n", "size", "quality", "style", "response_format", "stream", "image", "mask")

	completionNames = jsonscan.NewNames("model", "user", "extra_body",
		"prompt", "suffix", "stream", "stream_options", "echo", "logprobs", "n", "best_of",
		"max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "frequency_penalty",
		"presence_penalty", "stop", "seed", "logit_bias")
	moderationNames = jsonscan.NewNames("model", "user", "extra_body", "input")

	readMessageNames = jsonscan.NewNames("role", "content", "name", "tool_calls", "tool_call_id", "function_call",
		"refusal", "reasoning", "reasoning_content", "thinking_blocks", "extra_content")
	streamOptionNames = jsonscan.NewNames("include_usage")
	documentNames     = jsonscan.NewNames("text")
)

// longestField is longer than any field that is read.
const longestField = 32

// foldedField returns the field that a key differs from only in case, empty where
// there is none. Keys in lower case, which nearly all are, cost one look.
func foldedField(key []byte, reads *jsonscan.Names) string {
	if isLowerASCII(key) {
		return ""
	}
	var space [longestField]byte
	folded := space[:0]
	for i := 0; i < len(key); {
		char, size := utf8.DecodeRune(key[i:])
		i += size
		switch {
		case 'A' <= char && char <= 'Z':
			char += 'a' - 'A'
		case char == '\u017f': // the long s
			char = 's'
		case char == '\u212a': // the sign for kelvin
			char = 'k'
		case char >= utf8.RuneSelf: // no other folds to a character in names of fields
			return ""
		}
		if len(folded) == longestField {
			return ""
		}
		folded = append(folded, byte(char))
	}
	if reads.Has(folded) && !bytes.Equal(folded, key) {
		return string(folded)
	}
	return ""
}

func isLowerASCII(key []byte) bool {
	for _, c := range key {
		if 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// checkCase refuses an object that has a key which differs from a field only in
// case.
func checkCase(object jsonscan.Value, reads *jsonscan.Names) *Error {
	for m := range object.All() {
		key := m.Key()
		if field := foldedField(key, reads); field != "" {
			return NewError(CodeInvalidJSON, fmt.Sprintf("The request body has the key %q, which differs from %q "+
				"only in case: some backends take the two for one. Write it %q.", key, field, field))
		}
	}
	return nil
}

// checkCase refuses a form with a name that differs from a field only in case.
func (f *Form) checkCase(service ServiceType) error {
	for i := range f.Parts {
		name, _, _ := strings.Cut(f.Parts[i].Name, "[")
		if field := foldedField([]byte(name), readNames[service]); field != "" {
			return InvalidValue(field, fmt.Sprintf("The form has %q, which differs from '%s' only in case: some "+
				"backends take the two for one. Write it '%s'.", name, field, field))
		}
	}
	return nil
}
