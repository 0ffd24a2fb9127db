package schema_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestServiceTypesHaveManySpellings(t *testing.T) {
	for want, spellings := range map[schema.ServiceType][]string{
		schema.Chat:      {"chat", "CHAT", "Chat"},
		schema.Embedding: {"embedding", "EMBEDDING"},
		schema.Rerank:    {"rerank", "re-rank", "re_rank"},
		schema.TTS:       {"tts", "TTS"},
		schema.STT:       {"stt", "STT"},
		schema.ImgGen:    {"imgGen", "img-gen", "img_gen", "IMG_GEN", "imggen", "ImgGen"},
		schema.ImgEdit:   {"imgEdit", "img-edit", "img_edit", "IMG-EDIT"},
	} {
		for _, spelling := range spellings {
			if got, err := schema.ParseServiceType(spelling); got != want || err != nil {
				t.Errorf("%s is %s (%v), want %s", spelling, got, err, want)
			}
		}
	}
	for _, unknown := range []string{"", "chats", "img gen", "chat ", "图"} {
		if got, err := schema.ParseServiceType(unknown); err == nil || !strings.Contains(err.Error(), "imgEdit") {
			t.Errorf("%q is %s (%v), want an error that names what there is", unknown, got, err)
		}
	}
}

func TestServiceTypesTravelAsTheirNames(t *testing.T) {
	all := schema.ServiceTypes()
	if len(all) != schema.ServiceTypeCount {
		t.Errorf("%d service types", len(all))
	}
	text, err := json.Marshal(all)
	if want := `["chat","embedding","rerank","tts","stt","imgGen","imgEdit"]`; err != nil || string(text) != want {
		t.Errorf("%s (%v), want %s", text, err, want)
	}
	var back []schema.ServiceType
	if err := json.Unmarshal(text, &back); err != nil || !slices.Equal(back, all) {
		t.Errorf("%v (%v), want %v", back, err, all)
	}
	kept := schema.STT
	if err := kept.UnmarshalText([]byte("nothing")); err == nil || kept != schema.STT {
		t.Errorf("%s (%v), want an error and no change", kept, err)
	}
	if got := schema.ServiceType(200).String(); got != "ServiceType(200)" {
		t.Error(got)
	}
}

func TestDurationsAreReadInBothForms(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1": time.Millisecond, "1500": 1500 * time.Millisecond, "30s": 30 * time.Second, "1m30s": 90 * time.Second,
		"0s": 0, "1.5h": 90 * time.Minute, "9223372036854": 9223372036854 * time.Millisecond,
	} {
		var d, quoted schema.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.Std() != want {
			t.Errorf("%s is %s (%v), want %s", text, d, err, want)
		}
		if err := json.Unmarshal([]byte(`"`+text+`"`), &quoted); err != nil || quoted != d {
			t.Errorf("%q is %s (%v), want %s", text, quoted, err, d)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "1.5", "s", "1 s", "1d", "9223372036855", "99999999999999999999", "1e3", "null", "true", "0x10", "∞"} {
		d := schema.Duration(7)
		if err := d.UnmarshalText([]byte(text)); err == nil || d != 7 {
			t.Errorf("%q is %s (%v), want an error and no change", text, d, err)
		}
	}
	var d schema.Duration
	if err := json.Unmarshal([]byte(`2500`), &d); err != nil || d.Std() != 2500*time.Millisecond {
		t.Errorf("%s (%v)", d, err)
	}
	for _, text := range []string{`{}`, `[]`, `true`, `"`, `1.5`} {
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%s is %s", text, d)
		}
	}
}

func TestDurationsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, d := range []time.Duration{0, time.Millisecond, 90 * time.Second, time.Duration(math.MaxInt64).Truncate(time.Millisecond)} {
		text, err := json.Marshal(schema.Duration(d))
		var back schema.Duration
		if err != nil || json.Unmarshal(text, &back) != nil || back.Std() != d {
			t.Errorf("%s became %s and %s (%v)", d, text, back, err)
		}
		text, err = schema.Duration(d).MarshalText()
		if err != nil || back.UnmarshalText(text) != nil || back.Std() != d || string(text) != schema.Duration(d).String() {
			t.Errorf("%s became %s and %s (%v)", d, text, back, err)
		}
	}
}

func TestNearestNames(t *testing.T) {
	known := []string{"llama3.1:8b", "llama3.2:3b", "qwen2.5", "gpt-4o", "gpt-4o-mini", "bge-m3", strings.Repeat("x", 200)}
	for _, c := range []struct {
		written string
		n       int
		want    []string
	}{
		{"llama3.1:8b", 5, []string{"llama3.1:8b", "llama3.2:3b"}},
		{"lama3.1:8b", 1, []string{"llama3.1:8b"}},
		{"LLAMA3.1:8B", 1, []string{"llama3.1:8b"}},
		{"gpt4o", 5, []string{"gpt-4o"}},
		{"gpt_4o_mini", 1, []string{"gpt-4o-mini"}},
		{"gtp-4o", 5, []string{"gpt-4o"}},
		{"gtp-o4", 5, []string{"gpt-4o"}},
		{"bge-m", 5, []string{"bge-m3"}},
		{"something else entirely", 5, []string{}},
		{"llama3.1:8b", 0, []string{}},
		{strings.Repeat("x", 200), 5, nil},
	} {
		if got := schema.Nearest(c.written, known, c.n); !slices.Equal(got, c.want) {
			t.Errorf("near %.20s: %v, want %v", c.written, got, c.want)
		}
	}
	if got := schema.Nearest("x", nil, 3); len(got) != 0 {
		t.Errorf("near nothing: %v", got)
	}
}

func TestFold(t *testing.T) {
	for name, want := range map[string]string{"upstreamModel": "upstreammodel", "upstream-model": "upstreammodel", "UPSTREAM_MODEL": "upstreammodel", "": "", "-_": "", "É-x": "Éx"} {
		if got := schema.Fold(name); got != want {
			t.Errorf("%s is folded to %s, want %s", name, got, want)
		}
	}
}
