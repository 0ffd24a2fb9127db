package kinds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/gemini/genai"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// geminiShapes are requests of Gemini's API that grow in one place.
func geminiShapes() map[string]costShape {
	around := func(before, after string, item func(i int) string) costShape {
		return func(size int) string { return `{` + before + repeat(size, item) + after + `}` }
	}
	turn := `"contents":[{"role":"user","parts":[{"text":"x"}]}]`
	block := func(text string) func(int) string {
		return func(i int) string { return strings.ReplaceAll(text, "#", fmt.Sprint(i)) }
	}
	calls := block(`{"functionCall":{"name":"f#","args":{}}}`)
	return map[string]costShape{
		"turns":        around(`"contents":[`, `]`, block(`{"role":"user","parts":[{"text":"#"}]},{"role":"model","parts":[{"text":"#"}]}`)),
		"parts":        around(`"contents":[{"role":"user","parts":[`, `]}]`, block(`{"text":"#"}`)),
		"said":         around(`"contents":[{"role":"model","parts":[`, `]}]`, block(`{"text":"#"}`)),
		"thoughts":     around(`"contents":[{"role":"model","parts":[`, `]}]`, block(`{"text":"#","thought":true}`)),
		"system texts": around(turn+`,"systemInstruction":{"parts":[`, `]}`, block(`{"text":"#"}`)),
		"tools":        around(turn+`,"tools":[{"functionDeclarations":[`, `]}]`, block(`{"name":"f#","parameters":{"type":"OBJECT"}}`)),
		"tools of which some are allowed": func(size int) string {
			return `{` + turn + `,"tools":[{"functionDeclarations":[` + repeat(size/2, block(`{"name":"f#"}`)) + `]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["x",` +
				repeat(size/2, block(`"f#"`)) + `]}}}`
		},
		"results that no call has": func(size int) string {
			return `{"contents":[{"role":"model","parts":[` + repeat(size/2, calls) + `]},{"role":"user","parts":[` +
				repeat(size/2, block(`{"functionResponse":{"name":"g#","response":{}}}`)) + `]}]}`
		},
		"results": func(size int) string {
			return `{"contents":[{"role":"model","parts":[` + repeat(size/2, calls) + `]},{"role":"user","parts":[` +
				repeat(size/2, block(`{"functionResponse":{"name":"f#","response":{}}}`)) + `]}]}`
		},
	}
}

// Reading a request of Gemini's API and putting it to a backend is linear work, too.
func TestCostOfAGeminiRequestGrowsWithItsSizeOnly(t *testing.T) {
	kind, err := Lookup("openai")
	if err != nil {
		t.Fatal(err)
	}
	target, err := kind.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test", Model: "other"})
	if err != nil {
		t.Fatal(err)
	}
	for shape, make := range geminiShapes() {
		if (testing.Short() || raceDetector) && shape != "results" {
			continue
		}
		t.Run(shape, func(t *testing.T) {
			growsLinearly(t, make, func(body []byte) {
				req := &schema.Request{PathModel: "m"}
				if err := genai.ReadRequest(req, body); err != nil {
					t.Fatal(err)
				}
				to, adapter := target.ForDoor(req.Door, genai.ClientFor(req))
				_ = adapter.Call(req, to, new(wire.Call)) // a refusal has its cost, too
			})
		})
	}
}
