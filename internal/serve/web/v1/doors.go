package v1

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/compaction"
	"github.com/patchbay-ai/patchbay/internal/dialect/engine"
	"github.com/patchbay-ai/patchbay/internal/dialect/gemini/genai"
	"github.com/patchbay-ai/patchbay/internal/dialect/ollama"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/catalog"
	"github.com/patchbay-ai/patchbay/internal/serve/web/described"
)

// door is one endpoint for requests to models. The proxy does everything that endpoints
// promise (limits, slots, failover, cancelling, ledger, records) for all of them alike; a
// door only knows the language of its clients.
type door struct {
	id schema.Door
	// path is the path of the door, and aliases are other paths to it.
	path    string
	aliases []string
	// json reads and checks a JSON body, or form a form with files; a door has one
	// of them. The size of the body is limited by limits.json-body or
	// limits.multipart-body.
	json func(*schema.Request, []byte) error
	form func(*schema.Request, *schema.Form) error
	// client translates for clients that do not speak the unified dialect. It is nil for
	// unified doors, and for doors that only pass requests to backends with the same door.
	client *dialect.Client
	// open makes the client of one request, for doors with answers that depend on more than
	// the request itself.
	open func(*API, *exchange) (*dialect.Client, error)
	// choose returns the client of a request, for doors that have several.
	choose func(*schema.Request) *dialect.Client
	// local answers a request that concerns no backend, and reports whether it is one.
	local func(*API, *exchange) (isLocal bool, err error)
	// modelInPath says that the path names the model, and that the query may have the key.
	modelInPath bool
	// tagged says that clients may put the tag of Ollama's latest models behind a name.
	tagged bool
	// estimate returns the reply to a request that no backend has answered. It is for doors
	// with requests that the gateway can answer itself, if not as well.
	estimate func(*exchange) []byte
	// errors writes the body of an error; nil means the unified one. The replies of
	// such a door have the id of the request in the header of its dialect.
	errors errorWriter
	// notFound is the error for a model that does not exist, where the clients of the door
	// expect another one than the unified API has.
	notFound func(model string) *schema.Error
	// failure writes the event that ends a stream before an answer has begun; nil means the
	// unified one.
	failure errorWriter
}

// errorWriter writes the body of an error reply.
type errorWriter func(known *schema.Error, requestID string) []byte

// failureEvent returns the event with the reason why a stream has no answer.
func (d *door) failureEvent(known *schema.Error, requestID string) []byte {
	if d.failure != nil {
		return d.failure(known, requestID)
	}
	return append(append([]byte("data: "), known.Body()...), "\n\n"...)
}

