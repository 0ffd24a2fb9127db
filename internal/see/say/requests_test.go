package say

import (
	"regexp"
	"testing"
)

// Sentences that are composed have codes for all of their parts.
func TestRefusalsOfRequestsAreFound(t *testing.T) {
	const (
		noEndpoint = "There is no endpoint POST /v1/x:predict. Available are POST /v1/chat/completions, /v1/embeddings, and GET /v1/models. GET /docs/api shows everything that there is."
		noMethod   = "The method GET is not allowed for /v1/chat/completions; allowed are POST, OPTIONS."
		isGemini   = " Gemini's API is at POST /v1beta/models/{model}:generateContent, and its clients need the address of the gateway without a path."
	)
	for text, want := range map[string]Code{
		"Missing required parameter: 'model'.":                                                                                  "call.missing",
		"Missing required parameter: 'messages[2].content'.":                                                                    "call.missing",
		"'model' must be a string.":                                                                                             "call.field",
		"'temperature' must be between 0 and 2.":                                                                                "call.field",
		"'max_tokens' must be at least 1.":                                                                                      "call.field",
		"'generationConfig.seed' must be a number.":                                                                             "call.field",
		"'tools[0].function.parameters' has an unknown type.":                                                                   "call.field",
		"'system' must be a string or an array of text blocks.":                                                                 "call.field",
		"The header x-router-priority must be interactive, normal or batch.":                                                    "call.priority",
		"The request body is not valid JSON: expected ':' after a key at byte 7.":                                               "call.not_json",
		"The request body is not valid JSON: unexpected end of the text: expected ',' or '}' at byte 12.":                       "call.not_json",
		"The request body is larger than the 1048576 bytes that are allowed.":                                                   "call.body_large",
		"The form could not be read: it ended too early.":                                                                       "call.form_unread",
		"The upload takes more than the 7 bytes that one caller may have on the gateway's disk (two thirds of limits.uploads).": "call.upload_most",
		"The backends of this model do not serve tokenize requests. Instances whose adapter is vllm or llamacpp do.":            "call.not_served_by_two",
		noEndpoint:            "call.no_endpoint",
		noEndpoint + isGemini: "call.no_endpoint_hint",
		noMethod:              "call.no_method",
		noMethod + isGemini:   "call.no_method_hint",
	} {
		if said := Of(text); len(said) != 1 || said[0].Code != want || !isWhole(said[0]) || Join(said) != text {
			t.Errorf("%q is taken for %+v, want %s", text, said, want)
		}
	}
}

// isWhole reports whether all words of a sentence have a code: its values are sentences, or
// names without spaces in them and lists of such.
func isWhole(s Sentence) bool {
	if s.Code == Other {
		return s.Values["text"] == "7"
	}
	for name, value := range s.Values {
		inner, is := s.Inner[name]
		if is && !isWhole(inner) || !is && !regexp.MustCompile(`^[^ ]+(, [^ ]+)*$`).MatchString(value) {
			return false
		}
	}
	return true
}
