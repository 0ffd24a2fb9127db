// Package openapi describes everything that the gateway serves as an OpenAPI 3.1 document;
// a page of the console shows it.
//
// The document is derived from the routes and from the Go types that they name. Tags of
// struct fields add facts that a type cannot express: required:"true" for members that a
// request must have, requiredWithout for one that it must have unless it has another one
// (or a list, "x nonempty"), doc for a description, enum for names, example for a value to
// try, and keywords of JSON schema such as minimum and pattern. A method Docs has the
// descriptions that are too long for a tag.
package openapi

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// ordered is a JSON object that writes its members in the order of their addition.
type ordered struct {
	names  []string
	values map[string]any
}

func (o *ordered) set(name string, value any) {
	if _, known := o.values[name]; !known {
		o.names = append(o.names, name)
	}
	if o.values == nil {
		o.values = make(map[string]any)
	}
	o.values[name] = value
}

// MarshalJSONTo writes the members in their order.
func (o *ordered) MarshalJSONTo(to *jsontext.Encoder) error {
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, name := range o.names {
		if err := to.WriteToken(jsontext.String(name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(to, o.values[name]); err != nil {
			return err
		}
	}
	return to.WriteToken(jsontext.EndObject)
}

// Document returns the OpenAPI document of the routes as JSON, with the
// operations in the order of the routes.
func Document(version string, routes []web.Route) ([]byte, error) {
	d := newDeriver()
	paths, tags, tagged := new(ordered), []any{}, map[string]bool{}
	for i := range routes {
		route := &routes[i]
		if route.Undescribed {
			continue
		}
		method, path, _ := strings.Cut(route.Pattern, " ")
		path = restOfPath.ReplaceAllString(path, "}")
		item, _ := paths.values[path].(*ordered)
		if item == nil {
			item = new(ordered)
			paths.set(path, item)
		}
		item.set(strings.ToLower(method), d.operation(route))
		if !tagged[route.Tag] {
			tagged[route.Tag] = true
			tags = append(tags, map[string]any{"name": route.Tag})
		}
	}
	if d.err != nil {
		return nil, d.err
	}
	document := new(ordered)
	document.set("openapi", "3.1.0")
	document.set("info", map[string]any{
		"title": "Patchbay", "version": version,
		"description": "One OpenAI-compatible API in front of AI backends (/v1), and the API that manages it (/api, " +
			"/actuator).",
	})
	document.set("tags", tags)
	document.set("paths", paths)
	document.set("components", map[string]any{
		"schemas": d.components,
		"securitySchemes": map[string]any{
			"key": map[string]any{"type": "http", "scheme": "bearer", "description": "An API key of the unified " +
				"API, where security is on and keys exist."},
			"token": map[string]any{"type": "http", "scheme": "bearer", "description": "A management token, where " +
				"security is on."},
		},
	})
	return json.Marshal(document, json.Deterministic(true))
}

var (
	// restOfPath matches the end of a parameter that takes the rest of a path.
	restOfPath    = regexp.MustCompile(`\.\.\.}`)
	pathParameter = regexp.MustCompile(`{(\w+)(\.\.\.)?}`)
)

// operation makes the operation object of a route.
func (d *deriver) operation(route *web.Route) map[string]any {
	summary := route.Summary
	if route.AliasOf != "" {
		summary += " (the same as " + route.AliasOf + ")"
	}
	object := map[string]any{
		"operationId": operationID(route.Pattern),
		"tags":        []string{route.Tag},
		"summary":     summary,
		"responses":   d.responses(route),
	}
	if parameters := d.parameters(route); len(parameters) > 0 {
		object["parameters"] = parameters
	}
	if route.Body != nil {
		object["requestBody"] = map[string]any{"required": true, "content": map[string]any{
			cmp.Or(route.BodyType,
				mediaJSON): map[string]any{"schema": d.of(reflect.TypeOf(route.Body), bodyDirection(route))},
		}}
	}
	switch route.Permission {
	case access.Anyone:
	case access.ByKey:
		object["security"] = []any{map[string]any{}, map[string]any{"key": []string{}}}
	default:
		object["security"] = []any{map[string]any{}, map[string]any{"token": []string{}}}
		object["x-permission"] = route.Permission
		if route.Team.Valid() {
			object["x-team-role"] = route.Team
		}
	}
	return object
}

// bodyDirection distinguishes forms, which have no null, from JSON.
func bodyDirection(route *web.Route) direction {
	if route.BodyType != "" {
		return inForm
	}
	return inRequest
}

// operationID makes a name of a route: getApiModels.
func operationID(route string) string {
	words := strings.FieldsFunc(route, func(r rune) bool { return !isAlphanumeric(r) })
	for i, word := range words {
		if i == 0 {
			words[i] = strings.ToLower(word)
			continue
		}
		words[i] = upperFirst(word)
	}
	return strings.Join(words, "")
}

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// dryRunQuery and ifMatchHeader are the terms of changes, which all handlers
// read alike.
type dryRunQuery struct {
	DryRun web.Switch `json:"dryRun" doc:"Validate, tell what would change, and change nothing."`
}

// versionTags are versions as a header names them.
type versionTags string

// Keywords describe the header.
func (versionTags) Keywords() map[string]any {
	const one = `([1-9][0-9]{0,8}|(W/)?"[1-9][0-9]{0,8}")?`
	return map[string]any{"pattern": `^(\*|` + one + `( ?, ?` + one + `)*)$`}
}

type ifMatchHeader struct {
	IfMatch versionTags `json:"If-Match"`
}

// Docs says more about some members than a tag has room for.
func (ifMatchHeader) Docs() map[string]string {
	return map[string]string{
		"If-Match": "The version that the change is based on, or several with commas between them; 409 if none " +
			"of them is current.",
	}
}

func (d *deriver) parameters(route *web.Route) []any {
	var list []any
	for _, match := range pathParameter.FindAllStringSubmatch(route.Pattern, -1) {
		list = append(list,
			map[string]any{"name": match[1], "in": "path", "required": true, "schema": d.pathSchema(match[1])})
	}
	list = append(list, d.fields("query", route.Query)...)
	isWrite := !strings.HasPrefix(route.Pattern, http.MethodGet+" ")
	if route.Enveloped && isWrite && !route.NoDryRun {
		list = append(list, d.fields("query", dryRunQuery{})...)
	}
	if route.Versioned {
		list = append(list, d.fields("header", ifMatchHeader{})...)
	}
	return list
}

// fields makes a parameter of each field of a struct.
func (d *deriver) fields(place string, value any) []any {
	if value == nil {
		return nil
	}
	var list []any
	fields, _ := membersOf(reflect.TypeOf(value))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field := fields[name]
		s := described(d.of(field.Type, inRequest), field.Tag)
		p := map[string]any{"name": name, "in": place, "required": field.Tag.Get("required") == "true", "schema": s}
		if text := field.Tag.Get("doc"); text != "" {
			p["description"] = text
			delete(s, "description")
		}
		list = append(list, p)
	}
	return list
}

func (d *deriver) pathSchema(name string) Schema {
	switch name {
	case "serviceType":
		return d.enumeration("ServiceType", serviceTypes())
	case "version":
		return Schema{"type": "integer", "format": "int64"}
	}
	return Schema{"type": "string"}
}

const mediaJSON = "application/json"

// responses describes the replies of a route, by status.
func (d *deriver) responses(route *web.Route) map[string]any {
	status := cmp.Or(route.Status, http.StatusOK)
	content := make(map[string]any)
	if route.Reply != nil {
		s := d.of(reflect.TypeOf(route.Reply), inReply)
		if route.Enveloped {
			s = Schema{"allOf": []Schema{d.of(reflect.TypeFor[success](), inReply),
				{"type": "object", "required": []string{"data"}, "properties": map[string]Schema{"data": s}}}}
		}
		content[mediaJSON] = map[string]any{"schema": s}
	}
	for mediaType, value := range route.Media {
		s := d.of(reflect.TypeOf(value), inReply)
		switch {
		case strings.HasPrefix(mediaType, "audio/"):
			s = Schema{"type": "string", "format": "binary"}
		case mediaType == "text/event-stream" && value == "":
			s = Schema{"description": "Server-sent events."}
		}
		content[mediaType] = map[string]any{"schema": s}
	}
	responses := map[string]any{strconv.Itoa(status): response(http.StatusText(status), content)}
	if status == http.StatusCreated {
		// An existing object is changed, and a dry run makes nothing.
		responses[strconv.Itoa(http.StatusOK)] = response("Nothing was created", content)
	}
	for status, form := range faults(route) {
		s := d.of(form, inReply)
		responses[status] = response(faultText(route, status), map[string]any{mediaJSON: map[string]any{"schema": s}})
	}
	return responses
}

func response(description string, content map[string]any) map[string]any {
	r := map[string]any{"description": description}
	if len(content) > 0 {
		r["content"] = content
	}
	return r
}

// success is the envelope of the management API around the data of a reply.
type success struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
}
