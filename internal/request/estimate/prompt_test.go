package estimate_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// words is a text of so many bytes without repeated characters.
func words(bytes int) string { return strings.Repeat("ab cdefg", bytes/8) }

func TestTheLowerBoundOfPrompts(t *testing.T) {
	message := func(content string) string {
		return `{"model":"m","messages":[{"role":"user","content":` + content + `}]}`
	}
	for name, c := range map[string]struct {
		door  schema.Door
		body  string
		least int64
		isOut bool // no window limits it
	}{
		"text":                   {door: schema.DoorChat, body: message(`"` + words(1600) + `"`), least: 100},
		"one character":          {door: schema.DoorChat, body: message(`"` + strings.Repeat("a", 12800) + `"`), least: 100},
		"a wide character":       {door: schema.DoorChat, body: message(`"` + strings.Repeat("哈", 12800) + `"`), least: 300},
		"an escaped one":         {door: schema.DoorChat, body: message(`"` + strings.Repeat(`\u54c8`, 12800) + `"`), least: 100},
		"escapes":                {door: schema.DoorChat, body: message(`"` + strings.Repeat(`\u0061\n`, 1600) + `"`), least: 200},
		"a picture":              {door: schema.DoorChat, body: message(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("abcd", 4000) + `"}}]`), least: 0},
		"earlier thoughts":       {door: schema.DoorChat, body: `{"messages":[{"role":"assistant","reasoning_content":"` + words(16000) + `","content":"` + words(1600) + `"}]}`, least: 100},
		"tools":                  {door: schema.DoorChat, body: `{"messages":[],"tools":[{"description":"` + words(16000) + `"}]}`, least: 0},
		"an unknown member":      {door: schema.DoorChat, body: `{"messages":[],"nvext":"` + words(16000) + `"}`, least: 0},
		"Anthropic's":            {door: schema.DoorMessages, body: `{"system":"` + words(1600) + `","messages":[{"role":"user","content":[{"type":"text","text":"` + words(1600) + `"}]}]}`, least: 200},
		"a list of inputs":       {door: schema.DoorEmbeddings, body: `{"input":["` + words(1600) + `","` + words(3200) + `","` + words(800) + `"]}`, least: 200},
		"a list of documents":    {door: schema.DoorRerank, body: `{"query":"` + words(800) + `","documents":["` + words(1600) + `",{"text":"` + words(1600) + `"}]}`, least: 100},
		"ids of tokens":          {door: schema.DoorEmbeddings, body: `{"input":[[1,2,3],[4]]}`, least: 3},
		"one list of ids":        {door: schema.DoorCompletions, body: `{"prompt":[1,2,3,4]}`, least: 4},
		"several prompts":        {door: schema.DoorCompletions, body: `{"prompt":["` + words(1600) + `","` + words(1600) + `"]}`, least: 100},
		"truncate_prompt_tokens": {door: schema.DoorEmbeddings, body: `{"input":"` + words(1600) + `","truncate_prompt_tokens":5}`, isOut: true},
		"in extra_body":          {door: schema.DoorEmbeddings, body: `{"input":"` + words(1600) + `","extra_body":{"truncate_prompt_tokens":-1}}`, isOut: true},
		"truncation":             {door: schema.DoorResponses, body: `{"input":"` + words(1600) + `","truncation":"auto"}`, isOut: true},
		"no truncation":          {door: schema.DoorResponses, body: `{"input":"` + words(1600) + `","truncation":"disabled"}`, least: 100},
		"truncate":               {door: schema.DoorOllamaEmbed, body: `{"input":"` + words(1600) + `","truncate":true}`, isOut: true},
		"no truncate":            {door: schema.DoorOllamaEmbed, body: `{"input":"` + words(1600) + `","truncate":false}`, least: 100},
		"a compaction":           {door: schema.DoorCompact, body: `{"input":"` + words(1600) + `"}`, isOut: true},
	} {
		req := &schema.Request{Door: c.door, Service: c.door.Service()}
		if err := req.Body.Parse([]byte(c.body)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, isLimited := estimate.PromptOf(req, nil, true)
		if got.Least != c.least || isLimited == c.isOut {
			t.Errorf("%s: got at least %d tokens, limited %t, want %d, %t", name, got.Least, isLimited, c.least, !c.isOut)
		}
		if isLimited && got.Likely < got.Least {
			t.Errorf("%s: got likely %d, want at least %d", name, got.Likely, got.Least)
		}
		if isLimited && !strings.Contains(name, "ids") && !estimate.MayExceed(req, nil, got.Least, false) {
			t.Errorf("%s: the length of the body says that it cannot be %d tokens", name, got.Least)
		}
	}
}

func TestRecalledTextsBelongToThePrompt(t *testing.T) {
	req := &schema.Request{Door: schema.DoorResponses, Service: schema.Chat, Remembered: 7}
	if err := req.Body.Parse([]byte(`{"input":"hi"}`)); err != nil {
		t.Fatal(err)
	}
	recalled := [][]byte{[]byte(`[{"type":"message","content":"` + words(1600) + `"}]`)}
	if got, _ := estimate.PromptOf(req, recalled, true); got.Least != 107 {
		t.Errorf("got at least %d tokens, want 107", got.Least)
	}
	if !estimate.MayExceed(req, recalled, 107, false) || estimate.MayExceed(req, nil, 107, false) {
		t.Error("the length of recalled texts does not count")
	}
}

func BenchmarkEstimateOfALongRequest(b *testing.B) {
	req := &schema.Request{Door: schema.DoorChat, Service: schema.Chat}
	if err := req.Body.Parse([]byte(`{"messages":[{"role":"user","content":"` + words(1<<20) + `"}]}`)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		estimate.PromptOf(req, nil, false)
	}
}

// Only the length of the body decides about small requests.
func BenchmarkWindowOfSmallRequest(b *testing.B) {
	req := &schema.Request{Door: schema.DoorChat, Service: schema.Chat}
	if err := req.Body.Parse([]byte(`{"messages":[{"role":"user","content":"` + words(4000) + `"}]}`)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if estimate.MayExceed(req, nil, 8192, true) {
			b.Fatal("it is not small")
		}
	}
}

func BenchmarkPromptOfALongRequest(b *testing.B) {
	req := &schema.Request{Door: schema.DoorChat, Service: schema.Chat}
	if err := req.Body.Parse([]byte(`{"messages":[{"role":"user","content":"` + words(1<<20) + `"}]}`)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		estimate.PromptOf(req, nil, true)
	}
}
