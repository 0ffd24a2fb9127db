package simulator

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// gemini is the dialect of Google's Gemini API.
type gemini struct{}

func (gemini) errorBody(status int, problem apiError) []byte {
	return []byte(GeminiError(problem.message, status))
}

func (gemini) errorEvent(message string) []byte {
	return []byte("data: " + GeminiError(message, http.StatusServiceUnavailable) + "\r\n\r\n")
}

func (gemini) key(x *exchange) string {
	r := x.request
	if key := r.Header.Get("X-Goog-Api-Key"); key != "" {
		return key
	}
	return r.URL.Query().Get("key")
}

// GeminiError returns an error body in Gemini's shape.
func GeminiError(message string, status int) string {
	out := strconv.AppendInt([]byte(`{"error":{"code":`), int64(status), 10)
	out = appendString(append(out, `,"message":`...), message)
	out = appendString(append(out, `,"status":`...), geminiStatus(status))
	return string(append(out, "}}"...))
}

func geminiStatus(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status >= http.StatusInternalServerError {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

const geminiPath = "/v1beta/models/"

// geminiCall splits the path of a request into the model and the method.
func geminiCall(path string) (model, method string, found bool) {
	call, found := strings.CutPrefix(path, geminiPath)
	if !found {
		return "", "", false
	}
	return strings.Cut(call, ":")
}

// answerGemini serves POST /v1beta/models/{model}:{method}.
func answerGemini(x *exchange) {
	model, method, found := geminiCall(x.request.URL.Path)
	if found && !x.backend.knows(model) {
		x.fail(http.StatusNotFound, apiError{message: "models/" + model +
			" is not found for API version v1beta, or is not supported for " + method + "."})
		return
	}
	switch method {
	case "generateContent", "streamGenerateContent":
		answerGeminiChat(x, model, method == "streamGenerateContent")
	case "embedContent", "batchEmbedContents":
		answerGeminiEmbed(x, method == "batchEmbedContents")
	default:
		answerUnknownPath(x)
	}
}

// answerGeminiModels serves GET /v1beta/models.
func answerGeminiModels(x *exchange) {
	out := []byte(`{"models":[`)
	for i, name := range x.backend.models() {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendString(append(out, `{"name":`...), "models/"+name)
		out = appendString(append(out, `,"version":"simulated","displayName":`...), name)
		out = append(out, `,"supportedGenerationMethods":["generateContent","embedContent"]}`...)
	}
	x.send(http.StatusOK, "application/json; charset=UTF-8", append(out, "]}"...))
}

// decodeGemini reads a body. Its names may be written in both of the ways that the API
// takes.
func (x *exchange) decodeGemini(request any) bool {
	if err := json.Unmarshal(x.body, request, lenient(), json.MatchCaseInsensitiveNames(true)); err != nil {
		x.fail(http.StatusBadRequest, apiError{message: "Invalid JSON payload received. " + err.Error()})
		return false
	}
	return true
}

// geminiContent is a message.
type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text         string         `json:"text"`
	InlineData   jsontext.Value `json:"inlineData"`
	FileData     jsontext.Value `json:"fileData"`
	FunctionCall struct {
		Name string         `json:"name"`
		Args jsontext.Value `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *struct {
		Response jsontext.Value `json:"response"`
	} `json:"functionResponse"`
}

func (c *geminiContent) text() string {
	var text strings.Builder
	for i := range c.Parts {
		text.WriteString(c.Parts[i].Text)
	}
	return text.String()
}

// geminiEmbedding asks for one vector.
type geminiEmbedding struct {
	Content              geminiContent `json:"content"`
	OutputDimensionality *wholeNumber  `json:"outputDimensionality"`
}

// answerGeminiEmbed serves embedContent and batchEmbedContents.
func answerGeminiEmbed(x *exchange, batch bool) {
	var request struct {
		geminiEmbedding
		Requests []geminiEmbedding `json:"requests"`
	}
	if !x.decodeGemini(&request) {
		return
	}
	wanted, out := request.Requests, []byte(`{"embeddings":[`)
	if !batch {
		wanted, out = []geminiEmbedding{request.geminiEmbedding}, []byte(`{"embedding":`)
	}
	tokens := 0
	for i := range wanted {
		dimensions, ok := dimensionsOf(wanted[i].OutputDimensionality)
		if !ok || len(wanted[i].Content.Parts) == 0 || len(wanted) > mostInputs {
			x.fail(http.StatusBadRequest, apiError{message: "Request contains an invalid argument."})
			return
		}
		if i > 0 {
			out = append(out, ',')
		}
		one := textToEmbed(wanted[i].Content.text())
		out = append(appendVector(append(out, `{"values":`...), embed(one.words, dimensions)), '}')
		tokens += one.tokens
	}
	if batch {
		out = append(out, ']')
	}
	if x.isRead("", tokens) {
		x.send(http.StatusOK, "application/json; charset=UTF-8", x.step.close(out))
	}
}
