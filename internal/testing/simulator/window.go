package simulator

import (
	"fmt"
	"net/http"
	"strings"
)

// windowBytes is how many bytes of a request count as a token of its prompt.
const windowBytes = 4

// ollamaShowPath describes a model of Ollama and loads none.
const ollamaShowPath = "/api/show"

// isTooLong reports whether the prompt of a request is longer than the window of the backend.
func (x *exchange) isTooLong() bool {
	window := x.backend.options.Window
	return window > 0 && len(x.body)/windowBytes > window && !strings.HasSuffix(x.request.URL.Path, "/tokenize")
}

// refuseLength refuses a prompt that is too long, in the words of the real backends.
func (x *exchange) refuseLength() {
	window, tokens := x.backend.options.Window, len(x.body)/windowBytes
	switch x.dialect.(type) {
	case anthropic:
		x.fail(http.StatusBadRequest, apiError{kind: "invalid_request_error",
			message: fmt.Sprintf("prompt is too long: %d tokens > %d maximum", tokens, window)})
	case gemini:
		x.fail(http.StatusBadRequest, apiError{kind: "INVALID_ARGUMENT", message: fmt.Sprintf(
			"The input token count (%d) exceeds the maximum number of tokens allowed (%d).", tokens, window)})
	case ollama:
		x.fail(http.StatusBadRequest, apiError{message: "the input length exceeds the context length"})
	default:
		if x.backend.options.Kind == LlamaCpp {
			x.send(http.StatusBadRequest, "application/json; charset=utf-8", fmt.Appendf(nil,
				`{"error":{"code":400,"message":"request (%d tokens) exceeds the available context size (%d tokens), `+
					`try increasing it","type":"exceed_context_size_error","n_prompt_tokens":%[1]d,"n_ctx":%[2]d}}`,
				tokens, window))
			return
		}
		x.fail(http.StatusBadRequest, *invalidRequest("messages", "context_length_exceeded", fmt.Sprintf(
			"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. "+
				"Please reduce the length of the messages.", window, tokens)))
	}
}

// answerOllamaShow serves POST /api/show: a model that was trained with more than is in force.
func answerOllamaShow(x *exchange) {
	parameters := ""
	if window := x.backend.options.Window; window > 0 {
		parameters = fmt.Sprintf("num_ctx                        %d", window)
	}
	x.send(http.StatusOK, "application/json; charset=utf-8", fmt.Appendf(nil,
		`{"parameters":%q,"model_info":{"general.architecture":"llama","llama.context_length":131072}}`, parameters))
}
