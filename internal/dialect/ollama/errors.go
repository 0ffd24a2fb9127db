package ollama

import (
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ErrorBody is the body of an error, with the code of the unified API beside it.
type ErrorBody struct {
	Error string `json:"error"`
	Code  string `json:"code"`
}

// NotFound says in Ollama's words that there is no such model.
func NotFound(model string) *schema.Error { return schema.ModelNotFound("call.no_model_ollama", model) }

// Error writes the body of an error.
func Error(known *schema.Error, _ string) []byte {
	known = known.In("call.too_long_ollama")
	var w jsonwrite.Writer
	w.Open(`{"error":`).Text([]byte(known.Message))
	w.Name("code").Text([]byte(known.Code))
	w.EndObject()
	return w.Out
}
