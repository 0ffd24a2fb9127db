package v1

import (
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/admit"
	"github.com/patchbay-ai/patchbay/internal/dialect/ollama"
	"github.com/patchbay-ai/patchbay/internal/proxy"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
	"github.com/patchbay-ai/patchbay/internal/web/catalog"
)

// ollamaRoot is where Ollama's API is. On a listener of its own it is where Ollama has it.
const ollamaRoot = "/ollama"

// AtOllamaRoot passes requests to a handler as if the paths of Ollama's API stood below
// /ollama: nothing else has these paths on the listener that is for its clients.
func AtOllamaRoot(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := web.CollapseSlashes(r.URL.Path)
		if path == "/" || isAtOrBelow(path, "/api") {
			target := *r.URL
			target.Path, target.RawPath = ollamaRoot+strings.TrimSuffix(path, "/"), ""
			moved := *r
			moved.URL = &target
			r = &moved
		}
		next.ServeHTTP(w, r)
	})
}

// latestTag is what Ollama puts behind the name of a model that has no tag.
const latestTag = ":latest"

// dropLatest takes the tag from the name of a model that is not known by it.
func (x *exchange) dropLatest() {
	name, has := strings.CutSuffix(string(x.request.Model), latestTag)
	if !has || x.table.Service(x.request.Service).FindBytes(x.request.Model) != nil {
		return
	}
	x.request.Model, x.request.PathModel = []byte(name), name
}

// answerLoad returns the reply to a request for nothing but a model in memory. Which models
// are there is decided by the backends and by the settings, not by clients.
func answerLoad(req *schema.Request) []byte {
	if !ollama.IsLoad(req) {
		return nil
	}
	return ollama.Loaded(req)
}

// answerLocally answers a request that needs no backend.
func (x *exchange) answerLocally(body []byte) error {
	service := x.table.Service(x.request.Service)
	if service.FindBytes(x.request.Model) == nil {
		return admit.UnknownModel(service, x.request.Service, string(x.request.Model))
	}
	x.w.Header()["X-Router-Attempts"] = attemptsText(0)
	x.Head(proxy.Head{ContentType: proxy.TypeJSON, Length: len(body)})
	_, _ = x.w.Write(body) // a client that left does not need it
	return nil
}

// ollamaRoute is an endpoint of Ollama's API beside its doors.
type ollamaRoute struct {
	method, path string
	handler      http.HandlerFunc
	operation    web.Operation
}

func ollamaRoutes(list *catalog.Catalog) []ollamaRoute {
	routes := []ollamaRoute{
		{http.MethodGet, ollamaRoot + "/api/tags", list.Tags, web.Operation{Summary: "The models in the shape of Ollama's API", Reply: catalog.OllamaTags{}, Error: ollama.ErrorBody{}}},
		{http.MethodGet, ollamaRoot + "/api/ps", list.Processes, web.Operation{
			Summary: "The models that answer without being loaded first, in the shape of Ollama's API", Reply: catalog.OllamaProcesses{}, Error: ollama.ErrorBody{},
		}},
		{http.MethodGet, ollamaRoot + "/api/version", list.Version, web.Operation{Summary: "The version of Ollama's API that is spoken", Reply: catalog.OllamaVersionReply{}, Error: ollama.ErrorBody{}}},
		{http.MethodPost, ollamaRoot + "/api/show", list.Show, web.Operation{
			Summary: "One model in the shape of Ollama's API", Body: catalog.OllamaShowRequest{}, Reply: catalog.OllamaShow{}, Error: ollama.ErrorBody{},
		}},
		{http.MethodGet, ollamaRoot, list.Running, web.Operation{Undescribed: true}},
	}
	for _, refused := range []struct{ method, path string }{
		{http.MethodPost, "/api/pull"}, {http.MethodPost, "/api/push"}, {http.MethodPost, "/api/create"}, {http.MethodPost, "/api/copy"},
		{http.MethodDelete, "/api/delete"}, {http.MethodPost, "/api/blobs/{digest}"}, {http.MethodHead, "/api/blobs/{digest}"},
	} {
		routes = append(routes, ollamaRoute{refused.method, ollamaRoot + refused.path, list.Refused, web.Operation{Undescribed: true}})
	}
	return routes
}

