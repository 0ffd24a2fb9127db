package simulator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type geminiAnswer struct {
	Candidates []struct {
		Content struct {
			Role  string
			Parts []struct {
				Text         string
				Thought      bool
				FunctionCall *struct {
					Name string
					Args map[string]any
				}
			}
		}
		FinishReason string
		Index        int
	}
	PromptFeedback struct{ BlockReason string }
	Usage          struct {
		Prompt   int `json:"promptTokenCount"`
		Said     int `json:"candidatesTokenCount"`
		Thoughts int `json:"thoughtsTokenCount"`
		Total    int `json:"totalTokenCount"`
	} `json:"usageMetadata"`
	ModelVersion string
	ResponseID   string
}

// geminiSaid is what an answer says of one candidate.
type geminiSaid struct{ Thought, Text, Call, Finish string }

func (a *geminiAnswer) addTo(said map[int]geminiSaid) {
	for _, candidate := range a.Candidates {
		s := said[candidate.Index]
		for _, part := range candidate.Content.Parts {
			switch {
			case part.FunctionCall != nil:
				s.Call += part.FunctionCall.Name
			case part.Thought:
				s.Thought += part.Text
			default:
				s.Text += part.Text
			}
		}
		s.Finish += candidate.FinishReason
		said[candidate.Index] = s
	}
}

const geminiTools = `"tools":[{"functionDeclarations":[{"name":"other"},{"name":"get_weather","parameters":{"type":"OBJECT","properties":{"city":{"type":"STRING"}}}}]}]`

func TestGeminiChat(t *testing.T) {
	const hello = `"contents":[{"role":"user","parts":[{"text":"hello"}]}]`
	tests := []struct {
		name, body, text string // text is Step.Text
		want             geminiSaid
		prompt           int
	}{
		{"greets", hello, "", geminiSaid{Text: `"hello"`, Finish: "STOP"}, 1},
		{"system instruction", `"systemInstruction":{"parts":[{"text":"be nice"}]},` + hello, "", geminiSaid{Text: `"hello"`, Finish: "STOP"}, 3},
		{"names with underscores", `"system_instruction":{"parts":[{"text":"be nice"}]},"generation_config":{"max_output_tokens":1},` + hello, "one two", geminiSaid{Text: "one", Finish: "MAX_TOKENS"}, 3},
		{"limit", `"generationConfig":{"maxOutputTokens":2},` + hello, "one two three", geminiSaid{Text: "one two", Finish: "MAX_TOKENS"}, 1},
		{"stop", `"generationConfig":{"stopSequences":[" two"]},` + hello, "one two three", geminiSaid{Text: "one", Finish: "STOP"}, 1},
		{"json", `"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"n":{"type":"INTEGER"}}}},` + hello, "", geminiSaid{Text: `{"n":1}`, Finish: "STOP"}, 1},
		{"thinks", `"generationConfig":{"thinkingConfig":{"includeThoughts":true}},` + hello, "", geminiSaid{Thought: "Someone says", Text: `"hello"`, Finish: "STOP"}, 1},
		{"thinks when told", `"contents":[{"parts":[{"text":"THINK"}]}]`, "", geminiSaid{Thought: "Someone says", Text: "THINK", Finish: "STOP"}, 1},
		{"calls", geminiTools + `,"contents":[{"parts":[{"text":"ask get_weather"}]}]`, "", geminiSaid{Call: "get_weather", Finish: "STOP"}, 4},
		{"must call", geminiTools + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["get_weather"]}},` + hello, "", geminiSaid{Call: "get_weather", Finish: "STOP"}, 1},
		{"must not call", geminiTools + `,"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},"contents":[{"parts":[{"text":"use the tool"}]}]`, "", geminiSaid{Text: "use the tool", Finish: "STOP"}, 3},
		{"tool result", geminiTools + `,"contents":[{"parts":[{"text":"go"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"n":42}}}]}]`, "", geminiSaid{Text: `{"n":42}`, Finish: "STOP"}, 1 + 1 + 2 + 7},
		{"images", `"contents":[{"parts":[{"text":"look"},{"inlineData":{"mimeType":"image/png","data":"aGk="}}]}]`, "", geminiSaid{Text: "One image", Finish: "STOP"}, 1 + imageTokens},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{Default: Behaviour{Step: Step{Text: test.text}}})
			body := r.post("/v1beta/models/m:generateContent", `{`+test.body+`}`).body
			plain := read[geminiAnswer](t, body)
			whole, streamed := map[int]geminiSaid{}, map[int]geminiSaid{}
			plain.addTo(whole)
			if s := whole[0]; !strings.Contains(s.Text, test.want.Text) || !strings.HasPrefix(s.Thought, test.want.Thought) ||
				(s.Thought == "") != (test.want.Thought == "") || s.Call != test.want.Call || s.Finish != test.want.Finish {
				t.Errorf("got %s", body)
			}
			u := plain.Usage
			if u.Prompt != test.prompt || u.Said == 0 || u.Thoughts != countTokens(whole[0].Thought) || u.Total != u.Prompt+u.Said+u.Thoughts || plain.ModelVersion != "m" || plain.ResponseID == "" {
				t.Errorf("usage of %s", body)
			}
			var last geminiAnswer
			for _, event := range payloads(t, r.post("/v1beta/models/m:streamGenerateContent?alt=sse", `{`+test.body+`}`).body) {
				next := read[geminiAnswer](t, event)
				if next.Usage.Total < last.Usage.Total {
					t.Errorf("the usage shrinks: %s", event)
				}
				next.addTo(streamed)
				last = next
			}
			if diff := cmp.Diff(whole, streamed); diff != "" || last.Usage != plain.Usage {
				t.Errorf("%s; usage %+v, want %+v", diff, last.Usage, plain.Usage)
			}
			inArray := map[int]geminiSaid{}
			for _, event := range read[[]geminiAnswer](t, r.post("/v1beta/models/m:streamGenerateContent", `{`+test.body+`}`).body) {
				event.addTo(inArray)
			}
			if diff := cmp.Diff(whole, inArray); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGeminiCandidates(t *testing.T) {
	r := newRig(t, Options{})
	const body = `{"generationConfig":{"candidateCount":2},"contents":[{"parts":[{"text":"hi"}]}]}`
	said, streamed := map[int]geminiSaid{}, map[int]geminiSaid{}
	plain := read[geminiAnswer](t, r.post("/v1beta/models/m:generateContent", body).body)
	plain.addTo(said)
	for _, event := range payloads(t, r.post("/v1beta/models/m:streamGenerateContent?alt=sse", body).body) {
		next := read[geminiAnswer](t, event)
		next.addTo(streamed)
	}
	if diff := cmp.Diff(said, streamed); diff != "" || len(said) != 2 || said[0] == said[1] {
		t.Errorf("%s: %+v", diff, said)
	}
}

