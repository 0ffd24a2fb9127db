package dialect

import "strings"

// TooLong reports whether the failure says that the request has more tokens than the
// model takes. Backends say so in an error code, in an error type or only in words,
// under various statuses.
func (f *Failure) TooLong() bool {
	switch {
	case f.Code == "context_length_exceeded", // OpenAI, Azure and many that imitate them
		f.Type == "exceed_context_size_error": // llama.cpp
		return true
	}
	words := strings.ToLower(f.Message[:min(len(f.Message), maxSearched)])
	for _, text := range tooLongTexts {
		if strings.Contains(words, text) {
			return true
		}
	}
	return false
}

// tooLongTexts are parts of the messages, in lower case, taken from the sources and
// documents of the servers.
var tooLongTexts = [...]string{
	// OpenAI, vLLM, SGLang, Mistral, DeepSeek: this model's maximum context length is ...
	"maximum context length",
	"longer than the maximum model length",       // vLLM: the decoder prompt (length ...) is longer than ...
	"longer than the model's context length",     // SGLang: the input (... tokens) is ...
	"exceeds the maximum number of tokens",       // Gemini: the input token count (...) exceeds ... allowed
	"prompt is too long",                         // Anthropic: prompt is too long: ... tokens > ... maximum
	"exceed context limit",                       // Anthropic: input length and `max_tokens` exceed context limit
	"input is too long for requested model",      // Anthropic and others behind Bedrock
	"exceeds the available context size",         // llama.cpp: the request exceeds ...
	"exceeds the context length",                 // Ollama: the input length exceeds ...
	"exceeds maximum context length",             // Ollama: input length exceeds ...
	"exceeds context window",                     // LiteLLM and hosted APIs
	"maximum prompt length is",                   // xAI: this model's maximum prompt length is ...
	"`inputs` must have less than",               // text-embeddings-inference
	"`inputs` tokens + `max_new_tokens` must be", // text-generation-inference
}
