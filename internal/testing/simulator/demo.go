package simulator

import (
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// Models of the demo.
const (
	DemoChat  = "demo-chat"  // answers normally
	DemoSlow  = "demo-slow"  // the first token comes late
	DemoFlaky = "demo-flaky" // every third call answers 500
	DemoCut   = "demo-cut"   // the answer breaks off in the middle
	DemoHang  = "demo-hang"  // never answers
	DemoDown  = "demo-down"  // the connection is dropped without an answer
	DemoRelay = "demo-relay" // the backend A breaks off every third answer, others do not
	DemoDay   = "demo-day"   // shares the memory of an engine with DemoNight
	DemoNight = "demo-night" // does not fit into that memory beside DemoDay

	DemoOllama    = "demo-ollama"     // chat in Ollama's dialect
	DemoClaude    = "demo-claude"     // chat in Anthropic's dialect
	DemoGemini    = "demo-gemini"     // chat in Gemini's dialect
	DemoResponses = "demo-responses"  // speaks the Responses API besides chat
	DemoEmbedding = "demo-embedding"  // texts that share words have similar vectors
	DemoRerank    = "demo-rerank"     // texts that contain the words of the query come first
	DemoSpeech    = "demo-tts"        // a tone for every word
	DemoListen    = "demo-stt"        // describes the file that was uploaded
	DemoImage     = "demo-image"      // an image that shows the prompt as text
	DemoImageEdit = "demo-image-edit" // the uploaded image in another colour
)

const (
	// DemoTokenDelay makes about 30 tokens a second.
	DemoTokenDelay = 33 * time.Millisecond
	// DemoSlowStart is the usual delay of DemoSlow.
	DemoSlowStart = 2 * time.Second
)

// DownURL is the base URL of a backend that does not run. Port 1 is privileged
// and outside the range of ephemeral ports, so no other listener gets it by chance.
const DownURL = "http://127.0.0.1:1"

// Demo returns the options of a backend of the demo, which serves all of its
// models. slowStart is the delay of DemoSlow before its first token; zero means
// DemoSlowStart.
func Demo(name string, slowStart time.Duration) Options {
	if slowStart == 0 {
		slowStart = DemoSlowStart
	}
	relay := Behaviour{}
	if name == "A" {
		relay = Behaviour{Step: Step{Stop: StopReset, After: 10}, Every: 3}
	}
	return Options{
		Name: name,
		Models: []string{
			DemoChat, DemoOllama, DemoClaude, DemoGemini, DemoResponses, DemoEmbedding,
			DemoRerank, DemoSpeech, DemoListen, DemoImage, DemoImageEdit,
		},
		TokenDelay: DemoTokenDelay,
		Behaviours: map[string]Behaviour{
			DemoSlow:  {Step: Step{FirstDelay: slowStart}},
			DemoFlaky: {Step: Step{Status: http.StatusInternalServerError}, Every: 3},
			DemoCut:   {Step: Step{Stop: StopReset, After: 10}},
			DemoHang:  {Step: Step{Hang: true}},
			DemoDown:  {Step: Step{Reset: true}},
			DemoRelay: relay,
		},
	}
}

// DemoEngine returns the options of a backend of the demo that is an Ollama with room for one of
// its two models, which it takes two seconds to load.
func DemoEngine(name string) Options {
	return Options{
		Name: name, Models: []string{DemoDay, DemoNight}, Kind: Ollama,
		Engine: &engine.Spec{Block: 16, Cache: 100_000, Token: 0.0002, Request: 0.02,
			Decode: DemoTokenDelay.Seconds(), Room: 1, Load: 2, Size: 19 << 30},
	}
}
