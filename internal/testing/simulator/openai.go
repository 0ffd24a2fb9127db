package simulator

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
)

// apiError is an error in OpenAI's form; param and code may be empty.
type apiError struct{ message, kind, param, code string }

func (e apiError) json() []byte {
	out := appendString([]byte(`{"error":{"message":`), e.message)
	out = appendString(append(out, `,"type":`...), e.kind)
	out = appendStringOrNull(append(out, `,"param":`...), e.param)
	out = appendStringOrNull(append(out, `,"code":`...), e.code)
	return append(out, "}}"...)
}

// openAI is the dialect of OpenAI and compatible servers.
type openAI struct{}

func (openAI) errorBody(_ int, problem apiError) []byte { return problem.json() }

func (openAI) errorEvent(message string) []byte {
	return []byte(ErrorEvent(message, "server_error", "simulated_fault"))
}

func (openAI) key(x *exchange) string { return bearer(x.request) }

func invalidRequest(param, code, message string) *apiError {
	return &apiError{message: message, kind: "invalid_request_error", param: param, code: code}
}

func answerHealth(x *exchange) {
	x.send(http.StatusOK, "application/json", []byte(`{"status":"ok"}`))
}

// answerModels lists the known models, or one model with a name of its own if the
// backend accepts every name.
func answerModels(x *exchange) {
	out := []byte(`{"object":"list","data":[`)
	for i, name := range x.backend.models() {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendString(append(out, `{"id":`...), name)
		out = appendString(append(out, `,"object":"model","created":1767225600,"owned_by":`...), x.backend.options.Name)
		if window := x.backend.options.Window; window > 0 {
			out = fmt.Appendf(out, `,"max_model_len":%d`, window)
		}
		out = append(out, '}')
	}
	out = x.backend.appendAdapters(out)
	x.send(http.StatusOK, "application/json", append(out, "]}"...))
}

// models returns the names that the backend lists.
func (b *Backend) models() []string {
	names := slices.Clone(b.options.Models)
	for _, name := range slices.Sorted(maps.Keys(b.options.Behaviours)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{"simulated"}
	}
	return names
}

// decode reads the JSON body of a request. If it is invalid, decode answers with an
// error and returns false.
func (x *exchange) decode(request any) bool {
	if err := json.Unmarshal(x.body, request, lenient()); err != nil {
		x.fail(http.StatusBadRequest, *invalidRequest("", "invalid_json",
			"We could not parse the body of your request: "+err.Error()))
		return false
	}
	return true
}

// serves reports whether the backend serves the model of a request. If not, it
// answers with an error.
func (x *exchange) serves(model string) bool {
	switch {
	case model == "":
		x.fail(http.StatusBadRequest, *invalidRequest("model", "missing_required_parameter",
			"You must provide a model parameter."))
		return false
	case !x.backend.knows(model):
		x.fail(http.StatusNotFound, *invalidRequest("model", "model_not_found", "The model '"+model+
			"' does not exist."))
		return false
	}
	return true
}

// refuse answers that a parameter is missing or wrong.
func (x *exchange) refuse(param, message string) {
	x.fail(http.StatusBadRequest, *invalidRequest(param, "invalid_value", message))
}

func answerUnknownPath(x *exchange) {
	x.fail(http.StatusNotFound, *invalidRequest("", "unknown_url",
		"Unknown request URL: "+x.request.Method+" "+x.request.URL.Path+"."))
}

// appendString adds a JSON string. Bytes above ASCII pass as they are, valid
// or not, because a step may want a text that is no UTF-8.
func appendString(dst []byte, text string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(append(dst, text[from:]...), '"')
}

func appendStringOrNull(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, text)
}
