package openai_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/openai"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// A response that fails has used what its last event reports.
func TestAFailedResponseReportsItsUsage(t *testing.T) {
	t.Parallel()
	req := new(schema.Request)
	if err := req.ParseBody(schema.DoorResponses, []byte(`{"model":"m","input":"hi"}`), schema.FieldsOf(struct {
		Model string `json:"model"`
	}{})); err != nil {
		t.Fatal(err)
	}
	events := openai.Responses.Events(req, strings.NewReader(
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\",\"usage\":null}}\n\n"+
			"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"no\"},"+
			"\"usage\":{\"input_tokens\":12,\"output_tokens\":5,\"total_tokens\":17}}}\n\n"))
	var err error
	for err == nil {
		_, err = events.Next()
	}
	if got := events.Usage(); errors.Is(err, io.EOF) || !got.Known || got.Prompt != 12 || got.Completion != 5 || got.Total != 17 {
		t.Errorf("got %+v and %v, want 12 and 5 tokens and a failure", got, err)
	}
}
