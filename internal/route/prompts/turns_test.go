package prompts_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/prompts"
)

// turn is what is said in a conversation, in the words of one door.
type turn struct{ members []string }

// write writes a turn with its members in any order, with any spaces and hints for caches.
func (m turn) write(t *rapid.T) string {
	members := rapid.Permutation(m.members).Draw(t, "members")
	if rapid.Bool().Draw(t, "is cached") {
		members = append(members, `"cache_control":{"type":"ephemeral"}`)
	}
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
	return "{" + space + strings.Join(members, space+","+space) + space + "}"
}

// turns returns a conversation at a door.
func turns(t *rapid.T, door schema.Door) (all []turn) {
	text := rapid.Custom(func(t *rapid.T) string {
		escape := rapid.SampledFrom([]string{"", `\"`, `\n`, `\u00e9`, "你", `\\`}).Draw(t, "escape")
		return `"` + words(rapid.Uint64Range(0, 20).Draw(t, "text"), rapid.IntRange(0, 3000).Draw(t, "size")) + escape + `"`
	})
	for n := range rapid.IntRange(1, 6).Draw(t, "turns") {
		role, kind := `"role":"user"`, "text"
		if n%2 == 1 {
			role = `"role":"assistant"`
		}
		if door == schema.DoorResponses {
			kind = "input_text"
		}
		content := `"content":` + text.Draw(t, "content")
		switch rapid.IntRange(0, 4).Draw(t, "form") {
		case 1:
			content = `"content":[{"type":"` + kind + `","text":` + text.Draw(t, "content") + `},{"text":` + text.Draw(t, "content") + `,"type":"` + kind + `"}]`
		case 2:
			content = `"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64Of(uint64(n), 900) + `"}}]`
		case 3:
			all = append(all, turn{[]string{role, `"content":""`, `"tool_calls":[{"id":"c","function":{"name":"f","arguments":` + text.Draw(t, "arguments") + `}}]`, `"reasoning_content":` + text.Draw(t, "reasoning")}})
			continue
		}
		all = append(all, turn{[]string{role, content, `"id":"` + words(uint64(n), 8) + `"`}})
	}
	return all
}

// body writes the request of a conversation, with settings that are no part of it.
func body(t *rapid.T, door schema.Door, all []turn) string {
	list := "messages"
	members := []string{`"model":"m"`, `"max_tokens":9`, `"stream":` + rapid.SampledFrom([]string{"true", "false"}).Draw(t, "stream")}
	switch door {
	case schema.DoorMessages:
		members = append(members, `"system":[{"type":"text","text":"`+words(30, 700)+`"}]`)
	case schema.DoorResponses:
		list = "input"
		members = append(members, `"instructions":"`+words(30, 700)+`"`, `"store":false`)
	}
	members = append(members, `"tools":[{"name":"t","description":"`+words(31, 700)+`"}]`)
	if rapid.Bool().Draw(t, "has metadata") {
		members = append(members, `"metadata":{"user_id":"u"}`, `"temperature":0.5`)
	}
	var said []string
	for _, m := range all {
		said = append(said, m.write(t))
	}
	members = append(members, `"`+list+`":[`+strings.Join(said, ",")+`]`)
	return "{" + strings.Join(rapid.Permutation(members).Draw(t, "order"), ",") + "}"
}

// Whatever a client changes beside the conversation, the next turn begins with the blocks
// of the one before.
func TestTheNextTurnBeginsLikeTheOneBefore(t *testing.T) {
	for _, door := range []schema.Door{schema.DoorChat, schema.DoorMessages, schema.DoorResponses} {
		t.Run(door.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				all := turns(t, door)
				earlier := all[:rapid.IntRange(1, len(all)).Draw(t, "earlier")]
				first, second := new(schema.Request), new(schema.Request)
				for req, said := range map[*schema.Request][]turn{first: earlier, second: all} {
					text := body(t, door, said)
					if err := parsers[door](req, []byte(text)); err != nil {
						t.Fatalf("%v: %s", err, text)
					}
				}
				before, after := prompt(first), prompt(second)
				if before.Size() > after.Size() || shared(before, after) != shared(before, before) {
					t.Fatalf("of %d and %d bytes %d are the same, want %d:\n%s\n%s", before.Size(), after.Size(),
						shared(before, after), shared(before, before), first.Body.Data(), second.Body.Data())
				}
			})
		})
	}
}

