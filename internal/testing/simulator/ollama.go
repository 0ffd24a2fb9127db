package simulator

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ollama is the dialect of Ollama's own API.
type ollama struct{}

func (ollama) errorBody(_ int, problem apiError) []byte { return []byte(ErrorText(problem.message)) }

func (ollama) errorEvent(message string) []byte { return []byte(ErrorText(message) + "\n") }

func (ollama) key(x *exchange) string { return bearer(x.request) }

const (
	// perToken makes durations, in nanoseconds, that are plausible and the same
	// each time.
	perToken     = int64(DemoTokenDelay / time.Nanosecond)
	loadDuration = int64(time.Millisecond)
)

// decodeOllama reads the body of a request and checks that it names a known model.
// If not, it answers with an error and returns false.
func (x *exchange) decodeOllama(request any, model *string) bool {
	switch {
	case len(x.body) == 0:
		x.fail(http.StatusBadRequest, apiError{message: "missing request body"})
		return false
	case !x.decode(request):
		return false
	case *model == "":
		x.fail(http.StatusBadRequest, apiError{message: "model is required"})
		return false
	case !x.backend.knows(*model) && !x.backend.knows(strings.TrimSuffix(*model, ":latest")):
		x.fail(http.StatusNotFound, apiError{message: "model '" + *model + "' not found"})
		return false
	}
	return true
}

// answerOllamaVersion serves GET /api/version.
func answerOllamaVersion(x *exchange) {
	x.send(http.StatusOK, "application/json; charset=utf-8", []byte(`{"version":"0.17.4"}`))
}

// answerOllamaTags serves GET /api/tags.
func answerOllamaTags(x *exchange) {
	out := []byte(`{"models":[`)
	for i, name := range x.backend.models() {
		if i > 0 {
			out = append(out, ',')
		}
		digest := strings.Repeat(hex(seedOf(name)), 4)
		if !strings.Contains(name, ":") {
			name += ":latest"
		}
		out = appendString(append(out, `{"name":`...), name)
		out = appendString(append(out, `,"model":`...), name)
		out = append(out, `,"modified_at":"2026-01-01T00:00:00Z","size":1,"digest":"`+digest+`",`+
			`"details":{"parent_model":"","format":"simulated","family":"simulated","families":["simulated"],`+
			`"parameter_size":"0","quantization_level":"none"}}`...)
	}
	x.send(http.StatusOK, "application/json; charset=utf-8", append(out, "]}"...))
}

// answerOllamaEmbed serves POST /api/embed.
func answerOllamaEmbed(x *exchange) {
	var request struct {
		Model      string         `json:"model"`
		Input      jsontext.Value `json:"input"`
		Dimensions *wholeNumber   `json:"dimensions"`
		KeepAlive  jsontext.Value `json:"keep_alive"`
	}
	if !x.decodeOllama(&request, &request.Model) {
		return
	}
	x.keepFor(request.KeepAlive)
	var texts []string
	switch input := given(request.Input); {
	case input == nil: // as if the list were empty
	case input.Kind() == '"':
		texts = []string{unquote(input)}
	default:
		if json.Unmarshal(input, &texts, lenient()) != nil || len(texts) > mostInputs {
			x.fail(http.StatusBadRequest, apiError{message: "invalid input type"})
			return
		}
	}
	dimensions, ok := dimensionsOf(request.Dimensions)
	if !ok {
		x.fail(http.StatusBadRequest, apiError{message: "dimensions must be between 1 and " +
			strconv.Itoa(mostDimensions)})
		return
	}
	if !x.needs(request.Model) {
		return
	}
	out, tokens := appendString([]byte(`{"model":`), request.Model), 0
	out = append(out, `,"embeddings":[`...)
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		one := textToEmbed(text)
		out = appendVector(out, embed(one.words, dimensions))
		tokens += one.tokens
	}
	out = append(out, ']')
	if !x.isRead(request.Model, tokens) {
		return
	}
	if x.step.Usage&UsageNone == 0 {
		out = strconv.AppendInt(append(out, `,"total_duration":`...), loadDuration+int64(tokens)*perToken, 10)
		out = strconv.AppendInt(append(out, `,"load_duration":`...), loadDuration, 10)
		out = strconv.AppendInt(append(out, `,"prompt_eval_count":`...), int64(tokens), 10)
	}
	x.send(http.StatusOK, "application/json; charset=utf-8", x.step.close(out))
}
