package prompts_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/prompts"
)

// The sentences of which prompts are made: words, source code with quotes and line feeds,
// and a script that is written with escapes.
var sentences = []struct{ name, text string }{
	{"words", "Tell me about patch bays, and about what they connect. "},
	{"code", `if name == \"patch\" {\n\treturn bays[name], nil\n}\n`},
	{"escapes", `\u8bf7\u544a\u8bc9\u6211\u8df3\u7ebf\u76d8`},
}

// conversation writes a body of about the given size at a door: messages of 2 KB.
func conversation(door schema.Door, sentence string, size int) string {
	const frame, longest = 100, 2048
	var said []string
	for left := size - frame; left > frame; {
		text := strings.Repeat(sentence, (min(longest, left)-frame)/len(sentence)+1)
		said = append(said, message(door, []string{"user", "assistant"}[len(said)%2], text))
		left -= len(said[len(said)-1])
	}
	return opening(door) + strings.Join(said, ",") + "]}"
}

// opening is a body up to its first message.
func opening(door schema.Door) string {
	switch door {
	case schema.DoorResponses:
		return `{"model":"m","stream":true,"store":false,"input":[`
	case schema.DoorCompletions:
		return `{"model":"m","stream":true,"max_tokens":100,"prompt":[`
	}
	return `{"model":"m","stream":true,"max_tokens":100,"messages":[`
}

// message writes a message in the words of a door, as its clients do.
func message(door schema.Door, role, text string) string {
	switch door {
	case schema.DoorMessages:
		return `{"role":"` + role + `","content":[{"type":"text","text":"` + text + `"}]}`
	case schema.DoorResponses:
		return `{"type":"message","role":"` + role + `","content":[{"type":"input_text","text":"` + text + `"}]}`
	case schema.DoorCompletions:
		return `"` + text + `"`
	}
	return `{"role":"` + role + `","content":"` + text + `"}`
}

// BenchmarkRead reads requests that were scanned before: at most 25 us for 100 KB.
func BenchmarkRead(b *testing.B) {
	for _, door := range []schema.Door{schema.DoorChat, schema.DoorMessages, schema.DoorResponses, schema.DoorCompletions} {
		for _, size := range []int{1 << 10, 100 << 10} {
			for _, sentence := range sentences {
				b.Run(fmt.Sprintf("%s/%dKB/%s", door, size>>10, sentence.name), func(b *testing.B) {
					req := request(b, door, conversation(door, sentence.text, size))
					prompt := fleet.NewPrompt(&fleet.Secret{1})
					b.SetBytes(int64(size))
					b.ReportAllocs()
					for b.Loop() {
						prompt.Reset("")
						prompts.Read(req, prompt)
					}
				})
			}
		}
	}
}

// TestReadingAllocatesNothing reads requests with everything that messages have.
func TestReadingAllocatesNothing(t *testing.T) {
	for door, body := range map[schema.Door]string{
		schema.DoorChat: `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"` + words(1, 3000) +
			`"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64Of(1, 3000) + `"}}]},{"role":"assistant","tool_calls":[{"function":{"name":"f"}}],"new":{"a":[1]}},{"role":"tool","content":"t"}]}`,
		schema.DoorMessages:    `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"r"}]}]}]}`,
		schema.DoorResponses:   `{"model":"m","instructions":"i","input":[{"role":"user","content":"u"},{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","output":"o"}]}`,
		schema.DoorCompletions: `{"model":"m","prompt":["` + words(1, 3000) + `","b"],"suffix":"s"}`,
		schema.DoorEmbeddings:  `{"model":"m","input":["a","b"]}`,
		schema.DoorRerank:      `{"model":"m","query":"q","documents":["a","b"]}`,
	} {
		req, p := request(t, door, body), fleet.NewPrompt(&fleet.Secret{1})
		header := http.Header{"X-Session-Affinity": {"s"}}
		got := testing.AllocsPerRun(100, func() {
			p.Reset("tenant")
			prompts.Read(req, p)
			prompts.Hint(req, header)
		})
		if got > 0 {
			t.Errorf("%s: %v allocations", door, got)
		}
	}
}

// BenchmarkWork reads requests that have no prompt.
func BenchmarkWork(b *testing.B) {
	text := words(1, 2000)
	for door, body := range map[schema.Door]string{
		schema.DoorEmbeddings: `{"model":"m","input":["` + strings.Repeat(text+`","`, 50) + `"]}`,
		schema.DoorRerank:     `{"model":"m","query":"which?","documents":["` + strings.Repeat(text+`","`, 50) + `"]}`,
	} {
		b.Run(fmt.Sprintf("%s/%dKB", door, len(body)>>10), func(b *testing.B) {
			req := request(b, door, body)
			prompt := fleet.NewPrompt(&fleet.Secret{1})
			b.ReportAllocs()
			for b.Loop() {
				prompt.Reset("")
				prompts.Read(req, prompt)
			}
		})
	}
}
