package schema

import (
	"errors"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/shape"
)

// The places by which checks find fields are the places of their declaration.
func TestPlacesAreThoseOfTheDeclaration(t *testing.T) {
	t.Parallel()
	generated := map[int]string{fieldStream: "stream", fieldStreamOptions: "stream_options",
		fieldMaxTokens:           "max_tokens",
		fieldMaxCompletionTokens: "max_completion_tokens", fieldN: "n", fieldBestOf: "best_of",
		fieldTemperature: "temperature",
		fieldTopP:        "top_p", fieldTopK: "top_k", fieldFrequencyPenalty: "frequency_penalty",
		fieldPresencePenalty: "presence_penalty",
		fieldStop:            "stop"}
	common := map[int]string{fieldModel: "model", fieldUser: "user", fieldExtraBody: "extra_body"}
	for _, c := range []struct {
		fields *Fields
		places []map[int]string
	}{
		{ChatFields, []map[int]string{common, generated, {fieldPrompt: "messages"}}},
		{CompletionFields, []map[int]string{common, generated, {fieldPrompt: "prompt"}}},
		{ModerationFields, []map[int]string{common}}, {EmbeddingFields, []map[int]string{common}},
		{RerankFields, []map[int]string{common}}, {SpeechFields, []map[int]string{common}},
		{ImageFields, []map[int]string{common}},
		{messageFields, []map[int]string{{messageRole: "role", messageName: "name", messageContent: "content"}}},
	} {
		for _, places := range c.places {
			for place, name := range places {
				if at := c.fields.names.Number([]byte(name)); at != place || c.fields.rules[at].name != name {
					t.Errorf("%T: %s is declared at the place %d, and looked for at %d", c.fields.Request, name, at,
						place)
				}
			}
		}
	}
}

// A declaration is read with its embedded structs and other names, and each check refuses
// what it says.
func TestFieldsAreCheckedAsTheyAreDeclared(t *testing.T) {
	t.Parallel()
	type base struct {
		Count int64  `json:"count"`
		Name  string `json:"name" check:"kind"`
	}
	fields := FieldsOf(struct {
		base
		Count  int64        `json:"count" minimum:"2" maximum:"9" check:"bounds"`
		Whole  int64        `json:"whole" minimum:"5" check:"kind"`
		Part   float64      `json:"part" minimum:"-1" maximum:"1" check:"bounds"`
		List   []string     `json:"list" check:"kind" alias:"items"`
		Object shape.Object `json:"object" check:"kind"`
		Texts  shape.Texts  `json:"texts" check:"kind"`
		Free   string       `json:"free"`
	}{})
	for body, param := range map[string]string{
		`{}`: "", `{"count":2,"name":"n","whole":1,"part":0.5,"list":[],"object":{},"texts":["a"],"free":1}`: "",
		`{"count":null,"name":null,"texts":"a"}`: "",
		`{"count":1}`:                            "count", `{"count":10}`: "count", `{"count":2.5}`: "count",
		`{"count":"2"}`: "count",
		`{"name":1}`:    "name", `{"whole":"1"}`: "whole", `{"part":1.1}`: "part", `{"part":"1"}`: "part",
		`{"list":{}}`: "list", `{"items":1}`: "items",
		`{"object":[]}`: "object", `{"texts":[1]}`: "texts", `{"texts":{}}`: "texts",
	} {
		var doc jsonscan.Document
		if err := doc.Parse([]byte(body)); err != nil {
			t.Fatal(err)
		}
		var refused string
		if fault := (*Error)(nil); errors.As(fields.Check(doc.Root()), &fault) && fault.Param != nil {
			refused = *fault.Param
		}
		if refused != param {
			t.Errorf("%s is refused for %q, not for %q", body, refused, param)
		}
	}
}
