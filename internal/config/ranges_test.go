package config

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// problemAt tells whether the check of a service type with one instance
// complains about the setting at a path.
func problemAt(service Service, path string) bool {
	found := false
	service.Check(schema.Chat, func(string, schema.ServiceType) error { return nil }, nil, func(at string, _ say.Sentence) { found = found || at == path })
	return found
}

func validService() Service {
	service := DefaultService()
	instance := backend.DefaultSettings()
	instance.Name, instance.BaseURL = "m", "http://127.0.0.1:1"
	service.Instances = []backend.Settings{instance}
	return service
}

// The OpenAPI document takes the ranges of settings from struct tags: each is
// the one that is checked.
func TestRangesInTheTagsAreThoseThatAreChecked(t *testing.T) {
	bounds := 0
	var walk func(at reflect.Type, path string, find func(*Service) reflect.Value)
	walk = func(at reflect.Type, path string, find func(*Service) reflect.Value) {
		for i := range at.NumField() {
			field := at.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			here := strings.TrimPrefix(path+"."+name, ".")
			value := func(s *Service) reflect.Value { return find(s).Field(i) }
			if field.Type == reflect.TypeFor[[]backend.Settings]() {
				walk(field.Type.Elem(), "instances[0]", func(s *Service) reflect.Value { return reflect.ValueOf(&s.Instances[0]).Elem() })
				continue
			}
			if field.Type.Kind() == reflect.Struct && field.Type.NumField() > 0 && field.Type.Field(0).IsExported() {
				walk(field.Type, here, value)
				continue
			}
			for keyword, step := range map[string]float64{"minimum": -1, "maximum": 1} {
				bound, err := strconv.ParseFloat(field.Tag.Get(keyword), 64)
				if err != nil {
					continue
				}
				bounds++
				within, outside := validService(), validService()
				setNumber(value(&within), bound)
				setNumber(value(&outside), bound+step)
				if problemAt(within, here) || !problemAt(outside, here) {
					t.Errorf("%s: %s %v is not the bound that is checked", here, keyword, bound)
				}
			}
		}
	}
	walk(reflect.TypeFor[Service](), "", func(s *Service) reflect.Value { return reflect.ValueOf(s).Elem() })
	if bounds < 15 {
		t.Errorf("only %d bounds were found", bounds)
	}
}

func setNumber(value reflect.Value, number float64) {
	switch {
	case value.Type() == reflect.TypeFor[schema.Duration]():
		value.SetInt(int64(number) * int64(time.Millisecond))
	case value.Kind() == reflect.Float64:
		value.SetFloat(number)
	case value.Kind() == reflect.Pointer: // nil is for what is usual
		value.Set(reflect.New(value.Type().Elem()))
		setNumber(value.Elem(), number)
	default:
		value.SetInt(int64(number))
	}
}

// The document lists the adapters: each of them is known, under its name there.
func TestAdaptersInTheDocumentAreKnown(t *testing.T) {
	ofInstance, ofService := backend.Settings{}.Choices()["adapter"], Service{}.Choices()["adapter"]
	if len(ofService) < 10 || !slices.Equal(ofInstance[1:], ofService) || ofInstance[0] != "" {
		t.Errorf("%q and %q", ofInstance, ofService)
	}
	for _, name := range ofService {
		if _, err := kinds.Lookup(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"openai", "ollama", "claude"} {
		if !slices.Contains(ofService, name) {
			t.Errorf("%s is not among %q", name, ofService)
		}
	}
}

// The document says what the texts of an instance look like: what it allows is
// accepted, and what the check refuses it does not allow.
func TestPatternsAllowWhatIsAccepted(t *testing.T) {
	for name, texts := range map[string][]string{
		// The name is empty beside models, and only there.
		"name":          {"a", "a b", "gpt-4o", "models/x:7b", "模型", " a", "a ", "*", "**", "a\x00b", "a\u0085"},
		"upstreamModel": {"", "a", "*", "a b", " a", "a\tb"},
		"baseUrl": {
			"http://h", "https://api.example.com/v1", "http://127.0.0.1:11434", "http://[::1]:8080/", "http://[2001:db8::1:2]", "https://h:65535/a.b/c%20d",
			"", "h", "ftp://h", "http://", "http://h:0", "http://h:65536", "http://h?x", "http://h#x", "http://u:p@h", "http://h/../x", "http://h/a b", "http://-h", "http://my_service:1", "http://-", "http://a.-_.b",
		},
		"proxy": {
			"", "none", "http://h", "https://proxy.example:3128", "http://u:p@h:1/", "http://u@[::1]:8080",
			"h", "ftp://h", "http://", "http://h:0", "http://h:65536", "http://h/x", "http://h?x", "http://h#x", "proxy:3128",
		},
		"path": {"", "/", "/v1/chat", "/v1.0/x?api-version=1", "/a%20b", "v1", "/a b", "/a#b", "/é", "/../x", "/a%", "/a/../b"},
	} {
		pattern := regexp.MustCompile(backend.Settings{}.Patterns()[name])
		for _, text := range texts {
			service := validService()
			field, _ := reflect.TypeFor[backend.Settings]().FieldByNameFunc(func(f string) bool { return strings.EqualFold(f, name) })
			reflect.ValueOf(&service.Instances[0]).Elem().FieldByIndex(field.Index).SetString(text)
			if refused := problemAt(service, "instances[0]."+name); refused == pattern.MatchString(text) {
				t.Errorf("%s %q: refused %t, and the pattern allows it: %t", name, text, refused, !refused)
			}
		}
	}
}
