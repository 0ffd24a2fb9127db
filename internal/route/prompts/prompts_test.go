package prompts_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/responses"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/prompts"
)

// parsers read the bodies of requests, by their doors.
var parsers = map[schema.Door]func(*schema.Request, []byte) error{
	schema.DoorChat:        (*schema.Request).ParseChat,
	schema.DoorMessages:    messages.ReadRequest,
	schema.DoorCountTokens: messages.ReadCountRequest,
	schema.DoorResponses:   responses.Parse,
	schema.DoorCompletions: (*schema.Request).ParseCompletion,
	schema.DoorModerations: (*schema.Request).ParseModeration,
	schema.DoorEmbeddings:  (*schema.Request).ParseEmbedding,
	schema.DoorRerank:      (*schema.Request).ParseRerank,
	schema.DoorSpeech:      (*schema.Request).ParseSpeech,
	schema.DoorImages:      (*schema.Request).ParseImage,
}

func request(t testing.TB, door schema.Door, body string) *schema.Request {
	t.Helper()
	req := new(schema.Request)
	if err := parsers[door](req, []byte(body)); err != nil {
		t.Fatalf("%s: %v: %.300s", door, err, body)
	}
	return req
}

// prompt reads the prompt of a request.
func prompt(req *schema.Request, recalled ...string) *fleet.Prompt {
	p := fleet.NewPrompt(&fleet.Secret{1})
	prompts.Read(req, p, bytesOf(recalled)...)
	return p
}

func bytesOf(texts []string) (all [][]byte) {
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	return all
}

// shared returns how many bytes of the second prompt an engine is believed to have in its
// cache that has read the first.
func shared(first, second *fleet.Prompt) int {
	if second.Size() == 0 {
		return 0
	}
	f := fleet.New(fleet.Options{Secret: fleet.Secret{1}}, time.Unix(0, 0))
	engine := []*fleet.Instance{f.Instance("host", "model")}
	f.Choose(engine, &fleet.Ask{Prompt: first}, time.Unix(1, 0))
	matched := f.Explain(engine, &fleet.Ask{Prompt: second}, time.Unix(2, 0))[0].Matched
	return int(matched*float64(second.Size()) + 0.5)
}

// words returns a text that differs from those of other seeds.
func words(seed uint64, size int) string {
	rng := rand.New(rand.NewPCG(seed, 0))
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "w%d ", rng.IntN(1000))
	}
	return b.String()[:size]
}

func base64Of(seed uint64, size int) string {
	return base64.StdEncoding.EncodeToString([]byte(words(seed, size)))
}