// doors is the table of doors. A new door is a row here, and a dialect.Client if its
// clients do not speak the unified dialect.
var doors = []*door{
	{
		id: schema.DoorChat, path: "/v1/chat/completions", aliases: []string{"/chat/completions"},
		json: (*schema.Request).ParseChat,
	},
	{
		id: schema.DoorEmbeddings, path: "/v1/embeddings", aliases: []string{"/embeddings"},
		json: (*schema.Request).ParseEmbedding,
	},
	{
		id: schema.DoorRerank, path: "/v1/rerank", aliases: []string{"/v2/rerank", "/rerank", "/v1/reranking"},
		json: (*schema.Request).ParseRerank,
	},
	{
		id: schema.DoorSpeech, path: "/v1/audio/speech", aliases: []string{"/audio/speech"},
		json: (*schema.Request).ParseSpeech,
	},
	{
		id: schema.DoorTranscriptions, path: "/v1/audio/transcriptions", aliases: []string{"/audio/transcriptions"},
		form: (*schema.Request).ParseTranscription,
	},
	{
		id: schema.DoorCompletions, path: "/v1/completions", aliases: []string{"/completions"},
		json: (*schema.Request).ParseCompletion,
	},
	{
		id: schema.DoorModerations, path: "/v1/moderations", aliases: []string{"/moderations"},
		json: (*schema.Request).ParseModeration,
	},
	{
		id: schema.DoorTranslations, path: "/v1/audio/translations", aliases: []string{"/audio/translations"},
		form: (*schema.Request).ParseTranslation,
	},
	{
		id: schema.DoorImages, path: "/v1/images/generations", aliases: []string{"/images/generations"},
		json: (*schema.Request).ParseImage,
	},
	{
		id: schema.DoorImageEdits, path: "/v1/images/edits", aliases: []string{"/images/edits"},
		form: (*schema.Request).ParseImageEdit,
	},
	{
		id: schema.DoorResponses, path: "/v1/responses", aliases: []string{"/responses"},
		json: responses.Parse,
		open: (*API).openResponses, failure: func(known *schema.Error,
			_ string) []byte {
			return responses.ErrorEvent(known, 0)
		},
	},
	{
		id: schema.DoorInputTokens, path: "/v1/responses/input_tokens", aliases: []string{"/responses/input_tokens"},
		json: compaction.ParseCount, open: (*API).openInputTokens, estimate: estimateInput,
	},
	{
		id: schema.DoorCompact, path: "/v1/responses/compact", aliases: []string{"/responses/compact"},
		json: compaction.Parse, open: (*API).openCompact,
	},
	{
		id: schema.DoorMessages, path: "/v1/messages", aliases: []string{"/messages"},
		json: messages.ReadRequest, client: messages.Client, errors: messages.Error, failure: messages.ErrorEvent,
	},
	{
		id: schema.DoorCountTokens, path: "/v1/messages/count_tokens", aliases: []string{"/messages/count_tokens"},
		json: messages.ReadCountRequest, estimate: estimateTokens, errors: messages.Error,
	},
	{
		id: schema.DoorOllamaChat, path: "/ollama/api/chat",
		json: ollama.ReadChat, client: ollama.Client, local: (*API).answerLoad, tagged: true, errors: ollama.Error,
		notFound: ollama.NotFound,
	},
	{
		id: schema.DoorOllamaGenerate, path: "/ollama/api/generate",
		json: ollama.ReadGenerate, choose: ollama.GenerateClient, local: (*API).answerLoad, tagged: true,
		errors: ollama.Error, notFound: ollama.NotFound,
	},
	{
		id: schema.DoorOllamaEmbed, path: "/ollama/api/embed",
		json: ollama.ReadEmbed, client: ollama.EmbedClient, tagged: true, errors: ollama.Error,
		notFound: ollama.NotFound,
	},
	{
		id: schema.DoorOllamaEmbeddings, path: "/ollama/api/embeddings",
		json: ollama.ReadEmbeddings, client: ollama.EmbedClient, tagged: true, errors: ollama.Error,
		notFound: ollama.NotFound,
	},
	{
		id: schema.DoorGemini, path: geminiRoot + ":generateContent",
		aliases: []string{geminiAlias + ":generateContent"},
		json:    genai.ReadRequest, choose: genai.ClientFor, modelInPath: true, errors: genai.Error,
		notFound: genai.NotFound,
	},
	{
		id: schema.DoorGemini, path: geminiRoot + ":streamGenerateContent",
		aliases: []string{geminiAlias + ":streamGenerateContent"},
		json:    genai.ReadStreamRequest, choose: genai.ClientFor, modelInPath: true, errors: genai.Error,
		notFound: genai.NotFound,
	},
	{
		id: schema.DoorGeminiCount, path: geminiRoot + ":countTokens", aliases: []string{geminiAlias + ":countTokens"},
		json: genai.ReadCountRequest, estimate: estimateGemini, modelInPath: true, errors: genai.Error,
		notFound: genai.NotFound,
	},
	{
		id: schema.DoorGeminiEmbed, path: geminiRoot + ":embedContent",
		aliases: []string{geminiAlias + ":embedContent"},
		json:    genai.ReadEmbed, client: genai.EmbedClient, modelInPath: true, errors: genai.Error,
		notFound: genai.NotFound,
	},
	{
		id: schema.DoorGeminiBatchEmbed, path: geminiRoot + ":batchEmbedContents",
		aliases: []string{geminiAlias + ":batchEmbedContents"},
		json:    genai.ReadBatchEmbed, client: genai.EmbedClient, modelInPath: true, errors: genai.Error,
		notFound: genai.NotFound,
	},
	{id: schema.DoorTokenize, path: "/tokenize", aliases: []string{"/v1/tokenize"}, json: engine.ReadTokenize},
	{id: schema.DoorDetokenize, path: "/detokenize", aliases: []string{"/v1/detokenize"}, json: engine.ReadDetokenize},
	{id: schema.DoorScore, path: "/v1/score", aliases: []string{"/score"}, json: engine.ReadScore},
	{id: schema.DoorClassify, path: "/classify", aliases: []string{"/v1/classify"}, json: engine.ReadClassify},
	{id: schema.DoorPooling, path: "/pooling", aliases: []string{"/v1/pooling"}, json: engine.ReadPooling},
	{id: schema.DoorInfill, path: "/infill", aliases: []string{"/v1/infill"}, json: engine.ReadInfill},
}

