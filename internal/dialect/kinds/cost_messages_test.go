package kinds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/anthropic/messages"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// messageShapes are requests of the Messages API that grow in one place.
func messageShapes() map[string]costShape {
	around := func(before, after string, item func(i int) string) costShape {
		return func(size int) string {
			return `{"model":"m","max_tokens":9,` + before + repeat(size, item) + after + `}`
		}
	}
	turn := `"messages":[{"role":"user","content":"x"}]`
	block := func(text string) func(int) string {
		return func(i int) string { return strings.ReplaceAll(text, "#", fmt.Sprint(i)) }
	}
	return map[string]costShape{
		"turns":        around(`"messages":[`, `]`, block(`{"role":"user","content":"#"},{"role":"assistant","content":"#"}`)),
		"user turns":   around(`"messages":[`, `]`, block(`{"role":"user","content":"#"}`)),
		"reminders":    around(`"messages":[{"role":"user","content":"x"},`, `]`, block(`{"role":"system","content":"#"}`)),
		"blocks":       around(`"messages":[{"role":"user","content":[`, `]}]`, block(`{"type":"text","text":"#"}`)),
		"results":      around(`"messages":[{"role":"user","content":[`, `]}]`, block(`{"type":"tool_result","tool_use_id":"toolu_pb1_eAB5#","content":[{"type":"text","text":"#"},{"type":"text","text":"#"}]}`)),
		"calls":        around(`"messages":[{"role":"assistant","content":[`, `]}]`, block(`{"type":"tool_use","id":"#","name":"f","input":{"a":[#]}}`)),
		"thinking":     around(`"messages":[{"role":"assistant","content":[`, `]}]`, block(`{"type":"thinking","thinking":"#","signature":"pb1."}`)),
		"documents":    around(`"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[`, `]}}]}]`, block(`{"type":"text","text":"#"}`)),
		"system texts": around(turn+`,"system":[`, `]`, block(`{"type":"text","text":"#"}`)),
		"tools":        around(turn+`,"tools":[`, `]`, block(`{"name":"f#","input_schema":{"type":"object","properties":{"a#":{"type":"string"}}}}`)),
		"members":      around(turn+`,`, ``, block(`"x#":#`)),
		"input members": around(`"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{`, `}}]}]`,
			block(`"x#":#`)),
	}
}

// Reading a request of another dialect, translating it and putting it to a backend is
// linear work, too.
func TestCostOfAMessageGrowsWithItsSizeOnly(t *testing.T) {
	for _, name := range []string{"openai", "ollama", "gemini", "anthropic"} {
		kind, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test", Model: "other"})
		if err != nil {
			t.Fatal(err)
		}
		for shape, make := range messageShapes() {
			if (testing.Short() || raceDetector) && shape != "results" {
				continue
			}
			t.Run(name+"/"+shape, func(t *testing.T) {
				growsLinearly(t, make, func(body []byte) {
					req := new(schema.Request)
					if err := messages.ReadRequest(req, body); err != nil {
						t.Fatal(err)
					}
					to, adapter := target.ForDoor(req.Door, messages.Client)
					_ = adapter.Call(req, to, new(wire.Call)) // a refusal has its cost, too
					_ = messages.Estimate(req)
				})
			})
		}
	}
}
