package config

import (
	"bytes"
	"encoding"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// WriteServices writes service types as the section of a configuration file that they
// are read from again. Settings that have their defaults are left out.
func WriteServices(services map[schema.ServiceType]Service) ([]byte, error) {
	root := mappingNode()
	section, err := new(writer).services(services)
	if err != nil {
		return nil, err
	}
	add(root, "services", section)
	return encoded(root)
}

// Write writes the document as a configuration file. References stay as they were written. With
// secrets, literal ones are part of the text; otherwise each is a reference to a variable, which a
// comment names. Settings that have their defaults are left out.
func (d *Document) Write(secrets bool) ([]byte, error) {
	w := &writer{hides: !secrets}
	section, err := w.services(d.Services) // its paths are not those of the file any more
	if err != nil {
		return nil, err
	}
	w.references = d.References
	rest, preset := *d, *Default()
	rest.Services, preset.Services = nil, nil
	root, err := w.written("", reflect.ValueOf(rest), reflect.ValueOf(preset))
	if err != nil {
		return nil, err
	}
	if root == nil {
		root = mappingNode()
	}
	add(root, "services", section)
	return encoded(root)
}

// writer writes settings as YAML.
type writer struct {
	references map[string]string // texts with references, by the paths of their settings
	hides      bool              // literal secrets become references
}

// services returns the section of service types.
func (w *writer) services(services map[schema.ServiceType]Service) (*yaml.Node, error) {
	section := mappingNode()
	for _, serviceType := range slices.Sorted(maps.Keys(services)) {
		name := Kebab(serviceType.String())
		service, err := w.written(join("services", name), reflect.ValueOf(services[serviceType]),
			reflect.ValueOf(DefaultService()))
		if err != nil {
			return nil, err
		}
		if service == nil {
			service = mappingNode() // the service type is configured, with all defaults
		}
		add(section, name, service)
	}
	return section, nil
}

func encoded(root *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

// text returns a text, or a reference in place of a secret that the writer hides.
func (w *writer) text(path, text string, isSecret bool) *yaml.Node {
	if address, err := url.Parse(text); err == nil && address.User != nil {
		_, hasPassword := address.User.Password()
		isSecret = isSecret || hasPassword
	}
	if !isSecret || !w.hides || text == "" {
		return writtenText(text, false)
	}
	name := strings.Trim(regexp.MustCompile(`[^A-Z0-9]+`).ReplaceAllString(strings.ToUpper(path), "_"), "_")
	node := writtenText("${"+name+"}", true)
	node.LineComment = "a secret; set " + name
	return node
}

func mappingNode() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

func add(to *yaml.Node, key string, value *yaml.Node) {
	name := new(yaml.Node)
	name.SetString(key)
	to.Content = append(to.Content, name, value)
}

// written returns a value as YAML, or nil where it is the default.
func (w *writer) written(path string, value, preset reflect.Value) (*yaml.Node, error) {
	if preset.IsValid() && reflect.DeepEqual(value.Interface(), preset.Interface()) {
		return nil, nil
	}
	if secret, ok := value.Interface().(backend.Secret); ok {
		if secret.IsReference() {
			return writtenText(secret.Reveal(), true), nil
		}
		return w.text(path, secret.Reveal(), true), nil
	}
	if isScalarType(value.Type()) {
		if reference, has := w.references[path]; has {
			return writtenText(reference, true), nil
		}
		return w.scalar(path, value)
	}
	switch value.Kind() {
	case reflect.Struct:
		return w.mapping(path, value, preset)
	case reflect.Slice:
		return w.list(path, value)
	case reflect.Map:
		return w.entries(path, value)
	case reflect.Pointer:
		if value.IsNil() {
			return nil, nil
		}
		return w.written(path, value.Elem(), reflect.Value{})
	default:
		return nil, fmt.Errorf("a setting of type %s cannot be written", value.Type())
	}
}

func (w *writer) mapping(path string, value, preset reflect.Value) (*yaml.Node, error) {
	if preset.IsValid() {
		preset = given(preset)
	}
	node := mappingNode()
	for _, f := range fieldsOf(value.Type()) {
		var before reflect.Value
		if preset.IsValid() {
			before = preset.FieldByIndex(f.index)
		}
		member, err := w.written(join(path, f.name), value.FieldByIndex(f.index), before)
		if err != nil {
			return nil, err
		}
		if member != nil {
			add(node, f.name, member)
		}
	}
	return node, nil
}

// given returns the defaults of a section that a file has. They may differ from the
// defaults of a section that the file leaves out.
func given(preset reflect.Value) reflect.Value {
	section := reflect.New(preset.Type())
	section.Elem().Set(preset)
	if hook, ok := section.Interface().(givenHook); ok {
		hook.Given()
	}
	return section.Elem()
}

func (w *writer) list(path string, value reflect.Value) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if isScalarType(value.Type().Elem()) {
		node.Style = yaml.FlowStyle
	}
	for i := range value.Len() {
		var preset reflect.Value
		if value.Type().Elem().Kind() == reflect.Struct && !isScalarType(value.Type().Elem()) {
			preset = freshValue(value.Type().Elem())
		}
		item, err := w.written(indexed(path, i), value.Index(i), preset)
		if err != nil {
			return nil, err
		}
		if item == nil {
			item = mappingNode()
		}
		node.Content = append(node.Content, item)
	}
	return node, nil
}

func (w *writer) entries(path string, value reflect.Value) (*yaml.Node, error) {
	node := mappingNode()
	keys := value.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, key := range keys {
		at := keyed(path, fmt.Sprint(key.Interface()))
		if key.Kind() != reflect.String {
			at = join(path, Kebab(fmt.Sprint(key.Interface())))
		}
		item, err := w.written(at, value.MapIndex(key), reflect.Value{})
		if err != nil {
			return nil, err
		}
		if item != nil {
			add(node, fmt.Sprint(key.Interface()), item)
		}
	}
	return node, nil
}

// writtenScalar writes a number, a truth value or a text. A type with a form of its own
// for texts is written in that: a duration has its unit.
func (w *writer) scalar(path string, value reflect.Value) (*yaml.Node, error) {
	if named, ok := value.Interface().(encoding.TextMarshaler); ok {
		text, err := named.MarshalText()
		return w.text(path, string(text), false), err
	}
	data, err := json.Marshal(value.Interface())
	if err != nil {
		return nil, err
	}
	if jsontext.Value(data).Kind() == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return nil, err
		}
		return w.text(path, text, isSecretName(path) && !strings.HasSuffix(path, "url")), nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: string(data)}, nil
}

// writtenText writes a text. A literal is not taken for a reference when it is read.
func writtenText(text string, isReference bool) *yaml.Node {
	if !isReference {
		text = strings.ReplaceAll(text, "$", "$$")
	}
	node := new(yaml.Node)
	node.SetString(text)
	return node
}

// plainPattern matches texts that need no quotes in YAML, except for yamlWords.
var plainPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// yamlWords are texts that some version of YAML reads as other values.
var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// QuoteYAML writes a text that YAML reads back unchanged, in quotes only where it needs
// them.
func QuoteYAML(text string) string {
	if plainPattern.MatchString(text) && !slices.Contains(yamlWords, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}