// Read reads and checks a request as its door does. It also returns the client that
// translates for the callers of that door: nil where they need no translation, and where it
// depends on more than the request. The header is the one that came with the request.
func Read(id schema.Door, header http.Header, body []byte) (*schema.Request, *dialect.Client, error) {
	for _, d := range doors {
		if d.id != id {
			continue
		}
		if d.json == nil {
			return nil, nil, schema.CodedError(schema.CodeUnsupportedMedia, "call.form_nowhere")
		}
		request := new(schema.Request)
		if id.IsTranslated() {
			request.Header = header
		}
		err := d.json(request, body)
		if d.choose != nil && err == nil {
			return request, d.choose(request), nil
		}
		return request, d.client, err
	}
	return nil, nil, schema.CodedError(schema.CodeInternal, "call.no_door", "name", id.String())
}

// serve returns the handler of a door.
func (a *API) serve(d *door) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := a.begin(w, r, d)
		defer a.end(x)
		err := a.admit(x)
		switch {
		case err != nil:
		case d.form != nil:
			err = x.readForm(d.form)
		default:
			err = x.readJSON(d.json)
		}
		a.answer(x, err)
	}
}

// errorsFor returns the function that writes errors for the client of a request, nil for
// the unified form.
func errorsFor(r *http.Request) errorWriter {
	if catalog.SpeaksMessages(r) && (isAtOrBelow(r.URL.Path, "/v1/models") || isAtOrBelow(r.URL.Path, "/models")) {
		return messages.Error
	}
	if isAtOrBelow(r.URL.Path, ollamaRoot) {
		return ollama.Error
	}
	if isGemini(r) {
		return genai.Error
	}
	for _, d := range doors {
		if d.errors != nil && !d.modelInPath && d.owns(r.URL.Path) {
			return d.errors
		}
	}
	return nil
}

// owns reports whether a path is the path of the door, or below it.
func (d *door) owns(path string) bool {
	if isAtOrBelow(path, d.path) {
		return true
	}
	for _, alias := range d.aliases {
		if isAtOrBelow(path, alias) {
			return true
		}
	}
	return false
}

func isAtOrBelow(path, root string) bool {
	return len(path) >= len(root) && path[:len(root)] == root && (len(path) == len(root) || path[len(root)] == '/')
}

// RoutesOf returns an operation of the unified API at a path and its aliases.
func RoutesOf(method, path string, handler http.HandlerFunc, op web.Route, aliases ...string) []web.Route {
	op.Tag = "Unified API"
	if op.Error == nil {
		op.Error = described.ErrorBody{}
	}
	op.Pattern, op.Permission, op.Handler = method+" "+path, access.ByKey, handler
	routes := []web.Route{op}
	op.AliasOf = op.Pattern
	for _, alias := range aliases {
		op.Pattern = method + " " + alias
		routes = append(routes, op)
	}
	return routes
}

// estimateTokens returns the reply to a request for the number of tokens that no
// backend has answered.
func estimateTokens(x *exchange) []byte {
	return messages.CountBody(messages.Estimate(&x.request), true)
}

// catalog returns the catalog that lists the models.
func (a *API) catalog() *catalog.Catalog {
	return &catalog.Catalog{Current: a.current, Keys: a.options.Keys, TrustedProxies: a.options.TrustedProxies,
		Fail: Fail}
}

// Routes returns the operations of the unified API.
func (a *API) Routes() []web.Route {
	var routes []web.Route
	add := func(method, path string, handler http.HandlerFunc, aliases ...string) {
		routes = append(routes, RoutesOf(method, path, handler, described.Operation(method+" "+path), aliases...)...)
	}
	for _, d := range doors {
		add(http.MethodPost, d.path, a.serve(d), d.aliases...)
	}
	list := a.catalog()
	add(http.MethodGet, "/v1/models", withQueryKey(list.Models), "/models")
	add(http.MethodGet, "/v1/models/{id...}", withQueryKey(list.Model), "/models/{id...}")
	add(http.MethodGet, "/v1beta/models", withQueryKey(list.GeminiModels))
	add(http.MethodGet, "/v1beta/models/{id...}", withQueryKey(list.GeminiModel))
	add(http.MethodGet, ollamaRoot+"/api/tags", list.Tags)
	add(http.MethodGet, ollamaRoot+"/api/ps", list.Processes)
	add(http.MethodGet, ollamaRoot+"/api/version", list.Version)
	add(http.MethodPost, ollamaRoot+"/api/show", list.Show)
	routes = append(routes, undescribed(list)...)
	return routes
}