// Each of these pairs is the same to an engine, although the bodies differ.
func TestEqualPromptsAreReadEqually(t *testing.T) {
	long, image := words(1, 6000), base64Of(2, 6000)
	chat := func(format string, a ...any) string { return `{"model":"m",` + fmt.Sprintf(format, a...) + `}` }
	message := func(format string, a ...any) string {
		return `{"model":"m","max_tokens":9,` + fmt.Sprintf(format, a...) + `}`
	}
	for name, c := range map[string]struct {
		door         schema.Door
		one, another string
	}{
		"a text and a part": {
			schema.DoorChat, chat(`"messages":[{"role":"user","content":"%s"}]`, long), chat(`"messages":[{"role":"user","content":[{"type":"text","text":"%s"}]}]`, long),
		},
		"settings": {
			schema.DoorChat, chat(`"messages":[{"role":"user","content":"%s"}]`, long),
			chat(`"temperature":1,"stream":true,"stream_options":{"include_usage":true},"metadata":{"a":"b"},"user":"u","seed":1,"extra_body":{"x":"y"},"messages":[{"role":"user","content":"%s"}],"stop":"x"`, long),
		},
		"the order of members": {
			schema.DoorChat, chat(`"messages":[{"role":"user","name":"n","content":"%s","refusal":"no"}],"tools":[{"type":"function"}]`, long),
			chat(`"tools":[{"type":"function"}],"messages":[{"refusal":"no","content":"%s","name":"n","role":"user"}]`, long),
		},
		"spaces": {
			schema.DoorChat, chat(`"messages":[{"role":"user","content":[{"type":"text","text":"%s"},{"type":"image_url","image_url":{"url":"https://x"}}]}]`, long),
			chat("\"messages\" : [ { \"role\" : \"user\" ,\n\t\"content\" : [ { \"text\" : \"%s\", \"type\" : \"text\"\r} , { \"image_url\" : { \"detail\":\"low\", \"url\" : \"https://x\" } , \"type\":\"image_url\" } ] } ]", long),
		},
		"null": {
			schema.DoorChat, chat(`"messages":[{"role":"assistant"},{"role":"user","content":"%s"}]`, long),
			chat(`"tools":null,"messages":[{"role":"assistant","content":null,"tool_calls":null,"x":null},{"role":"user","content":"%s"}]`, long),
		},
		"cached parts": {
			schema.DoorMessages, message(`"tools":[{"name":"t","input_schema":{"type":"object"}}],"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"%s"}]}]`, long),
			message(`"tools":[{"name":"t","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[{"role":"user","content":[{"cache_control":{"type":"ephemeral"},"type":"text","text":"%s"}]}]`, long),
		},
		"the account of an agent": {
			schema.DoorMessages, message(`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.88.a3f; cch=1;"},{"type":"text","text":"%s"}],"messages":[{"role":"user","content":"x"}]`, long),
			message(`"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.2.00.e91; cch=02;"},{"type":"text","text":"%s"}],"messages":[{"role":"user","content":"x"}]`, long),
		},
		"signatures": {
			schema.DoorMessages, message(`"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"abc"}]},{"role":"user","content":"%s"}]`, long),
			message(`"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"%s"}]},{"role":"user","content":"%s"}]`, image, long),
		},
		"an input and an item": {
			schema.DoorResponses, chat(`"input":"%s"`, long), chat(`"store":false,"input":[{"type":"message","id":"msg_1","status":"completed","role":"user","content":[{"type":"input_text","text":"%s"}]}]`, long),
		},
		"notes on an answer": {
			schema.DoorResponses, chat(`"input":[{"role":"assistant","content":[{"type":"output_text","text":"a"}]},{"role":"user","content":"%s"}]`, long),
			chat(`"input":[{"role":"assistant","content":[{"type":"output_text","text":"a","annotations":[{"url":"u"}],"logprobs":[{"token":"a"}],"new":null}]},{"role":"user","content":"%s"}]`, long),
		},
		"instructions": {
			schema.DoorResponses, chat(`"instructions":"%s","input":"x"`, long), chat(`"input":[{"role":"user","content":"x"}],"instructions":"%s"`, long),
		},
		"ids of calls": {
			schema.DoorResponses, chat(`"input":[{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"%s"}]`, long),
			chat(`"input":[{"type":"function_call","id":"fc_2","status":"completed","call_id":"2","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"2","output":"%s"}]`, long),
		},
		"a prompt": {
			schema.DoorCompletions, chat(`"prompt":"%s"`, long), chat(`"prompt":["%s"],"echo":true,"logprobs":1`, long),
		},
		"a prompt elsewhere": {
			schema.DoorCompletions, chat(`"prompt":"%s"`, long), chat(`"extra_body":{"prompt":"%s"}`, long),
		},
	} {
		one, another := prompt(request(t, c.door, c.one)), prompt(request(t, c.door, c.another))
		if one.Size() != another.Size() || shared(one, another) != shared(one, one) || one.Size() < 6000 {
			t.Errorf("%s: of %d and %d bytes %d are the same, want %d", name, one.Size(), another.Size(), shared(one, another), shared(one, one))
		}
	}
}

