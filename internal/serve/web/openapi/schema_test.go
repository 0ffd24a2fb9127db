package openapi

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

type sampleView struct {
	sampleBase
	Name     string            `json:"name" required:"true" minLength:"1" doc:"What it is called."`
	Level    string            `json:"level" enum:"LOW,HIGH"`
	Share    float64           `json:"share" minimum:"0" maximum:"1"`
	Wait     schema.Duration   `json:"wait" minimum:"1"`
	Since    *time.Time        `json:"since"`
	Note     string            `json:"note,omitzero"`
	Tags     map[string]string `json:"tags" keys:"^[a-z]+$" maxLength:"9"`
	List     []string          `json:"list" pattern:"^x" uniqueItems:"true"`
	Kept     string            `json:"-"`
	internal string
}

type sampleBase struct {
	Name  int    `json:"name"`
	Shown string `json:"shown" readOnly:"true"`
}

type openSample struct {
	Known  bool           `json:"known"`
	Others jsontext.Value `json:",unknown"`
}

type choice struct{}

func (choice) Alternatives() []any { return []any{"", openSample{}} }

// limitedSample has a text that may be one of a few.
type limitedSample struct {
	Kind string `json:"kind"`
}

func (limitedSample) Choices() map[string][]string {
	return map[string][]string{"kind": {"", "a", "b"}}
}

type boundedNumber int64

func (boundedNumber) Keywords() map[string]any { return map[string]any{"maximum": 9} }

type boundedList []boundedNumber

func (boundedList) Keywords() map[string]any { return map[string]any{"minItems": 1} }

func TestSchemaFollowsTheType(t *testing.T) {
	_ = sampleView{}.internal
	for name, test := range map[string]struct {
		value any
		way   direction
		want  string
	}{
		"a reply has every member that is not left out when it is zero": {sampleView{}, inReply, `{
			"type":"object","required":["level","list","name","share","shown","since","tags","wait"],"properties":{
			"name":{"type":"string","minLength":1,"description":"What it is called."},
			"shown":{"type":"string","readOnly":true},
			"level":{"type":"string","enum":["LOW","HIGH"]},
			"share":{"type":"number","minimum":0,"maximum":1},
			"wait":{"type":"integer","format":"int64","minimum":1,"maximum":9223372036854,"description":"Milliseconds."},
			"since":{"type":["string","null"],"format":"date-time"},
			"note":{"type":"string"},
			"tags":{"type":"object","additionalProperties":{"type":"string","maxLength":9},"propertyNames":{"pattern":"^[a-z]+$"}},
			"list":{"type":"array","items":{"type":"string","pattern":"^x"},"uniqueItems":true}}}`},
		"a reply may have members that are not known": {openSample{}, inReply, `{
			"type":"object","required":["known"],"additionalProperties":true,"properties":{"known":{"type":"boolean"}}}`},
		"a request may leave members out or null": {openSample{}, inRequest, `{
			"type":"object","additionalProperties":true,"properties":{"known":{"type":["boolean","null"]}}}`},
		"a form has no null, and names that a header can have": {openSample{}, inForm, `{
			"type":"object","additionalProperties":true,"propertyNames":{"pattern":"^[^\\x00-\\x1f\\x7f]*$"},"properties":{"known":{"type":"boolean"}}}`},
		"a text of a request may be one of a few": {limitedSample{}, inRequest, `{
			"type":"object","additionalProperties":false,"properties":{"kind":{"type":["string","null"],"enum":["","a","b",null]}}}`},
		"what is stored may be from another release": {limitedSample{}, inReply, `{
			"type":"object","required":["kind"],"properties":{"kind":{"type":"string"}}}`},
		"rules of numbers and lists": {boundedList{}, inRequest, `{
			"type":"array","minItems":1,"items":{"type":"integer","format":"int64","maximum":9}}`},
		"one of several": {choice{}, inRequest, `{"oneOf":[{"type":"string"},{"$ref":"#/components/schemas/OpenSampleInput"}]}`},
		"a service type": {schema.Chat, inReply, `{"$ref":"#/components/schemas/ServiceType"}`},
	} {
		d := newDeriver()
		found := d.of(reflect.TypeOf(test.value), test.way)
		if reference, isComponent := found["$ref"].(string); isComponent && !strings.Contains(test.want, reference) {
			found = d.components[strings.TrimPrefix(reference, "#/components/schemas/")]
		}
		if !sameJSON(t, found, test.want) {
			text, _ := json.Marshal(found, json.Deterministic(true))
			t.Errorf("%s: %s", name, text)
		}
	}
}

