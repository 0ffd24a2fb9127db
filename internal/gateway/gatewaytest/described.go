package gatewaytest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway"
)

// Document is an OpenAPI document that replies are compared with.
type Document struct {
	Paths      map[string]map[string]Operation `json:"paths"`
	Components struct {
		Schemas map[string]map[string]any `json:"schemas"`
	} `json:"components"`

	templates sync.Map // of paths that were asked for
}

// Operation is an operation of the document.
type Operation struct {
	OperationID string `json:"operationId"`
	Parameters  []struct {
		Name string `json:"name"`
	} `json:"parameters"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

// describe returns the OpenAPI document, which is the same for every gateway:
// its operations depend on no setting. It is made once for all tests of a
// package, because that takes longer than most of them.
var describe = sync.OnceValues(func() (*Document, error) {
	text, err := gateway.OpenAPI(Version, nil)
	if err != nil {
		return nil, err
	}
	document := new(Document)
	return document, json.Unmarshal(text, document)
})

// Described returns the OpenAPI document of the gateway.
func (r *Gateway) Described() *Document {
	r.T.Helper()
	document, err := describe()
	if err != nil {
		r.T.Fatal(err)
	}
	return document
}

// checkedTransport compares every JSON reply that a test reads to its end with the
// document. It embeds the transport itself and not http.RoundTripper, because http.Client
// must find its CloseIdleConnections.
type checkedTransport struct {
	*http.Transport
	gateway *Gateway
}

func (c checkedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.Transport.RoundTrip(request)
	if err == nil && !c.gateway.BackendsLie {
		response.Body = &checkedBody{ReadCloser: response.Body, check: func(body []byte) {
			for _, fault := range c.gateway.Described().Faults(request.Method, request.URL.EscapedPath(), response,
				body) {
				c.gateway.T.Errorf("%s %s: %d %.300s\nis not as the OpenAPI document says: %s", request.Method,
					request.URL, response.StatusCode, body, fault)
			}
		}}
	}
	return response, err
}

// checkedBody keeps the bytes of a body as they are read, and checks them at its end.
type checkedBody struct {
	io.ReadCloser
	read  bytes.Buffer
	check func([]byte)
	once  sync.Once
}

func (b *checkedBody) Read(to []byte) (int, error) {
	const most = 1 << 20 // longer bodies are files or belong to load tests
	n, err := b.ReadCloser.Read(to)
	if b.read.Len() <= most {
		b.read.Write(to[:n])
	}
	if err == io.EOF && b.read.Len() <= most {
		b.once.Do(func() { b.check(b.read.Bytes()) })
	}
	return n, err
}

// Faults returns the differences between a reply and the document: its status, its
// media type, and JSON members that are missing, not described, or have a value that
// is not allowed. Replies to paths and methods that do not exist are not described.
func (d *Document) Faults(method, path string, response *http.Response, body []byte) []string {
	operation, known := d.Paths[d.template(strings.TrimSuffix(path, "/"))][strings.ToLower(method)]
	if !known {
		return nil
	}
	described, listed := operation.Responses[fmt.Sprint(response.StatusCode)]
	if !listed {
		described, listed = operation.Responses[fmt.Sprintf("%dXX", response.StatusCode/100)]
	}
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case !listed:
		return []string{"it does not list the status"}
	case len(body) == 0 && len(described.Content) == 0:
		return nil
	}
	content, listed := described.Content[strings.Replace(mediaType, "vnd.spring-boot.actuator.v3+", "", 1)]
	if !listed {
		if _, any := described.Content[strings.SplitN(mediaType, "/", 2)[0]+"/*"]; any {
			return nil
		}
		return []string{fmt.Sprintf("it does not list the media type %q", mediaType)}
	}
	if mediaType != "application/json" {
		return nil
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return []string{err.Error()}
	}
	return d.compare(content.Schema, value, "reply")
}

// template returns the path of the document that a path is an instance of; the
// one with the fewest parameters wins. It remembers its answers, because most tests
// ask for the same few paths thousands of times.
func (d *Document) template(path string) string {
	if path == "" {
		return "/"
	}
	if known, asked := d.templates.Load(path); asked {
		return known.(string)
	}
	best := d.findTemplate(path)
	d.templates.Store(path, best)
	return best
}

func (d *Document) findTemplate(path string) string {
	best, fewest := "", 0
	for candidate := range d.Paths {
		parameters := 2 * strings.Count(candidate, "{")
		if strings.Contains(candidate, "}:") {
			parameters-- // with a verb it goes before the same without one
		}
		if matches(candidate, path) && (best == "" || parameters < fewest) {
			best, fewest = candidate, parameters
		}
	}
	return best
}

// matches reports whether a path is an instance of a template. The name of a model, which
// ends it, may have slashes, and a verb may follow it.
func matches(template, path string) bool {
	if before, verb, has := strings.Cut(template, "}:"); has {
		name, found := strings.CutSuffix(path, ":"+verb)
		return found && matches(before+"}", name)
	}
	wanted, given := strings.Split(template, "/"), strings.Split(path, "/")
	hasModel := strings.HasSuffix(template, "/models/{id}") || strings.HasSuffix(template, "/models/{model}")
	if len(wanted) != len(given) && !(hasModel && len(given) > len(wanted)) {
		return false
	}
	for i, segment := range wanted {
		if segment != given[i] && !strings.HasPrefix(segment, "{") {
			return false
		}
	}
	return true
}

// compare returns the differences between a value and a schema.
func (d *Document) compare(schema map[string]any, value any, at string) []string {
	schema = d.flat(schema)
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, has := schema[keyword].([]any); has {
			return d.compareAny(list, value, at)
		}
	}
	if kinds, has := schema["type"]; has && !isOfType(kinds, value) {
		return []string{fmt.Sprintf("%s is %T, not %v", at, value, kinds)}
	}
	if names, has := schema["enum"].([]any); has && !slices.Contains(names, value) {
		return []string{fmt.Sprintf("%s is %v, not one of %v", at, value, names)}
	}
	switch value := value.(type) {
	case float64:
		return outOfBounds(schema, value, at)
	case []any:
		var faults []string
		items, _ := schema["items"].(map[string]any)
		for i, item := range value {
			faults = append(faults, d.compare(items, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
		return faults
	case map[string]any:
		return d.compareObject(schema, value, at)
	}
	return nil
}

// compareAny compares a value with alternatives and returns the shortest list of
// differences.
func (d *Document) compareAny(list []any, value any, at string) []string {
	var best []string
	for i, alternative := range list {
		faults := d.compare(alternative.(map[string]any), value, at)
		if len(faults) == 0 {
			return nil
		}
		if i == 0 || len(faults) < len(best) {
			best = faults
		}
	}
	return best
}

func (d *Document) compareObject(schema, value map[string]any, at string) []string {
	var faults []string
	properties, isStruct := schema["properties"].(map[string]any)
	others, hasOthers := schema["additionalProperties"].(map[string]any)
	isOpen := schema["additionalProperties"] == true || !isStruct && !hasOthers
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, has := value[name.(string)]; !has {
			faults = append(faults, at+" lacks "+name.(string))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(value)) {
		within := at + "." + name
		switch property, described := properties[name].(map[string]any); {
		case described:
			faults = append(faults, d.compare(property, value[name], within)...)
		case hasOthers:
			faults = append(faults, d.compare(others, value[name], within)...)
		case !isOpen:
			faults = append(faults, within+" is not described")
		}
	}
	return faults
}

// flat follows a reference and joins the parts of a schema.
func (d *Document) flat(schema map[string]any) map[string]any {
	reference, isReference := schema["$ref"].(string)
	parts, isJoined := schema["allOf"].([]any)
	if isReference {
		parts = append(parts, d.Components.Schemas[strings.TrimPrefix(reference, "#/components/schemas/")])
	}
	if !isReference && !isJoined {
		return schema
	}
	joined := map[string]any{}
	properties, required := map[string]any{}, []any{}
	for _, part := range append(parts, schema) {
		part := part.(map[string]any)
		if part["$ref"] != nil && isJoined {
			part = d.flat(part)
		}
		maps.Copy(joined, part)
		members, _ := part["properties"].(map[string]any)
		maps.Copy(properties, members)
		names, _ := part["required"].([]any)
		required = append(required, names...)
	}
	delete(joined, "$ref")
	delete(joined, "allOf")
	if len(properties) > 0 {
		joined["properties"], joined["required"] = properties, required
	}
	return joined
}

func isOfType(kinds, value any) bool {
	if list, isList := kinds.([]any); isList {
		return slices.ContainsFunc(list, func(kind any) bool { return isOfType(kind, value) })
	}
	switch value := value.(type) {
	case nil:
		return kinds == "null"
	case bool:
		return kinds == "boolean"
	case string:
		return kinds == "string"
	case []any:
		return kinds == "array"
	case map[string]any:
		return kinds == "object"
	case float64:
		return kinds == "number" || kinds == "integer" && value == float64(int64(value))
	}
	return false
}

func outOfBounds(schema map[string]any, value float64, at string) []string {
	if least, has := schema["minimum"].(float64); has && value < least {
		return []string{fmt.Sprintf("%s is %v, below %v", at, value, least)}
	}
	if most, has := schema["maximum"].(float64); has && value > most {
		return []string{fmt.Sprintf("%s is %v, above %v", at, value, most)}
	}
	return nil
}