// What an engine reads parts where two requests differ.
func TestDifferentPromptsPartWhereTheyDiffer(t *testing.T) {
	before, after, image, other := words(1, 2000), words(2, 4000), base64Of(3, 6000), base64Of(4, 6000)
	for name, c := range map[string]struct {
		door schema.Door
		body string // with one %s
		a, b string
	}{
		"a text":           {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":"` + before + `%s` + after + `"}]}`, "x", "y"},
		"a role":           {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":"` + before + `"},{"role":"%s","content":"` + after + `"}]}`, "user", "assistant"},
		"a name":           {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":"` + before + `","name":"%s"},{"role":"user","content":"` + after + `"}]}`, "a", "b"},
		"a call":           {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":"` + before + `"},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"%s"}}]},{"role":"user","content":"` + after + `"}]}`, "{}", "[]"},
		"reasoning":        {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":"` + before + `"},{"role":"assistant","content":"c","reasoning_content":"%s"},{"role":"user","content":"` + after + `"}]}`, "hm", "oh"},
		"an image":         {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + before + `"},{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}},{"type":"text","text":"` + after + `"}]}]}`, image, other},
		"a sound":          {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + before + `"},{"type":"input_audio","input_audio":{"data":"%s","format":"wav"}},{"type":"text","text":"` + after + `"}]}]}`, image, other},
		"an address":       {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + before + `"},{"type":"image_url","image_url":{"url":"%s"}},{"type":"text","text":"` + after + `"}]}]}`, "https://a", "https://b"},
		"an unknown part":  {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":["` + before + `",{"type":"new","what":[{"deep":%s}]},"` + after + `"]}]}`, "1", "2"},
		"an unknown field": {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":"` + before + `","new":{"deep":["%s"]}},{"role":"user","content":"` + after + `"}]}`, "a", "b"},
		"a document":       {schema.DoorMessages, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"` + before + `"},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"%s"}},{"type":"text","text":"` + after + `"}]}]}`, image, other},
		"a plain document": {schema.DoorMessages, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"` + before + `"},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"%s"}},{"type":"text","text":"` + after + `"}]}]}`, "plain words", "other words"},
		"the use of tools": {schema.DoorMessages, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"` + before + `"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"id":"%s"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"` + after + `"}]}]}]}`, "a", "b"},
		"the billing mark": {schema.DoorMessages, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"` + before + `"},{"role":"user","content":"x-anthropic-billing-header: %s"},{"role":"user","content":"` + after + `"}]}`, "a", "b"},
		"an item":          {schema.DoorResponses, `{"model":"m","input":[{"role":"user","content":"` + before + `"},{"type":"local_shell_call","action":{"command":["%s"]}},{"role":"user","content":"` + after + `"}]}`, "ls", "ps"},
		"a template":       {schema.DoorResponses, `{"model":"m","instructions":"` + before + `","prompt":{"id":"%s"},"input":"` + after + `"}`, "a", "b"},
		"many prompts":     {schema.DoorCompletions, `{"model":"m","prompt":["` + before + `","%s","` + after + `"]}`, "a", "b"},
		"tokens":           {schema.DoorCompletions, `{"model":"m","prompt":[` + strings.Repeat("1234,", 400) + `%s,` + strings.Repeat("5678,", 800) + `9]}`, "1", "2"},
		"a tool":           {schema.DoorChat, `{"model":"m","tools":[{"type":"function","function":{"name":"a","description":"` + before + `"}},{"type":"function","function":{"name":"%s","description":"` + after + `"}}],"messages":[{"role":"user","content":"x"}]}`, "a", "b"},
		"a system prompt":  {schema.DoorMessages, `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"` + before + `"},{"type":"text","text":"%s"}],"messages":[{"role":"user","content":"` + after + `"}]}`, "a", "b"},
	} {
		one, another := prompt(request(t, c.door, fmt.Sprintf(c.body, c.a))), prompt(request(t, c.door, fmt.Sprintf(c.body, c.b)))
		// The last block that is the same ends at most 512 bytes before the difference,
		// which has at most 100 bytes of other members before it.
		if got := shared(one, another); got < 1536 || got > 2048+64 {
			t.Errorf("%s: %d bytes are the same, want about 2000", name, got)
		}
		if got := shared(one, one); got < 5000 {
			t.Errorf("%s: only %d bytes are the same of one prompt", name, got)
		}
	}
}

