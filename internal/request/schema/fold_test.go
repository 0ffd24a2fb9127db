package schema

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// fieldsRead finds the names of fields in the code that reads them, so that no
// field is read and not protected.
func fieldsRead(t *testing.T) []string {
	t.Helper()
	var names []string
	const everywhere = `Field|HasFile|form\.Value|Form\.Value`
	// Other packages have functions of these names that write.
	here := regexp.MustCompile(`\b(?:` + everywhere +
		`|number|integer|positive|boolean|CheckBoolean|text|optionalText)\("([a-z_]+)"`)
	elsewhere := regexp.MustCompile(`\b(?:` + everywhere + `)\("([a-z_]+)"\)`)
	for _, pattern := range []string{"*.go", "../../dialect/*.go", "../../dialect/*/*.go", "../../dialect/*/*/*.go",
		"../../route/proxy/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		read := elsewhere
		if pattern == "*.go" {
			read = here
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range read.FindAllSubmatch(source, -1) {
				names = append(names, string(found[1]))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// spellings returns keys that fold to a name and are not the name.
func spellings(name string) []string {
	all := []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:],
		name[:len(name)-1] + strings.ToUpper(name[len(name)-1:])}
	for i, char := range name {
		for other := unicode.SimpleFold(char); other != char; other = unicode.SimpleFold(other) {
			all = append(all, name[:i]+string(other)+name[i+1:])
		}
	}
	return all
}

// bodies are good requests of the service types that take JSON.
var bodies = map[ServiceType]string{
	Chat:      `{"model":"m","messages":[{"role":"user","content":"hi"}]%s}`,
	Embedding: `{"model":"m","input":"hi"%s}`,
	Rerank:    `{"model":"m","query":"q","documents":["d"]%s}`,
	TTS:       `{"model":"m","input":"hi","voice":"v"%s}`,
	ImgGen:    `{"model":"m","prompt":"p"%s}`,
}

// unified are the fields of each service type.
var unified = map[ServiceType]*Fields{Chat: ChatFields, Embedding: EmbeddingFields, Rerank: RerankFields,
	TTS: SpeechFields, STT: TranscriptionFields, ImgGen: ImageFields, ImgEdit: ImageEditFields}

// completionDoors are the doors in OpenAI's shape that share the service type of chat.
var completionDoors = []struct {
	body  string
	reads *Fields
	parse func(*Request, []byte) error
}{
	{`{"model":"m","prompt":"p"%s}`, CompletionFields, (*Request).ParseCompletion},
	{`{"model":"m","input":"p"%s}`, ModerationFields, (*Request).ParseModeration},
}

func parseBody(service ServiceType, body string) error {
	parse := map[ServiceType]func(*Request, []byte) error{
		Chat: (*Request).ParseChat, Embedding: (*Request).ParseEmbedding, Rerank: (*Request).ParseRerank,
		TTS: (*Request).ParseSpeech, ImgGen: (*Request).ParseImage,
	}[service]
	return parse(new(Request), []byte(body))
}

// refusedFor checks that a request is refused for the spelling of a key.
func refusedFor(t *testing.T, err error, code, key, name string) {
	t.Helper()
	var fault *Error
	if !errors.As(err, &fault) || fault.Code != code || fault.Type != TypeInvalidRequest ||
		!strings.Contains(fault.Message, fmt.Sprintf("%q", key)) || !strings.Contains(fault.Message, name) {
		t.Errorf("%q: %v", key, err)
	}
}

func TestKeysThatDifferOnlyInCaseAreRefused(t *testing.T) {
	for _, name := range fieldsRead(t) {
		services := 0
		for _, service := range ServiceTypes() {
			if !unified[service].names.Has([]byte(name)) {
				continue
			}
			services++
			for _, key := range spellings(name) {
				if body, ok := bodies[service]; ok {
					for _, more := range []string{`,"%s":1`, `,"extra_body":{"%s":1}`, `,"%s":null`} {
						refusedFor(t, parseBody(service, fmt.Sprintf(body, fmt.Sprintf(more, key))), CodeInvalidJSON,
							key, name)
					}
				}
				if service == STT || service == ImgEdit {
					for _, written := range []string{key, key + "[]"} {
						form := &Form{Parts: []Part{{Name: "model", Value: "m"}, {Name: "prompt", Value: "p"},
							{Name: written, Value: "1"}}}
						parse := map[ServiceType]func(*Request,
							*Form) error{STT: (*Request).ParseTranscription,
							ImgEdit: (*Request).ParseImageEdit}[service]
						refusedFor(t, parse(new(Request), form), CodeInvalidValue, key, name)
					}
				}
			}
		}
		for _, d := range completionDoors {
			if !d.reads.names.Has([]byte(name)) {
				continue
			}
			services++
			for _, key := range spellings(name) {
				for _, more := range []string{`,"%s":1`, `,"extra_body":{"%s":1}`, `,"%s":null`} {
					refusedFor(t, d.parse(new(Request), []byte(fmt.Sprintf(d.body, fmt.Sprintf(more, key)))),
						CodeInvalidJSON, key, name)
				}
			}
		}
		if services == 0 {
			t.Errorf("%q is read and not protected: readsField does not know it", name)
		}
	}
}

func TestNestedKeysThatDifferOnlyInCaseAreRefused(t *testing.T) {
	for body, key := range map[string]string{
		`{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"user","content":"a","Content":"b"}]}`: "Content",
		`{"model":"m","messages":[{"Role":"system","role":"user","content":"hi"}]}`:                             "Role",
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream_options":{"Include_Usage":true}}`:     "Include_Usage",
		`{"model":"m","messages":[{"role":"user","content":"hi"}],` +
			`"extra_body":{"stream_options":{"include_uſage":true}}}`: "include_uſage",
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"\u0053tream":true}`: "Stream",
		`{"MODEL":"m","messages":[{"role":"user","content":"hi"}]}`:                    "MODEL",
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"top_\u212a":1}`:     "top_\u212a",
	} {
		refusedFor(t, parseBody(Chat, body), CodeInvalidJSON, key, strings.ToLower(strings.ReplaceAll(key, "ſ", "s")))
	}
	refusedFor(t, parseBody(Rerank, `{"model":"m","query":"q","documents":[{"text":"a","TEXT":"b"}]}`), CodeInvalidJSON,
		"TEXT", "text")
}

// What no field is called may be spelled as it likes.
func TestOtherKeysMayHaveCapitals(t *testing.T) {
	for _, more := range []string{
		`,"topK":1`, `,"Models":1`, `,"Vendor":{"Model":"x"}`, `,"é":1`, `,"MODEL_":1`, `,"taskType":"x"`,
		`,"toolConfig":{}`,
		`,"extra_body":{"safetySettings":[],"Ümodel":1}`, `,"` + strings.Repeat("A", 1000) + `":1`,
		`,"\u006dax_tokens":5`, `,"metadata":{"User":"x"}`,
	} {
		for service, body := range bodies {
			if err := parseBody(service, fmt.Sprintf(body, more)); err != nil {
				t.Errorf("%s %.80s: %v", service, more, err)
			}
		}
	}
}

func TestCaseIsCheckedWithoutAllocating(t *testing.T) {
	body := []byte(fmt.Sprintf(bodies[Chat], `,"temperature":1,"vendor":1`))
	r := new(Request)
	run := func() { _ = r.ParseChat(body) }
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
