package dialect

import "testing"

// The answers of backends to a request that is too long for the model, as they are
// documented or in the sources of the servers.
func TestRequestsThatAreTooLongAreRecognised(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		body   string
		want   bool
	}{
		"OpenAI":            {400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, true},
		"only a code":       {400, `{"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded"}}`, true},
		"Anthropic":         {400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, true},
		"Anthropic, answer": {400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 190000 + 20000 > 200000"}}`, true},
		"Gemini":            {400, `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, true},
		"Ollama":            {400, `{"error":"the input length exceeds the context length"}`, true},
		"Ollama, older":     {500, `{"error":"input length exceeds maximum context length"}`, true},
		"llama.cpp":         {400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}`, true},
		"llama.cpp, type":   {400, `{"error":{"code":400,"message":"too big","type":"exceed_context_size_error"}}`, true},
		"vLLM":              {400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","code":400}`, true},
		"vLLM, prompt":      {400, `{"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","type":"BadRequestError","code":400}}`, true},
		"another 400":       {400, `{"error":{"message":"max_tokens must be at least 1","type":"invalid_request_error","code":"invalid_value"}}`, false},
		"nothing":           {500, ``, false},
	} {
		if got := ReadFailure(row.status, []byte(row.body)).TooLong(); got != row.want {
			t.Errorf("%s: too long is %v", name, got)
		}
	}
}