// TestWorkIsGuessedInTokens has requests whose tokens can be counted by hand: a token has 4
// bytes, a message 4 tokens beside its texts, a file 800.
func TestWorkIsGuessedInTokens(t *testing.T) {
	text, image := words(1, 4000), base64Of(2, 30_000)
	for name, c := range map[string]struct {
		door     schema.Door
		body     string
		tokens   float64
		isPrompt bool
	}{
		"a chat":          {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`, 1004, true},
		"two messages":    {schema.DoorChat, `{"model":"m","messages":[{"role":"system","content":"` + text + `"},{"role":"user","content":"` + text + `"}]}`, 2008, true},
		"tools":           {schema.DoorChat, `{"model":"m","tools":[{"type":"` + text[:3991] + `"}],"messages":[{"role":"user","content":""}]}`, 1004, true},
		"tools elsewhere": {schema.DoorChat, `{"model":"m","extra_body":{"tools":[{"type":"` + text[:3989] + `"}]},"messages":[{"role":"user","content":""}]}`, 1004, true},
		"an image":        {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + image + `"}}]}]}`, 4 + 3 + 800, true},
		"an old image":    {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":"","images":["` + image + `"]}]}`, 4 + 1.5 + 800 + 0.5, true},
		"base64 as text":  {schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":"` + image + `"}]}`, 4 + 10_000, true},
		"a message":       {schema.DoorMessages, `{"model":"m","max_tokens":9,"system":"` + text + `","messages":[{"role":"user","content":"` + text + `"}]}`, 2008, true},
		"an inline image": {schema.DoorMessages, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + image + `"}}]}]}`, 4 + 800 + 1.5 + 0.5, true},
		"a count":         {schema.DoorCountTokens, `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`, 1004, true},
		"a response":      {schema.DoorResponses, `{"model":"m","instructions":"` + text + `","input":"` + text + `"}`, 2008, true},
		"a file":          {schema.DoorResponses, `{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_data":"data:application/pdf;base64,` + image + `"}]}]}`, 804, true},
		"sealed thoughts": {schema.DoorResponses, `{"model":"m","input":[{"type":"reasoning","summary":[],"encrypted_content":"` + image + `"},{"role":"user","content":"` + text + `"}]}`, 1008, true},
		"a completion":    {schema.DoorCompletions, `{"model":"m","prompt":"` + text + `"}`, 1000, true},
		"completions":     {schema.DoorCompletions, `{"model":"m","prompt":["` + text + `","` + text + `"]}`, 2000, true},
		"a gap":           {schema.DoorCompletions, `{"model":"m","prompt":"` + text + `","suffix":"` + text + `"}`, 2000, true},
		"ids of tokens":   {schema.DoorCompletions, `{"model":"m","prompt":[1,22,333,4444]}`, 4, true},
		"lists of ids":    {schema.DoorCompletions, `{"model":"m","prompt":[[1,22],[333,4444,5]]}`, 5, true},
		"vectors":         {schema.DoorEmbeddings, `{"model":"m","input":["` + text + `","` + text + `"]}`, 2000, false},
		"vectors of ids":  {schema.DoorEmbeddings, `{"model":"m","input":[[1,2,3],[4,5,6]]}`, 6, false},
		"a ranking":       {schema.DoorRerank, `{"model":"m","query":"` + text[:400] + `","documents":["` + text + `",{"text":"` + text + `"}]}`, 2200, false},
		"moderation":      {schema.DoorModerations, `{"model":"m","input":"` + text + `"}`, 1000, false},
		"speech":          {schema.DoorSpeech, `{"model":"m","voice":"v","input":"` + text + `"}`, 1000, false},
		"images":          {schema.DoorImages, `{"model":"m","n":3,"prompt":"` + text + `"}`, 4000, false},
	} {
		p := fleet.NewPrompt(&fleet.Secret{1})
		tokens := prompts.Read(request(t, c.door, c.body), p)
		if tokens != c.tokens {
			t.Errorf("%s: %v tokens, want %v", name, tokens, c.tokens)
		}
		if (p.Size() > 0) != c.isPrompt {
			t.Errorf("%s: %d bytes of a prompt", name, p.Size())
		}
	}
}

// TestWorkOfForms reads requests that come as forms.
func TestWorkOfForms(t *testing.T) {
	file := func(name string, size int64) schema.Part {
		return schema.Part{Name: name, File: &schema.File{Size: size, Open: func() io.Reader { return strings.NewReader("") }}}
	}
	model, said := schema.Part{Name: "model", Value: "m"}, schema.Part{Name: "prompt", Value: words(1, 400)}
	for name, c := range map[string]struct {
		parse  func(*schema.Request, *schema.Form) error
		parts  []schema.Part
		tokens float64
	}{
		"a minute of speech": {(*schema.Request).ParseTranscription, []schema.Part{model, said, file("file", 960_000)}, 100 + 2400},
		"a translation":      {(*schema.Request).ParseTranslation, []schema.Part{model, file("file", 4000)}, 10},
		"two edited images":  {(*schema.Request).ParseImageEdit, []schema.Part{model, said, {Name: "n", Value: "2"}, file("image", 1_000_000)}, 2100},
	} {
		var req schema.Request
		if err := c.parse(&req, &schema.Form{Parts: c.parts}); err != nil {
			t.Fatal(err)
		}
		p := fleet.NewPrompt(&fleet.Secret{1})
		if tokens := prompts.Read(&req, p); tokens != c.tokens || p.Size() != 0 {
			t.Errorf("%s: %v tokens, want %v; %d bytes of a prompt", name, tokens, c.tokens, p.Size())
		}
	}
}

// A response that is continued by its id, or whose items are referred to, is read like one
// whose conversation the client sends again.
func TestRecalledConversationsAreRead(t *testing.T) {
	asked, answered, next := words(1, 3000), words(2, 3000), words(3, 1000)
	answer := `{"type":"message","id":"msg_2","status":"completed","role":"assistant","content":[{"type":"output_text","text":"` + answered + `","annotations":[],"logprobs":[]}]}`
	stored := `{"type":"message","id":"msg_1","status":"completed","role":"user","content":[{"type":"input_text","text":"` + asked + `"}]}`
	whole := prompt(request(t, schema.DoorResponses, `{"model":"m","store":false,"input":[{"role":"user","content":"`+asked+`"},`+answer+`,{"role":"user","content":"`+next+`"}]}`))
	for name, continued := range map[string]*fleet.Prompt{
		"by its id": prompt(request(t, schema.DoorResponses, `{"model":"m","previous_response_id":"resp_1","input":"`+next+`"}`), stored, answer),
		"in one piece": prompt(request(t, schema.DoorResponses, `{"model":"m","previous_response_id":"resp_1","input":[{"role":"user","content":"`+next+`"}]}`),
			stored+", "+answer),
		"by references":            prompt(request(t, schema.DoorResponses, `{"model":"m","input":[{"role":"user","content":"`+asked+`"},{"type":"item_reference","id":"msg_2"},{"role":"user","content":"`+next+`"}]}`), answer),
		"by both":                  prompt(request(t, schema.DoorResponses, `{"model":"m","previous_response_id":"resp_1","input":[{"id":"msg_2"},{"role":"user","content":"`+next+`"}]}`), stored, answer),
		"with what cannot be read": prompt(request(t, schema.DoorResponses, `{"model":"m","previous_response_id":"resp_1","input":"`+next+`"}`), "{]", stored, answer, "}{"),
	} {
		if continued.Size() != whole.Size() || shared(whole, continued) != shared(whole, whole) {
			t.Errorf("%s: of %d and %d bytes %d are the same", name, continued.Size(), whole.Size(), shared(whole, continued))
		}
	}
}
