package discover

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// askLlama finds the service type of the one model of a llama.cpp server. Its list calls
// every model a chat model, and its name may say nothing. The way in which the server
// refuses requests without content shows its purpose, and costs it nothing. A server with
// several models is not asked, because it would load one to answer.
func (f *Found) askLlama(ctx context.Context, call caller, known map[string]schema.ServiceType) {
	model := &f.Models[0]
	if serviceType, isKnown := known[model.ID]; isKnown {
		f.serve(model, serviceType)
		f.certain = true
		return
	}
	if !llamaIsAwake(ctx, call) {
		return
	}
	for _, way := range []struct {
		path        string
		serviceType schema.ServiceType
	}{
		// The server of a reranker takes embeddings too.
		{"/v1/rerank", schema.Rerank},
		{"/v1/embeddings", schema.Embedding},
	} {
		status, _, err := call(ctx, way.path, "{}")
		switch {
		case err == nil && status == http.StatusBadRequest: // only the content is missing
			f.serve(model, way.serviceType)
			f.certain = true
			return
		case err != nil || status != http.StatusNotImplemented:
			return
		}
	}
	f.serve(model, schema.Chat)
	f.certain = true
}

// llamaIsAwake reports whether a llama.cpp server has its model in memory. A sleeping
// server would load it to answer, and so would a router.
func llamaIsAwake(ctx context.Context, call caller) bool {
	status, body, err := call(ctx, "/props", "")
	if err != nil || status != http.StatusOK {
		return false
	}
	var props struct {
		Role     string `json:"role"`
		Sleeping bool   `json:"is_sleeping"`
	}
	err = json.Unmarshal(body, &props, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return err == nil && props.Role == "" && !props.Sleeping
}
