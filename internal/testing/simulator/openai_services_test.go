package simulator

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// read decodes JSON that the simulator wrote.
func read[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := json.Unmarshal([]byte(text), &value, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%v in %.2000s", err, text)
	}
	return value
}

func (r *rig) post(path, body string) reply {
	r.t.Helper()
	return r.do(waittest.Context(r.t), http.MethodPost, path, body)
}

type embeddings struct {
	Object string
	Model  string
	Data   []struct {
		Object    string
		Index     int
		Embedding []float32
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

func cosine(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestSimilarTextsAreCloser(t *testing.T) {
	r := newRig(t, Options{})
	for _, test := range []struct{ text, near, far string }{
		{"the cat sits on the mat", "The cat sat on a mat!", "quarterly revenue grew by nine percent"},
		{"how do I reset my password", "password reset does not work", "bread needs flour and water"},
		{"你好世界", "世界你好", "完全不同"},
	} {
		body, _ := json.Marshal(map[string]any{"model": "m", "input": []string{test.text, test.near, test.far}})
		got := read[embeddings](t, r.post("/v1/embeddings", string(body)).body)
		if len(got.Data) != 3 || got.Object != "list" || got.Model != "m" || got.Data[2].Index != 2 {
			t.Fatalf("got %+v", got)
		}
		text, near, far := got.Data[0].Embedding, got.Data[1].Embedding, got.Data[2].Embedding
		if len(text) != usualDimensions || math.Abs(cosine(text, text)-1) > 1e-5 {
			t.Errorf("%d dimensions of length² %v", len(text), cosine(text, text))
		}
		if cosine(text, near) < cosine(text, far)+0.2 {
			t.Errorf("%q: near %.3f, far %.3f", test.text, cosine(text, near), cosine(text, far))
		}
		if want := countTokens(test.text) + countTokens(test.near) + countTokens(test.far); got.Usage.Prompt != want || got.Usage.Total != want {
			t.Errorf("usage %+v, want %d", got.Usage, want)
		}
	}
}

func TestBase64HoldsTheSameFloats(t *testing.T) {
	r := newRig(t, Options{})
	for _, dimensions := range []string{"1", "64", "1536"} {
		body := `{"model":"m","input":"some words to embed","dimensions":` + dimensions
		floats := read[embeddings](t, r.post("/v1/embeddings", body+`}`).body).Data[0].Embedding
		coded := read[struct{ Data []struct{ Embedding string } }](t, r.post("/v1/embeddings", body+`,"encoding_format":"base64"}`).body)
		raw, err := base64.StdEncoding.DecodeString(coded.Data[0].Embedding)
		if err != nil {
			t.Fatal(err)
		}
		var got []float32
		for len(raw) > 0 {
			got, raw = append(got, math.Float32frombits(binary.LittleEndian.Uint32(raw))), raw[4:]
		}
		if diff := cmp.Diff(floats, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestEmbeddingInputs(t *testing.T) {
	tests := []struct {
		name, rest     string
		status, inputs int
		tokens         int
	}{
		{"one text", `"input":"a b"`, 200, 1, 2},
		{"texts", `"input":["a","b c"]`, 200, 2, 3},
		{"dimensions with a fraction of zero", `"input":"a b","dimensions":8.0`, 200, 1, 2},
		{"dimensions with a fraction", `"input":"a","dimensions":8.5`, 400, 0, 0},
		{"token ids", `"input":[1,2,3]`, 200, 1, 3},
		{"lists of token ids", `"input":[[1,2],[3]],"dimensions":8`, 200, 2, 3},
		{"nothing", `"dimensions":8`, 400, 0, 0},
		{"empty list", `"input":[]`, 400, 0, 0},
		{"empty text", `"input":""`, 400, 0, 0},
		{"objects", `"input":[{}]`, 400, 0, 0},
		{"null in place of a token id", `"input":[[1,null]]`, 400, 0, 0},
		{"token id below 0", `"input":[-1]`, 400, 0, 0},
		{"largest token id", `"input":[2147483647]`, 200, 1, 1},
		{"token id of more than 32 bits", `"input":[2147483648]`, 400, 0, 0},
		{"no token ids in a list", `"input":[[]]`, 400, 0, 0},
		{"too many dimensions", `"input":"a","dimensions":4097`, 400, 0, 0},
		{"odd encoding", `"input":"a","encoding_format":"hex"`, 400, 0, 0},
		{"unknown model", `"model":"other","input":"a"`, 404, 0, 0},
	}
	r := newRig(t, Options{Models: []string{"m"}})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := r.post("/v1/embeddings", `{"model":"m",`+test.rest+`}`)
			if got.status != test.status {
				t.Fatalf("got %+v", got)
			}
			if list := read[embeddings](t, got.body); len(list.Data) != test.inputs || list.Usage.Total != test.tokens {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestRerankOrdersByOverlap(t *testing.T) {
	r := newRig(t, Options{Models: []string{"m"}})
	const documents = `"query":"capital of France","documents":["a dog barks",{"text":"Paris is the capital of France"},"the capital"]`
	tests := []struct{ name, path, rest, want string }{
		{"jina", "/v1/rerank", ``, "1 2 0"},
		{"bare path", "/rerank", ``, "1 2 0"},
		{"cohere", "/v2/rerank", ``, "1 2 0"},
		{"top_n", "/v1/rerank", `,"top_n":2`, "1 2"},
		{"top_n beyond the list", "/v1/rerank", `,"top_n":9`, "1 2 0"},
		{"documents", "/v1/rerank", `,"return_documents":true,"top_n":1`, "1=Paris is the capital of France"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := r.post(test.path, `{"model":"m",`+documents+test.rest+`}`).body
			got := read[struct {
				Results []struct {
					Index    int
					Score    float64 `json:"relevance_score"`
					Document *struct{ Text string }
				}
				Usage struct {
					Total int `json:"total_tokens"`
				}
				Meta struct {
					Tokens struct {
						Input int `json:"input_tokens"`
					}
				}
			}](t, body)
			var order []string
			last := 1.0
			for _, result := range got.Results {
				item := string(rune('0' + result.Index))
				if result.Document != nil {
					item += "=" + result.Document.Text
				}
				order = append(order, item)
				if result.Score > last || result.Score < 0 {
					t.Errorf("scores of %s", body)
				}
				last = result.Score
			}
			if strings.Join(order, " ") != test.want || got.Usage.Total+got.Meta.Tokens.Input != 3*3+3+6+2 {
				t.Errorf("got %s", body)
			}
		})
	}
}

func TestRerankInTheShapeOfTEI(t *testing.T) {
	r := newRig(t, Options{})
	type scores []struct {
		Index int
		Score float64
		Text  string
	}
	const body = `{"query":"red fish","texts":["blue bird","one red fish"]`
	got := read[scores](t, r.post("/rerank", body+`}`).body)
	if len(got) != 2 || got[0].Index != 1 || got[0].Score <= got[1].Score || got[0].Text != "" {
		t.Errorf("got %+v", got)
	}
	got = read[scores](t, r.post("/rerank", body+`,"raw_scores":true,"return_text":true}`).body)
	if got[0].Text != "one red fish" || got[1].Score >= 0 {
		t.Errorf("got %+v", got)
	}
	if got := r.post("/rerank", `{"query":"","texts":[]}`); got.status != 422 || !strings.Contains(got.body, `"error_type":"Validation"`) {
		t.Errorf("got %+v", got)
	}
}

func TestUsageOfOtherServicesObeysTheStep(t *testing.T) {
	r := newRig(t, Options{})
	ask := map[string]func() reply{
		"embeddings": func() reply { return r.post("/v1/embeddings", `{"model":"m","input":"a"}`) },
		"rerank":     func() reply { return r.post("/v1/rerank", `{"model":"m","query":"a","documents":["a"]}`) },
		"cohere":     func() reply { return r.post("/v2/rerank", `{"model":"m","query":"a","documents":["a"]}`) },
		"images":     func() reply { return r.post("/v1/images/generations", `{"model":"m","prompt":"a","size":"16x16"}`) },
		"stt": func() reply {
			return r.sendForm("/v1/audio/transcriptions", part{"model", "", "m"}, part{"file", "a.wav", oneSecond()})
		},
		"ollama": func() reply { return r.post("/api/embed", `{"model":"m","input":"a"}`) },
	}
	for name, ask := range ask {
		r.Script(Step{Usage: UsageNone, Extra: `"vendor":1`})
		if got := ask(); got.status != 200 || strings.Contains(got.body, "tokens") || strings.Contains(got.body, "prompt_eval_count") ||
			strings.Contains(got.body, `"duration"`) || !strings.HasSuffix(got.body, `,"vendor":1}`) {
			t.Errorf("%s: %+v", name, got)
		}
		r.Script(Step{UsageValue: `{"odd":true}`})
		if got := ask(); !strings.Contains(got.body, `"usage":{"odd":true}`) && name != "cohere" && name != "ollama" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r.Script(Step{Text: "what was said"})
	if got := ask["stt"](); !strings.HasPrefix(got.body, `{"text":"what was said"`) {
		t.Errorf("got %+v", got)
	}
}

func TestBadRerankRequests(t *testing.T) {
	r := newRig(t, Options{})
	for _, rest := range []string{`"documents":["a"]`, `"query":"a"`, `"query":"a","documents":[]`, `"query":"a","documents":[3]`, `"query":"a","documents":["a"],"top_n":0`} {
		if got := r.post("/v1/rerank", `{"model":"m",`+rest+`}`); got.status != 400 || !strings.HasPrefix(got.body, `{"error":{`) {
			t.Errorf("%s: %+v", rest, got)
		}
	}
}
