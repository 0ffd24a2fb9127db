package simulator

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestTokensAreWordsWithTheSpaceBeforeThem(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"", nil},
		{"hello world", []string{"hello", " world"}},
		{"I'm 42, é!", []string{"I", "'", "m", " 42", ",", " é", "!"}},
		{"你好 x", []string{"你", "好", " x"}},
		{"a 🙂b  ", []string{"a", " 🙂", "b", "  "}},
		{"caf\xff\xfe", []string{"caf", "\xff", "\xfe"}},
		{`{"a":1}`, []string{"{", `"`, "a", `"`, ":", "1", "}"}},
	}
	for _, test := range tests {
		var got []string
		for rest := test.text; rest != ""; rest = rest[tokenLength(rest):] {
			got = append(got, rest[:tokenLength(rest)])
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q: %s", test.text, diff)
		}
		if countTokens(test.text) != len(test.want) {
			t.Errorf("%q counts %d", test.text, countTokens(test.text))
		}
	}
}

func TestTokensJoinedAreTheText(t *testing.T) {
	for _, text := range []string{strings.Repeat("word, ", 50), " \n lead", "\xf0\x9f"} {
		joined := ""
		for rest := text; rest != ""; rest = rest[tokenLength(rest):] {
			joined += rest[:tokenLength(rest)]
		}
		if joined != text {
			t.Errorf("got %q, want %q", joined, text)
		}
	}
}

func TestSamplesFitTheirSchema(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"types", `{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"},"b":{"type":"number"},"c":{"type":"boolean"},"d":{"type":"null"},"e":{"type":"array","items":{"type":"integer"}}}}`,
			`{"z":"sample z ✓","a":1,"b":1.5,"c":true,"d":null,"e":[1]}`},
		{"no properties", `{"type":"object"}`, `{}`},
		{"values given", `[]`, `null`},
		{"const, enum, default", `{"properties":{"a":{"const":"x"},"b":{"enum":[7,8]},"c":{"default":{"k":1},"type":"object"}}}`, `{"a":"x","b":7,"c":{"k":1}}`},
		{"ranges", `{"properties":{"a":{"type":"integer","minimum":5},"b":{"type":"number","maximum":0.5},"c":{"type":"integer","exclusiveMinimum":9},"d":{"type":"array","minItems":2,"items":{"type":"boolean"}}}}`, `{"a":5,"b":0.5,"c":10,"d":[true,true]}`},
		{"lengths", `{"properties":{"a":{"type":"string","maxLength":3},"b":{"type":"string","minLength":12}}}`, `{"a":"sam","b":"sample b ✓xx"}`},
		{"formats", `{"properties":{"a":{"type":"string","format":"date"},"b":{"type":"string","format":"uuid"}}}`, `{"a":"2026-01-31","b":"00000000-0000-4000-8000-000000000000"}`},
		{"several types", `{"type":["integer","null"]}`, `1`},
		{"choices", `{"anyOf":[{"type":"boolean"},{"type":"null"}]}`, `true`},
		{"reference", `{"$defs":{"p":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/p"}}}`, `{"a":1}`},
		{"bad reference", `{"$ref":"nowhere"}`, `null`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, string(sampleOf(jsontext.Value(test.schema)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSampleOfACircularSchemaEnds(t *testing.T) {
	got := sampleOf(jsontext.Value(`{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{"type":"array","minItems":1000,"items":{"$ref":"#"}}}}`))
	if !jsontext.Value(got).IsValid() || len(got) > 8*longestSample {
		t.Errorf("%d bytes, valid %v", len(got), jsontext.Value(got).IsValid())
	}
}
