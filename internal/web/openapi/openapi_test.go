package openapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
)

// described is what the OpenAPI document says about an operation.
type described struct {
	Responses map[string]struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

type openAPI struct {
	Paths      map[string]map[string]described `json:"paths"`
	Components struct {
		Schemas map[string]map[string]any `json:"schemas"`
	} `json:"components"`
}

// missing returns what a schema requires of a value and the value lacks.
func (d *openAPI) missing(schema map[string]any, value any) (names []string) {
	if ref, ok := schema["$ref"].(string); ok {
		return d.missing(d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")], value)
	}
	parts, _ := schema["allOf"].([]any)
	for _, part := range parts {
		names = append(names, d.missing(part.(map[string]any), value)...)
	}
	members, _ := value.(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		member, there := members[name.(string)]
		if !there {
			names = append(names, name.(string))
			continue
		}
		properties, _ := schema["properties"].(map[string]any)
		if property, ok := properties[name.(string)].(map[string]any); ok {
			names = append(names, d.missing(property, member)...)
		}
	}
	return names
}

// TestRepliesAreAsDescribed asks every operation well and badly: each answer has
// a status that the document lists for it, and what the document requires of it.
func TestRepliesAreAsDescribed(t *testing.T) {
	for name, header := range map[string][]string{"open": nil, "with a token": {"Authorization", "Bearer admin-token"}, "without a token": {"X-Nothing", "x"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			yaml := ""
			if header != nil {
				yaml = gatewaytest.SecuredYAML()
			}
			r := gatewaytest.Start(t, yaml)
			var document openAPI
			if err := json.Unmarshal([]byte(r.Do("GET", "/openapi.json", "").Succeeds(t).Body), &document); err != nil {
				t.Fatal(err)
			}
			for path, item := range document.Paths {
				for method, operation := range item {
					if path == "/api/monitoring/stream" {
						continue // it has no end
					}
					isAsDescribed(r, &document, strings.ToUpper(method), path, operation, header)
				}
			}
		})
	}
}

func isAsDescribed(r *gatewaytest.Gateway, document *openAPI, method, path string, operation described, header []string) {
	r.T.Helper()
	known := strings.NewReplacer("{serviceType}", "chat", "{version}", "1", "{name}", "ROOT", "{component}", "ping", "{file}", "viewer.js")
	unknown := strings.NewReplacer("{serviceType}", "video", "{version}", "999", "{name}", "nobody", "{component}", "nobody", "{file}", "nothing.js")
	bodies := []string{""}
	if method == http.MethodPost || method == http.MethodPut {
		bodies = []string{"", "{}", "[", `{"loadBalancer":"random"}`, `{"name":"n","baseUrl":"http://127.0.0.1:9"}`,
			`{"enabled":true}`, `{"level":"NORMAL"}`, `{"configuredLevel":"INFO"}`}
	}
	if method == http.MethodPost || method == http.MethodPut {
		answersAsDescribed(r, document, method, known.Replace(path), strings.Repeat(" ", 2<<20), operation, header)
	}
	for _, fill := range []*strings.Replacer{known, unknown} {
		target := gatewaytest.PathParameter.ReplaceAllString(fill.Replace(path), "nobody")
		for _, query := range []string{"", "?page=1&size=5&dryRun=true", "?page=x&dryRun=x&window=x&limit=x&tag=x&details=x"} {
			for _, body := range bodies {
				answersAsDescribed(r, document, method, target+query, body, operation, header)
			}
		}
	}
}

func answersAsDescribed(r *gatewaytest.Gateway, document *openAPI, method, target, body string, operation described, header []string) {
	r.T.Helper()
	answer := r.Do(method, target, body, header...)
	what := fmt.Sprintf("%s %s with %.40q: %d %.200s", method, target, body, answer.Status, answer.Body)
	response, listed := operation.Responses[fmt.Sprint(answer.Status)]
	if !listed {
		r.T.Errorf("%s is not described", what)
		return
	}
	schema := response.Content["application/json"].Schema
	if schema == nil || answer.Body == "" {
		return
	}
	var value any
	if err := json.Unmarshal([]byte(answer.Body), &value); err != nil {
		r.T.Errorf("%s: %v", what, err)
	}
	if missing := document.missing(schema, value); len(missing) > 0 {
		r.T.Errorf("%s lacks %v", what, missing)
	}
}