// lists are the arrays of messages at the doors that have one.
var lists = map[schema.Door]string{schema.DoorChat: "messages", schema.DoorMessages: "messages", schema.DoorResponses: "input"}

// FuzzRead reads every request that is let in, without an error and twice the same, and the
// next turn begins like it.
func FuzzRead(f *testing.F) {
	long := words(1, 3000)
	for door, bodies := range map[schema.Door][]string{
		schema.DoorChat: {
			`{"model":"m","messages":[{"role":"user","content":"` + long + `"}],"tools":[{"type":"function","function":{"name":"f"}},{},[],1,null]}`,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + long + `"},{},[],"x",1,null,{"a":{"b":[[{"c":"d"}]]}}]},{"role":"assistant"}]}`,
			`{"model":"m","functions":"x","tools":{"a":"` + long + `"},"messages":[{"role":"user","content":[]}],"extra_body":{"tools":[[]],"prompt_cache_key":"k"}}`,
			`{"model":"m","messages":[{"role":"user","content":[{"type":"text","t\u0065xt":"\"` + long + `\\"},{"data":"abc"},{"file_data":"` + base64Of(1, 2000) + `"}]}]}`,
		},
		schema.DoorMessages: {
			`{"model":"m","max_tokens":1,"system":[{"type":"text","text":"x-anthropic-billing-header: a"},{"text":"` + long + `"}],"messages":[{},1,"x",{"role":"user","content":{"a":1}}]}`,
			`{"model":"m","max_tokens":1,"system":1,"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{"data":"` + base64Of(1, 2000) + `"}}]}]}],"metadata":{"user_id":"u"}}`,
		},
		schema.DoorResponses: {
			`{"model":"m","input":"` + long + `","prompt":{"id":"p"},"previous_response_id":"resp_1"}`,
			`{"model":"m","input":[{"type":"function_call_output","output":[{"type":"input_image","image_url":"data:image/png;base64,` + base64Of(1, 2000) + `"}]},{"type":"item_reference","id":"a"},{"id":"b"},{"role":1,"type":2,"content":3,"new":{"x":null}}]}`,
		},
		schema.DoorCompletions: {`{"model":"m","prompt":"` + long + `","suffix":"s"}`, `{"model":"m","prompt":[[1,2],[],[[3]]]}`, `{"model":"m","prompt":[1.5,-2]}`},
		schema.DoorEmbeddings:  {`{"model":"m","input":["` + long + `"]}`, `{"model":"m","input":[[1,2]]}`},
		schema.DoorRerank:      {`{"model":"m","query":"q","documents":["` + long + `",{"text":"x"}]}`},
		schema.DoorImages:      {`{"model":"m","prompt":"p","n":1000000000000}`},
	} {
		for _, body := range bodies {
			f.Add(uint8(door), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, body []byte) {
		door := schema.Door(number % uint8(schema.DoorCount))
		parse := parsers[door]
		var req schema.Request
		if parse == nil || parse(&req, bytes.Clone(body)) != nil {
			return
		}
		first, again := fleet.NewPrompt(&fleet.Secret{1}), fleet.NewPrompt(&fleet.Secret{1})
		tokens := prompts.Read(&req, first)
		if tokens < 0 || math.IsNaN(tokens) || math.IsInf(tokens, 0) {
			t.Fatalf("%v tokens", tokens)
		}
		if len(prompts.Hint(&req, nil)) > 512 {
			t.Fatal("the hint is too long")
		}
		if prompts.Read(&req, again) != tokens || first.Size() != again.Size() || shared(first, again) != shared(first, first) {
			t.Fatal("the same request is read differently")
		}
		next, ok := continued(&req)
		var second schema.Request
		if !ok || parse(&second, next) != nil {
			return
		}
		if after := prompt(&second); shared(first, after) != shared(first, first) {
			t.Fatalf("of %d and %d bytes %d are the same, want %d", first.Size(), after.Size(), shared(first, after), shared(first, first))
		}
	})
}

// continued returns the body of a request with one more message.
func continued(req *schema.Request) (body []byte, ok bool) {
	list := req.Body.Root().Get(lists[req.Door])
	if list.Kind() != jsonscan.Array || list.Empty() {
		return nil, false
	}
	_, end := list.Span()
	text := req.Body.Data()
	return bytes.Join([][]byte{text[:end-1], []byte(`,{"role":"user","content":"and then?"}`), text[end-1:]}, nil), true
}