func TestGeminiBlocksPrompts(t *testing.T) {
	r := newRig(t, Options{})
	const body = `{"contents":[{"parts":[{"text":"please BLOCK this"}]}]}`
	for _, got := range []geminiAnswer{
		read[geminiAnswer](t, r.post("/v1beta/models/m:generateContent", body).body),
		read[geminiAnswer](t, payloads(t, r.post("/v1beta/models/m:streamGenerateContent?alt=sse", body).body)[0]),
		read[[]geminiAnswer](t, r.post("/v1beta/models/m:streamGenerateContent", body).body)[0],
	} {
		if got.PromptFeedback.BlockReason != "SAFETY" || len(got.Candidates) != 0 || got.Usage.Prompt != 3 || got.Usage.Total != 3 {
			t.Errorf("got %+v", got)
		}
	}
}

func TestGeminiEmbeds(t *testing.T) {
	r := newRig(t, Options{})
	same := read[embeddings](t, r.post("/v1/embeddings", `{"model":"m","input":"the cat","dimensions":16}`).body).Data[0].Embedding
	type values struct{ Values []float32 }
	const one = `"content":{"parts":[{"text":"the cat"}]},"outputDimensionality":16}`
	batch := read[struct{ Embeddings []values }](t, r.post("/v1beta/models/m:batchEmbedContents", `{"requests":[{"model":"models/m",`+one+`,{"content":{"parts":[{"text":"b"}]}}]}`).body)
	single := read[struct{ Embedding values }](t, r.post("/v1beta/models/m:embedContent", `{`+one).body)
	if len(batch.Embeddings) != 2 || len(batch.Embeddings[1].Values) != usualDimensions {
		t.Fatalf("got %+v", batch)
	}
	if diff := cmp.Diff([]values{{same}, {same}}, []values{batch.Embeddings[0], single.Embedding}); diff != "" {
		t.Error(diff)
	}
}

func TestGeminiRefusals(t *testing.T) {
	r := newRig(t, Options{Models: []string{"known"}})
	for _, test := range []struct {
		name, call, body string
		status           int
		has              string
	}{
		{"unknown model", "other:generateContent", `{}`, 404, `"status":"NOT_FOUND"`},
		{"unknown method", "known:dance", `{}`, 404, `"status":"NOT_FOUND"`},
		{"no method", "known", `{}`, 404, `"status":"NOT_FOUND"`},
		{"broken JSON", "known:generateContent", `{`, 400, `"status":"INVALID_ARGUMENT"`},
		{"no contents", "known:generateContent", `{}`, 400, `contents`},
		{"too many candidates", "known:generateContent", `{"contents":[{}],"generationConfig":{"candidateCount":9}}`, 400, `"INVALID_ARGUMENT"`},
		{"nothing to embed", "known:embedContent", `{}`, 400, `"INVALID_ARGUMENT"`},
	} {
		if got := r.post("/v1beta/models/"+test.call, test.body); got.status != test.status || !strings.HasPrefix(got.body, `{"error":{"code":`) || !strings.Contains(got.body, test.has) {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
	for status, name := range map[int]string{403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"} {
		r.Script(Step{Status: status})
		if got := r.post("/v1beta/models/known:generateContent", `{}`); got.status != status || !strings.Contains(got.body, `"status":"`+name+`"`) {
			t.Errorf("%d: %+v", status, got)
		}
	}
}