// The types below describe requests and replies in the OpenAPI document.

type ollamaBase struct {
	Model     modelName             `json:"model" required:"true" example:"demo-chat"`
	Stream    bool                  `json:"stream" doc:"True if it is left out."`
	Format    either[string, extra] `json:"format" doc:"json, or a JSON Schema."`
	Options   ollamaOptions         `json:"options"`
	Think     either[bool, string]  `json:"think"`
	KeepAlive either[string, int64] `json:"keep_alive" doc:"Only for backends that are Ollama."`
	Logprobs  bool                  `json:"logprobs"`
	more
}

type ollamaOptions struct {
	NumPredict  int64                    `json:"num_predict"`
	Temperature float64                  `json:"temperature"`
	TopP        float64                  `json:"top_p"`
	TopK        int64                    `json:"top_k"`
	Seed        int64                    `json:"seed"`
	Stop        either[string, []string] `json:"stop"`
	more
}

type ollamaChatRequest struct {
	ollamaBase
	Messages []ollamaMessage `json:"messages"`
	Tools    []extra         `json:"tools"`
}

type ollamaMessage struct {
	Role    string   `json:"role" required:"true" enum:"system,user,assistant,tool"`
	Content string   `json:"content"`
	Images  []string `json:"images" doc:"In base64."`
	more
}

type ollamaGenerateRequest struct {
	ollamaBase
	Prompt string   `json:"prompt"`
	Suffix string   `json:"suffix"`
	System string   `json:"system"`
	Raw    bool     `json:"raw" doc:"No template is put around the prompt."`
	Images []string `json:"images" doc:"In base64."`
}

// ollamaEnd is what the whole answer, or the last line of a stream, has.
type ollamaEnd struct {
	Model              string `json:"model"`
	CreatedAt          string `json:"created_at" format:"date-time"`
	Done               bool   `json:"done"`
	DoneReason         string `json:"done_reason,omitzero"`
	TotalDuration      int64  `json:"total_duration,omitzero" doc:"In nanoseconds, as the others."`
	LoadDuration       int64  `json:"load_duration,omitzero"`
	PromptEvalCount    int64  `json:"prompt_eval_count,omitzero"`
	PromptEvalDuration int64  `json:"prompt_eval_duration,omitzero"`
	EvalCount          int64  `json:"eval_count,omitzero"`
	EvalDuration       int64  `json:"eval_duration,omitzero"`
	more
}

type ollamaChatReply struct {
	ollamaEnd
	Message ollamaSaid `json:"message"`
}

type ollamaSaid struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	more
}

type ollamaGenerateReply struct {
	ollamaEnd
	Response string `json:"response"`
}

type ollamaEmbedRequest struct {
	Model      modelName                `json:"model" required:"true" example:"demo-embed"`
	Input      either[string, []string] `json:"input" required:"true"`
	Dimensions int64                    `json:"dimensions"`
	more
}

type ollamaEmbedReply struct {
	Model           string      `json:"model"`
	Embeddings      [][]float64 `json:"embeddings"`
	TotalDuration   int64       `json:"total_duration,omitzero"`
	LoadDuration    int64       `json:"load_duration,omitzero"`
	PromptEvalCount int64       `json:"prompt_eval_count,omitzero"`
	more
}

type ollamaEmbeddingsRequest struct {
	Model  modelName `json:"model" required:"true" example:"demo-embed"`
	Prompt string    `json:"prompt" required:"true"`
	more
}

type ollamaEmbeddingsReply struct {
	Embedding []float64 `json:"embedding"`
}
