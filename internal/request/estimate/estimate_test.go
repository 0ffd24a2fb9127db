package estimate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// unbounded is what an answer without a limit counts in these tests.
const unbounded = 1000

// long is a text of 100 tokens.
var long = strings.Repeat("word ", 80)

func most(t *testing.T, parse func(*schema.Request, []byte) error, body string, recalled ...string) estimate.Use {
	t.Helper()
	var r schema.Request
	if err := parse(&r, []byte(body)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var past [][]byte
	for _, text := range recalled {
		past = append(past, []byte(text))
	}
	return estimate.Most(&r, past, unbounded)
}

func TestEstimatesOfPrompts(t *testing.T) {
	long2, file := long+long, strings.Repeat("A", 9000)
	for name, test := range map[string]struct {
		parse func(*schema.Request, []byte) error
		body  string
		want  int64
	}{
		"a message":               {(*schema.Request).ParseChat, `{"model":"m","messages":[{"role":"user","content":"` + long + `"}]}`, 104},
		"settings":                {(*schema.Request).ParseChat, `{"model":"m","user":"` + long + `","metadata":{"a":"` + long + `"},"stop":["` + long + `"],"messages":[{"role":"user","content":"hi"}]}`, 5},
		"parts":                   {(*schema.Request).ParseChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + long + `"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + file + `"}}]}]}`, 904},
		"sound":                   {(*schema.Request).ParseChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"` + file + `","format":"wav"}}]}]}`, 804},
		"tools":                   {(*schema.Request).ParseChat, `{"model":"m","tools":[{"type":"function","function":{"name":"f","description":"` + long + `"}}],"messages":[{"role":"user","content":"hi"}]}`, 112},
		"names of a schema":       {(*schema.Request).ParseChat, `{"model":"m","response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"` + long + `":{}}}}},"messages":[{"role":"user","content":"hi"}]}`, 113},
		"an unknown member":       {(*schema.Request).ParseChat, `{"model":"m","documents":[{"text":"` + long + `"}],"messages":[{"role":"user","content":"hi"}]}`, 105},
		"extra_body":              {(*schema.Request).ParseChat, `{"model":"m","extra_body":{"user":"` + long + `","documents":["` + long + `"]},"messages":[{"role":"user","content":"hi"}]}`, 105},
		"an embedding":            {(*schema.Request).ParseEmbedding, `{"model":"m","encoding_format":"float","input":["` + long + `","` + long + `"]}`, 200},
		"embedding of tokens":     {(*schema.Request).ParseEmbedding, `{"model":"m","input":[1,22,333,4444]}`, 4},
		"embedding of batches":    {(*schema.Request).ParseEmbedding, `{"model":"m","input":[[1,2],[3,4,5]]}`, 5},
		"a document":              {(*schema.Request).ParseRerank, `{"model":"m","query":"` + long + `","documents":["` + long + `"]}`, 200},
		"documents":               {(*schema.Request).ParseRerank, `{"model":"m","query":"` + long + `","documents":["` + long + `",{"text":"` + long + `"},"` + long + `"]}`, 600},
		"speech":                  {(*schema.Request).ParseSpeech, `{"model":"m","voice":"v","response_format":"mp3","input":"` + long + `"}`, 100},
		"an image":                {(*schema.Request).ParseImage, `{"model":"m","size":"1024x1024","prompt":"` + long + `"}`, 100},
		"a moderation":            {(*schema.Request).ParseModeration, `{"model":"m","input":["` + long + `","` + long + `"]}`, 200},
		"a completion":            {(*schema.Request).ParseCompletion, `{"model":"m","prompt":"` + long + `","suffix":"` + long + `"}`, 200},
		"several prompts":         {(*schema.Request).ParseCompletion, `{"model":"m","prompt":["` + long + `","` + long + `","` + long + `"]}`, 300},
		"prompts of tokens":       {(*schema.Request).ParseCompletion, `{"model":"m","prompt":[[1,2,3],[4,5]]}`, 5},
		"a system text":           {messages.ReadRequest, `{"model":"m","max_tokens":9,"system":"` + long + `","messages":[{"role":"user","content":"` + long + `"}]}`, 204},
		"blocks":                  {messages.ReadRequest, `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"` + long + `","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"` + long + `"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + file + `"}}]}]}`, 1004},
		"tools of a message":      {messages.ReadRequest, `{"model":"m","max_tokens":9,"tools":[{"name":"f","description":"` + long + `","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hi"}]}`, 113},
		"results of tools":        {messages.ReadRequest, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"` + long2 + `"}]}]}`, 205},
		"no file":                 {(*schema.Request).ParseChat, `{"model":"m","messages":[{"role":"user","content":"data: ` + long + `"}]}`, 106},
		"no file in a part":       {(*schema.Request).ParseChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"data:text/plain;base64,` + file + `"}]}]}`, 2260},
		"a file by its name":      {responses.Parse, `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,` + file + `"},{"type":"input_image","image_url":"data:image/png;base64,` + file + `"}]}]}`, 1606},
		"a plain document":        {messages.ReadRequest, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"` + long + `"}}]}]}`, 104},
		"kinds of a schema":       {(*schema.Request).ParseChat, `{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"format":"` + long + `","signature":"` + long + `","role":"` + long + `"}}}],"messages":[{"role":"user","content":"hi"}]}`, 316},
		"arguments of a template": {(*schema.Request).ParseChat, `{"model":"m","chat_template_kwargs":{"model_identity":"` + long + `"},"messages":[{"role":"user","content":"hi"}]}`, 105},
		"texts among tokens":      {(*schema.Request).ParseCompletion, `{"model":"m","prompt":[[1,"` + long + `"]]}`, 100},
		"an input":                {responses.Parse, `{"model":"m","input":"` + long + `","instructions":"` + long + `"}`, 200},
		"items":                   {responses.Parse, `{"model":"m","input":[{"role":"user","content":"` + long + `"},{"type":"function_call_output","call_id":"c","output":"` + long + `"}]}`, 205},
	} {
		if got := most(t, test.parse, test.body); got.Prompt != test.want {
			t.Errorf("%s: %d tokens, want %d", name, got.Prompt, test.want)
		}
	}
	if got := most(t, responses.Parse, `{"model":"m","input":"`+long+`"}`, `{"role":"user","content":"`+long+`"}`, `{"type":"message","content":[{"text":"`+long+`"}]}`); got.Prompt != 304 {
		t.Errorf("with what is recalled: %d tokens", got.Prompt)
	}
}

func TestTheMostThatAnAnswerMayHave(t *testing.T) {
	doors := map[string]struct {
		parse func(*schema.Request, []byte) error
		rest  string
	}{
		"chat":        {(*schema.Request).ParseChat, `"messages":[{"role":"user","content":"hi"}]`},
		"completions": {(*schema.Request).ParseCompletion, `"prompt":"hi"`},
		"responses":   {responses.Parse, `"input":"hi"`},
		"messages":    {messages.ReadRequest, `"messages":[{"role":"user","content":"hi"}]`},
	}
	unified := []string{"chat", "completions"}
	for _, test := range []struct {
		doors   []string
		members string
		want    int64
	}{
		// Without a limit.
		{[]string{"chat", "completions", "responses"}, ``, unbounded},
		{unified, `"max_tokens":null`, unbounded},
		{unified, `"max_tokens":-1`, unbounded},
		{unified, `"max_tokens":-2`, unbounded},
		{unified, `"max_tokens":0`, unbounded},
		{unified, `"max_completion_tokens":-1`, unbounded},
		{unified, `"extra_body":{"max_tokens":-1}`, unbounded},
		{unified, `"n_predict":-1`, unbounded},
		{unified, `"n_predict":true`, unbounded},
		{unified, `"n":3`, 3 * unbounded},
		{unified, `"max_tokens":-1,"n":3`, 3 * unbounded},
		// With one.
		{[]string{"chat", "completions", "messages"}, `"max_tokens":50`, 50},
		{unified, `"max_tokens":5e1`, 50},
		{unified, `"max_completion_tokens":50`, 50},
		{unified, `"extra_body":{"max_tokens":50}`, 50},
		{unified, `"max_tokens":null,"extra_body":{"max_tokens":50}`, 50},
		{unified, `"max_tokens":50,"extra_body":{"max_tokens":90}`, 50}, // which no backend gets
		{[]string{"responses"}, `"max_output_tokens":50`, 50},
		{[]string{"messages"}, `"max_tokens":0`, 0}, // only the prompt is read
		{unified, `"max_tokens":99999999999`, 10_000_000},
		// The one that allows most.
		{unified, `"max_completion_tokens":1,"max_tokens":100000`, 100000},
		{unified, `"max_completion_tokens":100000,"max_tokens":1`, 100000},
		{unified, `"max_completion_tokens":1,"max_tokens":-1`, unbounded},
		{unified, `"max_completion_tokens":5000,"max_tokens":-1`, 5000},
		{unified, `"max_tokens":1,"extra_body":{"max_completion_tokens":100000}`, 100000},
		{[]string{"responses"}, `"max_output_tokens":1,"extra_body":{"max_completion_tokens":100000}`, 100000},
		{unified, `"max_tokens":1,"n_predict":100000`, 100000},
		{unified, `"max_tokens":1,"n_predict":"100000"`, 100000},
		{unified, `"options":{"num_predict":100000}`, 100000},
		{unified, `"extra_body":{"options":{"num_predict":100000}}`, 100000},
		{unified, `"generationConfig":{"maxOutputTokens":70}`, 70},
		{unified, `"extra_body":{"generation_config":{"max_output_tokens":70,"candidate_count":2}}`, 140},
		// One that does not end before, which backends that do not know it ignore.
		{unified, `"min_tokens":5000`, 5000},
		{unified, `"min_tokens":5`, unbounded},
		{unified, `"min_tokens":-5`, unbounded},
		{unified, `"min_tokens":5000,"n":2`, 10000},
		{unified, `"max_tokens":50,"min_tokens":40`, 50},
		{unified, `"max_tokens":50,"min_tokens":5000`, 5000},
		{unified, `"max_tokens":50,"min_new_tokens":"5000"`, 5000},
		{unified, `"min_tokens":99999999999`, 10_000_000},
		{unified, `"extra_body":{"min_tokens":5000}`, 5000},
		{[]string{"messages"}, `"max_tokens":50,"min_tokens":5000`, 5000},
		{[]string{"responses"}, `"max_output_tokens":50,"min_tokens":5000`, 5000},
		{[]string{"responses"}, `"extra_body":{"min_tokens":5000}`, 5000},
		// One whose end is ignored is as long as it may be.
		{unified, `"ignore_eos":true`, 131072},
		{unified, `"ignore_eos":1,"max_tokens":-1`, 131072},
		{unified, `"ignore_eos":"true"`, 131072},
		{unified, `"ignore_eos":false`, unbounded},
		{unified, `"ignore_eos":true,"max_tokens":50`, 50},
		{unified, `"extra_body":{"ignore_eos":true}`, 131072},
		// Several answers.
		{unified, `"max_tokens":50,"n":3`, 150},
		{unified, `"max_tokens":50,"n":0`, 50},
		{unified, `"max_tokens":50,"n":-7`, 50},
		{unified, `"max_tokens":50,"extra_body":{"n":3}`, 150},
		{unified, `"max_tokens":50,"n":2,"best_of":7`, 350},
		{unified, `"max_tokens":50,"n":7,"best_of":2`, 350},
		{unified, `"max_tokens":99999999999,"n":999999999999`, 1_000_000_000_000},
		{[]string{"responses"}, `"max_output_tokens":50,"extra_body":{"n":3}`, 150},
		// Anthropic's models need room for thinking, which their dialect adds.
		{[]string{"chat"}, `"max_tokens":50,"reasoning_effort":"low"`, 1074},
		{[]string{"responses"}, `"max_output_tokens":50,"reasoning":{"effort":"low"}`, 1074},
		{[]string{"chat"}, `"max_tokens":50,"reasoning_effort":"none"`, 50},
		{[]string{"chat"}, `"max_tokens":5000,"reasoning_effort":"low"`, 5000},
	} {
		for _, name := range test.doors {
			door, body := doors[name], test.members
			if body != "" {
				body += ","
			}
			if got := most(t, door.parse, `{"model":"m",`+body+door.rest+`}`); got.Completion != test.want {
				t.Errorf("%s %s: %d, want %d", name, test.members, got.Completion, test.want)
			}
		}
	}
	for prompt, want := range map[string]int64{`["a","b","c"]`: 3 * 50 * 2, `[1,2,3]`: 50 * 2, `[[1],[2]]`: 2 * 50 * 2, `"a"`: 50 * 2} {
		if got := most(t, (*schema.Request).ParseCompletion, `{"model":"m","max_tokens":50,"n":2,"prompt":`+prompt+`}`); got.Completion != want {
			t.Errorf("%s: %d, want %d", prompt, got.Completion, want)
		}
	}
	if got := most(t, (*schema.Request).ParseCompletion, `{"model":"m","max_tokens":50,"n":2,"best_of":5,"echo":true,"prompt":"`+long+`"}`); got.Echoed != 200 || got.Completion != 250 {
		t.Errorf("echoed: %+v", got)
	}
}

// What is counted in other things than tokens is bounded by what was asked for.
func TestEstimatesOfWhatIsNotText(t *testing.T) {
	form := func(parse func(*schema.Request, *schema.Form) error, members string) estimate.Use {
		t.Helper()
		var f schema.Form
		for member := range strings.SplitSeq(members, " ") {
			name, value, _ := strings.Cut(member, "=")
			f.Parts = append(f.Parts, schema.Part{Name: name, Value: value})
		}
		for _, file := range []string{"file", "image"} {
			f.Parts = append(f.Parts, schema.Part{Name: file, File: &schema.File{}})
		}
		var r schema.Request
		if err := parse(&r, &f); err != nil {
			t.Fatalf("%s: %v", members, err)
		}
		return estimate.Most(&r, nil, unbounded)
	}
	for name, test := range map[string]struct {
		got  estimate.Use
		want string // prompt, completion, images, seconds, characters
	}{
		"speech":          {most(t, (*schema.Request).ParseSpeech, `{"model":"m","voice":"v","input":"äöü1"}`), "2 1000 0 0 4"},
		"an image":        {most(t, (*schema.Request).ParseImage, `{"model":"m","prompt":"cats"}`), "1 1000 1 0 0"},
		"images":          {most(t, (*schema.Request).ParseImage, `{"model":"m","prompt":"cats","n":3}`), "1 3000 3 0 0"},
		"many images":     {most(t, (*schema.Request).ParseImage, `{"model":"m","prompt":"cats","n":99999}`), "1 1000000 1000 0 0"},
		"an edit":         {form((*schema.Request).ParseImageEdit, "model=m prompt=cats"), "1 1000 1 0 0"},
		"edits":           {form((*schema.Request).ParseImageEdit, "model=m prompt=cats n=4"), "1 4000 4 0 0"},
		"a transcription": {form((*schema.Request).ParseTranscription, "model=m"), "0 1000 0 60 0"},
		"a hint":          {form((*schema.Request).ParseTranscription, "model=m prompt=cats"), "1 1000 0 60 0"},
		"a translation":   {form((*schema.Request).ParseTranslation, "model=m"), "0 1000 0 60 0"},
		"an embedding":    {most(t, (*schema.Request).ParseEmbedding, `{"model":"m","input":"cats"}`), "1 0 0 0 0"},
		"a ranking":       {most(t, (*schema.Request).ParseRerank, `{"model":"m","query":"cats","documents":["dogs"]}`), "2 0 0 0 0"},
		"a moderation":    {most(t, (*schema.Request).ParseModeration, `{"model":"m","input":"cats"}`), "1 0 0 0 0"},
	} {
		q := test.got
		if got := fmt.Sprint(q.Prompt, q.Completion, q.Images, q.Seconds, q.Characters); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
