package v1_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Requests of inference engines pass to backends that have them, and are refused with the
// names of those that have them elsewhere.
func TestWhatEnginesHaveBesideOtherAPIs(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	engine := gatewaytest.Instance("engine", b.URL(), "adapter: vllm")
	plain := gatewaytest.Instance("plain", b.URL())
	r := gatewaytest.Start(t, "services: {"+strings.Join([]string{
		gatewaytest.ServiceEntry("chat", engine, gatewaytest.Instance("llama", b.URL(), "adapter: llamacpp"), plain),
		gatewaytest.ServiceEntry("embedding", engine, plain),
		gatewaytest.ServiceEntry("rerank", engine, plain),
	}, ",\n")+"}\n")
	for _, row := range []struct {
		path, body, part string
	}{
		{"/tokenize", `{"model":"engine","prompt":"hé"}`, `"tokens":[104,233]`},
		{"/v1/tokenize", `{"model":"llama","prompt":"hé"}`, `{"count":2,"tokens":[104,233]}`},
		{"/detokenize", `{"model":"engine","tokens":[104,233]}`, `"prompt":"hé"`},
		{"/detokenize", `{"model":"llama","tokens":[104,233]}`, `{"prompt":"hé"}`},
		{"/v1/score", `{"model":"engine","text_1":"a","text_2":["b","c"]}`, `"model":"engine"`},
		{"/score", `{"model":"engine","text_1":"a","text_2":"b"}`, `"object":"score"`},
		{"/classify", `{"model":"engine","input":["a"]}`, `"num_classes":2`},
		{"/pooling", `{"model":"engine","input":"a"}`, `"object":"pooling"`},
		{"/infill", `{"model":"llama","input_prefix":"a","input_suffix":"b"}`, `"content":"pass","stop":true,"model":"llama"`},
	} {
		if reply := r.Post(row.path, row.body).Succeeds(t); !strings.Contains(reply.Body, row.part) {
			t.Errorf("%s %s: %s", row.path, row.body, reply.Body)
		}
	}
	const invalid = gatewaytest.InvalidRequest
	for _, row := range []struct {
		path, body, code, param, part string
	}{
		{"/tokenize", `{"model":"plain","prompt":"a"}`, "invalid_value", "", "vllm or llamacpp"},
		{"/detokenize", `{"model":"plain","tokens":[1]}`, "invalid_value", "", "vllm or llamacpp"},
		{"/score", `{"model":"plain","text_1":"a","text_2":"b"}`, "invalid_value", "", "adapter is vllm"},
		{"/classify", `{"model":"plain","input":"a"}`, "invalid_value", "", "adapter is vllm"},
		{"/pooling", `{"model":"plain","input":"a"}`, "invalid_value", "", "adapter is vllm"},
		{"/infill", `{"model":"engine","input_prefix":"a","input_suffix":"b"}`, "invalid_value", "", "adapter is llamacpp"},
		{"/tokenize", `{"model":"llama","messages":[]}`, "invalid_value", "messages", "'prompt' only"},
		{"/tokenize", `{"model":"llama","content":"a"}`, "missing_parameter", "prompt", "llama.cpp"},
		{"/tokenize", `{"model":"engine","prompt":1}`, "invalid_value", "prompt", ""},
		{"/tokenize", `{"prompt":"a"}`, "missing_parameter", "model", ""},
		{"/detokenize", `{"model":"engine","tokens":["a"]}`, "invalid_value", "tokens", ""},
		{"/detokenize", `{"model":"engine"}`, "missing_parameter", "tokens", ""},
		{"/score", `{"model":"engine","text_1":"a"}`, "missing_parameter", "text_2", ""},
		{"/score", `{"model":"engine"}`, "missing_parameter", "text_1", ""},
		{"/classify", `{"model":"engine"}`, "missing_parameter", "input", ""},
		{"/infill", `{"model":"llama","input_prefix":"a"}`, "missing_parameter", "input_suffix", ""},
		{"/infill", `{"model":"llama","input_prefix":"a","input_suffix":"b","stream":1}`, "invalid_value", "stream", ""},
		{"/infill", `{`, "invalid_json", "", ""},
	} {
		reply := r.Post(row.path, row.body)
		if told := reply.FailsWith(t, 400, invalid, row.code, row.param); !strings.Contains(told.Message, row.part) {
			t.Errorf("%s %s: %s", row.path, row.body, told.Message)
		}
	}
}