func sameJSON(t *testing.T, found any, want string) bool {
	t.Helper()
	var a, b any
	text, err := json.Marshal(found)
	if err != nil || json.Unmarshal(text, &a) != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(a, b)
}

func TestRequestsRefuseUnknownMembersAndNameWhatTheyNeed(t *testing.T) {
	d := newDeriver()
	d.of(reflect.TypeFor[sampleView](), inRequest)
	found := d.components["SampleInput"]
	if !reflect.DeepEqual(found["required"], []string{"name"}) || found["additionalProperties"] != false {
		t.Errorf("%v", found)
	}
}

type longSample struct {
	Short string `json:"short" doc:"In a tag."`
	Long  string `json:"long"`
}

func (longSample) Docs() map[string]string { return map[string]string{"long": "In a \"method\"."} }

func TestAMethodHasDescriptionsThatAreTooLongForTags(t *testing.T) {
	type outer struct {
		longSample
		Own string `json:"own"`
	}
	for _, sample := range []any{longSample{}, outer{}} {
		found := newDeriver().object(reflect.TypeOf(sample), inReply, false)["properties"].(map[string]Schema)
		if found["long"]["description"] != `In a "method".` || found["short"]["description"] != "In a tag." {
			t.Errorf("%v", found)
		}
	}
}

func TestRequestsNeedOneOfTwoMembers(t *testing.T) {
	type either struct {
		Name   string   `json:"name" requiredWithout:"models nonempty"`
		Models []string `json:"models"`
	}
	d := newDeriver()
	if found := d.object(reflect.TypeFor[either](), inRequest, false); found["required"] != nil ||
		!sameJSON(t, found["if"], `{"required":["models"],"properties":{"models":{"not":{"type":"null"},"minItems":1}}}`) ||
		!sameJSON(t, found["else"], `{"required":["name"],"properties":{"name":{"not":{"type":"null"}}}}`) {
		t.Errorf("%v", found)
	}
	for name, found := range map[string]Schema{"reply": d.object(reflect.TypeFor[either](), inReply, false), "part": d.object(reflect.TypeFor[either](), inRequest, true)} {
		if found["if"] != nil || found["else"] != nil {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestTwoTypesOfOneNameAreRefused(t *testing.T) {
	type sample struct {
		Other int `json:"other"`
	}
	routes := []web.Route{
		{Pattern: "GET /a", Permission: access.Anyone, Tag: "t", Summary: "s", Reply: sampleView{}},
		{Pattern: "GET /b", Permission: access.Anyone, Tag: "t", Summary: "s", Reply: sample{}},
	}
	if _, err := Document("v", routes); err == nil || !strings.Contains(err.Error(), "both be the component Sample") {
		t.Errorf("%v", err)
	}
}

func TestRoutesAreDescribedInTheirOrder(t *testing.T) {
	op := func(pattern string, permission access.Permission) web.Route {
		return web.Route{Pattern: pattern, Permission: permission, Tag: "t", Summary: "s", Reply: 0, Error: web.Fault{}}
	}
	routes := []web.Route{
		op("GET /z", access.Anyone),
		op("PUT /a/{id...}", access.ReadMetrics),
		op("GET /a/{id...}", access.ReadMetrics),
	}
	text, err := Document("v", routes)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, part := range []string{`"openapi":"3.1.0"`, `"/z":{"get":`, `"/a/{id}":{"put":`, `"putAId"`, `"get":`, `"getAId"`, `"components":`} {
		at := strings.Index(string(text[last:]), part)
		if at < 0 {
			t.Fatalf("%s is not behind the others: %s", part, text)
		}
		last += at
	}
}
