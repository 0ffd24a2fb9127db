package kinds

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
)

// TestErrorPatternsDecideTheMeaning reads what servers answered, mostly as recorded.
func TestErrorPatternsDecideTheMeaning(t *testing.T) {
	for _, c := range []struct {
		kind   string
		status int
		body   string
		want   dialect.Meaning
	}{
		{"llamacpp", 500, `{"error":{"code":500,"message":"input (3002 tokens) is too large to process. increase the physical batch size (current batch size: 512)","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 500, `{"error":{"code":500,"message":"input is too large to process. increase the physical batch size","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 500, `{"error":{"code":500,"message":"Failed to download image","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 500, `{"error":{"code":500,"message":"error: cannot make GET request","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 500, `{"error":{"code":500,"message":"HTTPS is not supported. Please rebuild with one of:\n  -DLLAMA_OPENSSL=ON","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 500, `{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 500, `{"error":{"code":500,"message":"Failed to parse tools: Missing tool function: {\"type\":\"function\"}; tools = []","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 500, `{"error":{"code":500,"message":"Failed to parse messages: Missing 'role' in message: {\"content\":\"hi\"}","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 500, `{"error":{"code":500,"message":"Jinja Exception: Conversation roles must alternate user/assistant","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 500, `{"error":{"code":500,"message":"[json.exception.type_error.302] type must be string, but is number","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 200, `{"error":{"code":500,"message":"context shift is disabled","type":"server_error"}}`, dialect.RequestFault},
		{"llamacpp", 500, `{"error":{"code":500,"message":"Compute error.","type":"server_error"}}`, dialect.BackendFault},
		{"llamacpp", 500, ``, dialect.BackendFault},
		{"llamacpp", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, dialect.BackendFault},
		{"llama-server", 500, `{"error":{"message":"Failed to parse tools: no"}}`, dialect.RequestFault},
		{"whispercpp", 500, `{"error":"FFmpeg conversion failed."}`, dialect.RequestFault},
		{"whisper.cpp", 200, `{"error":"failed to read audio data"}`, dialect.RequestFault},
		{"whispercpp", 500, `{"error":"failed to process audio"}`, dialect.BackendFault},
		{"openai", 500, `{"error":"FFmpeg conversion failed."}`, dialect.RequestFault},
		{"openai", 500, `{"error":{"message":"Failed to download image"}}`, dialect.RequestFault},
		{"openai", 500, `{"error":{"message":"The server had an error while processing your request."}}`, dialect.BackendFault},
		{"openai", 503, `{"error":{"message":"server busy, please try again.  maximum pending requests exceeded","type":"api_error"}}`, dialect.Overload},
		{"localai", 500, `{"error":{"code":500,"message":"invalid response_format","type":""}}`, dialect.RequestFault},
		{"ollama", 500, `{"error":"option \"temperature\" must be of type float32"}`, dialect.RequestFault},
		{"ollama", 200, `{"error":"Failed to create new sequence: failed to process inputs: image: unknown format"}`, dialect.RequestFault},
		{"ollama", 503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, dialect.Overload},
		{"ollama", 500, `{"error":"server busy, please try again."}`, dialect.BackendFault},
		{"ollama", 500, `{"error":"an error was encountered while running the model: unexpected EOF"}`, dialect.BackendFault},
		{"ollama", 500, `{"error":"model runner has unexpectedly stopped"}`, dialect.BackendFault},
		{"vllm", 500, `{"error":{"message":"Failed to parse tools: no"}}`, dialect.BackendFault},
		{"ollama", 400, `{"error":"option \"temperature\" must be of type float32"}`, dialect.BackendFault},
	} {
		kind, err := Lookup(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		if got := kind.Meaning(dialect.ReadFailure(c.status, []byte(c.body))); got != c.want {
			t.Errorf("%s, status %d, %s: %d, want %d", c.kind, c.status, c.body, got, c.want)
		}
	}
}
