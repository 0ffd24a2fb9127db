package openapi

import (
	"encoding"
	"reflect"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/control"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Schema is a JSON schema.
type Schema map[string]any

func text() Schema    { return Schema{"type": "string"} }
func boolean() Schema { return Schema{"type": "boolean"} }
func integer() Schema { return Schema{"type": "integer"} }
func number() Schema  { return Schema{"type": "number"} }
func anything() Schema {
	return Schema{}
}

func maybeText() Schema { return Schema{"type": []string{"string", "null"}} }

func arrayOf(items Schema) Schema { return Schema{"type": "array", "items": items} }

func ref(name string) Schema { return Schema{"$ref": "#/components/schemas/" + name} }

func oneOf(names ...string) Schema { return Schema{"type": "string", "enum": names} }

func between(low, high float64) Schema {
	return Schema{"type": "number", "minimum": low, "maximum": high}
}

// object is an object with these properties; those that are required are named.
func object(properties map[string]Schema, required ...string) Schema {
	s := Schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// and is a schema with more properties.
func and(base Schema, properties map[string]Schema) Schema {
	return Schema{"allOf": []Schema{base, object(properties)}}
}

// envelope is data in the envelope of the management API.
func envelope(data Schema) Schema {
	if data == nil {
		data = anything()
	}
	return object(map[string]Schema{"success": boolean(), "message": text(), "data": data}, "success", "message", "data")
}

// Of describes the JSON of a Go value by its type, so that the settings need
// not be written down twice.
func Of(value any) Schema { return schemaOf(reflect.TypeOf(value)) }

func schemaOf(t reflect.Type) Schema {
	switch t {
	case reflect.TypeFor[schema.Duration]():
		return Schema{"type": []string{"integer", "string"}, "description": "Milliseconds, or a text such as 30s."}
	case reflect.TypeFor[time.Time]():
		return Schema{"type": "string", "format": "date-time"}
	case reflect.TypeFor[schema.ServiceType]():
		return ref("ServiceType")
	case reflect.TypeFor[backend.Secret]():
		return text()
	}
	if named, ok := reflect.Zero(t).Interface().(interface{ Names() []string }); ok {
		return oneOf(named.Names()...)
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return text()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Bool:
		return boolean()
	case reflect.Int, reflect.Int64:
		return integer()
	case reflect.Float64:
		return number()
	case reflect.String:
		return text()
	case reflect.Slice:
		return arrayOf(schemaOf(t.Elem()))
	case reflect.Map:
		return Schema{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		return object(propertiesOf(t))
	}
	return anything()
}

func propertiesOf(t reflect.Type) map[string]Schema {
	properties := make(map[string]Schema)
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			for name, s := range propertiesOf(field.Type) {
				properties[name] = s
			}
		case name != "" && name != "-":
			properties[name] = schemaOf(field.Type)
		}
	}
	return properties
}

// components are the schemas that others refer to.
func components() map[string]Schema {
	var names []string
	for _, serviceType := range schema.ServiceTypes() {
		names = append(names, serviceType.String())
	}
	service := Of(config.Service{})
	service["properties"].(map[string]Schema)["instances"] = arrayOf(ref("Instance"))
	instance := Of(backend.Settings{})
	instance["required"] = []string{"name", "baseUrl"}
	instance["properties"].(map[string]Schema)["instanceId"] = Schema{"type": "string", "readOnly": true}
	instance["properties"].(map[string]Schema)["references"] = Schema{
		"type": "array", "items": text(), "readOnly": true,
		"description": "The secrets that the configuration file gave as references, such as ${KEY}; they are shown as written there.",
	}
	return map[string]Schema{
		"ServiceType": {"type": "string", "enum": names, "description": "Read in every spelling: imgGen, img-gen, IMG_GEN."},
		"Service":     service,
		"Instance":    instance,
		"Difference":  Of(control.Difference{}),
		"Change": object(map[string]Schema{
			"version": integer(), "changed": boolean(), "summary": text(), "dryRun": boolean(),
			"instanceId": text(), "changes": arrayOf(ref("Difference")),
		}),
		"Fault": and(envelope(Schema{"type": "null"}), map[string]Schema{
			"errorCode": {"type": "string", "description": "Of the quota ledger: RESTART_REQUIRED or INVALID_REQUEST."},
		}),
		"MonitoringError": object(map[string]Schema{"error": text()}, "error"),
		"ActuatorError": object(map[string]Schema{
			"timestamp": text(), "status": integer(), "error": text(), "path": text(), "message": text(),
		}, "timestamp", "status", "error", "path"),
		"Error": object(map[string]Schema{"error": object(map[string]Schema{
			"message": text(), "type": text(), "param": {"type": []string{"string", "null"}}, "code": text(), "details": anything(),
		}, "message", "type", "param", "code")}, "error"),
		"Usage": object(map[string]Schema{"prompt_tokens": integer(), "completion_tokens": integer(), "total_tokens": integer()}),
		"Key": object(map[string]Schema{
			"id": text(), "tenant": text(), "services": arrayOf(ref("ServiceType")), "models": arrayOf(text()),
			"expiresAt": {"type": "string", "description": "Empty for a key that does not expire."}, "status": oneOf("ACTIVE", "EXPIRED", "REVOKED", "UNREADABLE"),
			"source": oneOf("config", "issued"), "key": {"type": "string", "description": "Only in the reply that issues it."},
		}),
		"Token": object(map[string]Schema{
			"name": text(), "role": oneOf("ADMIN", "OPERATOR", "VIEWER"),
			"expiresAt": {"type": "string", "description": "Empty for a token that does not expire."}, "status": oneOf("ACTIVE", "EXPIRED", "REVOKED", "UNREADABLE"),
			"source": oneOf("config", "issued"), "token": {"type": "string", "description": "Only in the reply that issues or rotates it."},
		}),
	}
}
