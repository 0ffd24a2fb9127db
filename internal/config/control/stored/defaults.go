package stored

import (
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// WithoutDefaults encodes services without the settings that have their defaults. A
// release that changes a default then does not take that for an edit of the file.
func WithoutDefaults(services map[schema.ServiceType]config.Service) jsontext.Value {
	serviceDefaults, instanceDefaults := Tree(config.DefaultService()), Tree(backend.DefaultSettings())
	encoded, _ := Marshal(services) // settings can always be encoded
	tree := Tree(jsontext.Value(encoded))
	for _, value := range tree {
		service, _ := value.(map[string]any)
		instances, _ := service["instances"].([]any)
		for _, instance := range instances {
			if settings, ok := instance.(map[string]any); ok {
				dropEqual(settings, instanceDefaults)
			}
		}
		dropEqual(service, serviceDefaults)
	}
	data, _ := json.Marshal(tree, json.Deterministic(true)) // it came from JSON
	return data
}

// Tree returns settings as JSON has them. Settings can always be encoded.
func Tree(settings any) map[string]any {
	data, _ := json.Marshal(settings)
	var tree map[string]any
	_ = json.Unmarshal(data, &tree)
	return tree
}

// dropEqual removes the members that a tree has in common with another one.
func dropEqual(from, defaults map[string]any) {
	for name, value := range from {
		inner, isGroup := value.(map[string]any)
		innerDefaults, hasGroup := defaults[name].(map[string]any)
		if isGroup && hasGroup {
			dropEqual(inner, innerDefaults)
		}
		if reflect.DeepEqual(value, defaults[name]) || isGroup && hasGroup && len(inner) == 0 {
			delete(from, name)
		}
	}
}
