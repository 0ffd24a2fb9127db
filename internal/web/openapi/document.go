// Package openapi describes everything that the gateway serves as an OpenAPI 3.1
// document, and shows it on a page that needs nothing from elsewhere. To add an
// operation, add a row to one of the tables; a test compares them with the
// routes.
package openapi

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// Operation describes one route.
type Operation struct {
	// Route is the pattern of the route, and Aliases are others that do the same.
	Route   string
	Aliases []string
	Tag     string
	Summary string
	Query   []Parameter
	// Body is what the request carries; nil means nothing.
	Body Schema
	// BodyType is its media type, application/json if empty.
	BodyType string
	// Reply is the data of the reply, inside the envelope if Enveloped.
	Reply     Schema
	ReplyType string
	Enveloped bool
	// Status is that of success, 200 if 0.
	Status int
}

// Parameter is one of the query.
type Parameter struct {
	Name, Description string
	Required          bool
	Schema            Schema
}

// Operations returns the description of every route.
func Operations() []Operation {
	var all []Operation
	all = append(all, unified()...)
	all = append(all, services()...)
	all = append(all, instances()...)
	all = append(all, versions()...)
	all = append(all, keys()...)
	all = append(all, tokens()...)
	all = append(all, quotas()...)
	all = append(all, actuator()...)
	all = append(all, monitoring()...)
	all = append(all, operations()...)
	all = append(all, documents()...)
	return all
}

// Document returns the OpenAPI document of the routes.
func Document(version string, routes []web.Route) map[string]any {
	permissions := make(map[string]access.Permission, len(routes))
	for _, route := range routes {
		permissions[route.Pattern] = route.Permission
	}
	paths := make(map[string]map[string]any)
	for _, op := range Operations() {
		for _, route := range append([]string{op.Route}, op.Aliases...) {
			method, path, _ := strings.Cut(route, " ")
			path = rest.ReplaceAllString(path, "}")
			if paths[path] == nil {
				paths[path] = make(map[string]any)
			}
			paths[path][strings.ToLower(method)] = op.object(route, permissions[route])
		}
	}
	return map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Patchbay", "version": version,
			"description": "One OpenAI-compatible API in front of AI backends (/v1), and the API that manages it (/api, /actuator).",
		},
		"paths": paths,
		"components": map[string]any{
			"schemas": components(),
			"securitySchemes": map[string]any{
				"key":   map[string]any{"type": "http", "scheme": "bearer", "description": "An API key of the unified API, where security is on and keys exist."},
				"token": map[string]any{"type": "http", "scheme": "bearer", "description": "A management token, where security is on."},
			},
		},
	}
}

// rest matches the end of a parameter that takes the rest of a path.
var rest = regexp.MustCompile(`\.\.\.}`)

var parameter = regexp.MustCompile(`{(\w+)(\.\.\.)?}`)

// object is the operation object of one of the operation's routes.
func (op *Operation) object(route string, permission access.Permission) map[string]any {
	summary := op.Summary
	if route != op.Route {
		summary += " (the same as " + op.Route + ")"
	}
	object := map[string]any{
		"operationId": operationID(route),
		"tags":        []string{op.Tag},
		"summary":     summary,
		"responses":   op.responses(permission),
	}
	if parameters := op.parameters(route, permission); len(parameters) > 0 {
		object["parameters"] = parameters
	}
	if op.Body != nil {
		object["requestBody"] = map[string]any{"required": true, "content": content(op.BodyType, op.Body)}
	}
	switch permission {
	case access.Anyone:
	case access.ByKey:
		object["security"] = []any{map[string]any{}, map[string]any{"key": []string{}}}
	default:
		object["security"] = []any{map[string]any{}, map[string]any{"token": []string{}}}
		object["x-permission"] = permission
	}
	return object
}

// operationID makes a name of a route: getApiModels.
func operationID(route string) string {
	words := strings.FieldsFunc(route, func(r rune) bool { return !isAlphanumeric(r) })
	for i, word := range words {
		if i == 0 {
			words[i] = strings.ToLower(word)
			continue
		}
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func (op *Operation) parameters(route string, permission access.Permission) []any {
	var list []any
	for _, match := range parameter.FindAllStringSubmatch(route, -1) {
		list = append(list, map[string]any{"name": match[1], "in": "path", "required": true, "schema": pathSchema(match[1])})
	}
	for _, p := range op.Query {
		list = append(list, map[string]any{"name": p.Name, "in": "query", "required": p.Required, "description": p.Description, "schema": p.Schema})
	}
	isWrite := !strings.HasPrefix(route, http.MethodGet+" ")
	if op.Enveloped && isWrite && permission != access.ByKey {
		list = append(list, map[string]any{"name": "dryRun", "in": "query", "schema": boolean(), "description": "Validate, tell what would change, and change nothing."})
	}
	if isWrite && op.changes() {
		list = append(list, map[string]any{"name": "If-Match", "in": "header", "schema": text(), "description": "The version that the change is based on; 409 if it is no longer current."})
	}
	return list
}

// changes reports whether the operation changes the configuration, which has
// versions; it then answers with what it did.
func (op *Operation) changes() bool { return op.Reply["$ref"] == ref("Change")["$ref"] }

func pathSchema(name string) Schema {
	switch name {
	case "serviceType":
		return ref("ServiceType")
	case "version":
		return integer()
	}
	return text()
}

func (op *Operation) responses(permission access.Permission) map[string]any {
	status := cmp.Or(op.Status, http.StatusOK)
	reply := op.Reply
	if op.Enveloped {
		reply = envelope(reply)
	}
	success := map[string]any{"description": http.StatusText(status)}
	if reply != nil {
		success["content"] = content(op.ReplyType, reply)
	}
	responses := map[string]any{strconv.Itoa(status): success}
	if status == http.StatusCreated {
		// What was there before is changed, and a dry run makes nothing.
		responses[strconv.Itoa(http.StatusOK)] = map[string]any{"description": "Nothing was created", "content": content(op.ReplyType, reply)}
	}
	for status, form := range op.faults(permission) {
		responses[strconv.Itoa(status)] = map[string]any{"description": http.StatusText(status), "content": content("", form)}
	}
	return responses
}

func content(mediaType string, schema Schema) map[string]any {
	return map[string]any{cmp.Or(mediaType, "application/json"): map[string]any{"schema": schema}}
}

// Check reports every route without a description and every description
// without a route.
func Check(routes []web.Route) []error {
	described := make(map[string]bool)
	var errs []error
	for _, op := range Operations() {
		for _, route := range append([]string{op.Route}, op.Aliases...) {
			if described[route] {
				errs = append(errs, fmt.Errorf("%s is described twice", route))
			}
			described[route] = true
		}
		if op.Summary == "" || op.Tag == "" {
			errs = append(errs, fmt.Errorf("%s has no summary or no tag", op.Route))
		}
	}
	for _, route := range routes {
		if !described[route.Pattern] {
			errs = append(errs, fmt.Errorf("%s is served and not described; add a row to internal/web/openapi", route.Pattern))
		}
		delete(described, route.Pattern)
	}
	for route := range described {
		errs = append(errs, fmt.Errorf("%s is described and not served", route))
	}
	return errs
}
