package v1_test

import (
	"encoding/base64"
	endian "encoding/binary"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

type embeddings struct {
	Object string `json:"object"`
	Model  string `json:"model"`
	Data   []struct {
		Object    string         `json:"object"`
		Index     int            `json:"index"`
		Embedding jsontext.Value `json:"embedding"`
	} `json:"data"`
	Usage struct {
		PromptTokens int `json:"prompt_tokens"`
		TotalTokens  int `json:"total_tokens"`
	} `json:"usage"`
}

// vector reads a vector in either form, and checks that it has this one.
func vector(t *testing.T, raw jsontext.Value, inBase64 bool) []float32 {
	t.Helper()
	if inBase64 != (raw.Kind() == '"') {
		t.Fatalf("base64 was asked: %v, came: %.60s", inBase64, raw)
	}
	var floats []float32
	if !inBase64 {
		if err := json.Unmarshal(raw, &floats); err != nil {
			t.Fatalf("%v in %.60s", err, raw)
		}
		return floats
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		t.Fatal(err)
	}
	bits, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(bits)%4 != 0 {
		t.Fatalf("%d bytes, %v in %.60s", len(bits), err, raw)
	}
	for ; len(bits) > 0; bits = bits[4:] {
		floats = append(floats, math.Float32frombits(endian.LittleEndian.Uint32(bits)))
	}
	return floats
}

func (e *embeddings) vectors(t *testing.T, inBase64 bool) [][]float32 {
	t.Helper()
	if e.Object != "list" || e.Model != "m" {
		t.Errorf("object %q, model %q", e.Object, e.Model)
	}
	var all [][]float32
	for i, item := range e.Data {
		if item.Object != "embedding" || item.Index != i {
			t.Errorf("item %d has object %q and index %d", i, item.Object, item.Index)
		}
		all = append(all, vector(t, item.Embedding, inBase64))
	}
	return all
}

func TestEmbeddingsAreTheSameInBothForms(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	const inputs = `"model":"m","input":["the cat sat","the cat sat down","stock market crash",""]`
	embed := func(more string) embeddings {
		return decode[embeddings](t, r.Post("/v1/embeddings", "{"+inputs+more+"}"))
	}
	float := embed(`,"encoding_format":"float"`)
	want := float.vectors(t, false)
	if len(want) != 4 || len(want[0]) < 16 {
		t.Fatalf("%d vectors", len(want))
	}
	if float.Usage.PromptTokens <= 0 || float.Usage.TotalTokens != float.Usage.PromptTokens {
		t.Errorf("usage %+v", float.Usage)
	}
	plain, packed := embed(""), embed(`,"encoding_format":"base64"`)
	for name, got := range map[string][][]float32{"default": plain.vectors(t, false), "base64": packed.vectors(t, true)} {
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s differs from float", name)
		}
	}
	if near, far := cosine(want[0], want[1]), cosine(want[0], want[2]); near < far+0.3 {
		t.Errorf("similar texts have %.2f, others %.2f", near, far)
	}
	for i, request := range b.Requests() {
		asked := strings.Contains(string(request.Body), `"encoding_format":"float"`)
		if strings.Contains(string(request.Body), "base64") || asked != (i != 1) {
			t.Errorf("the backend was asked %s", request.Body)
		}
	}
}

func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return dot / math.Sqrt(aa*bb)
}

func TestEmbeddingDimensions(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	for _, more := range []string{``, `,"encoding_format":"base64"`} {
		got := decode[embeddings](t, r.Post("/v1/embeddings", `{"model":"m","input":"hi","dimensions":8`+more+`}`))
		if v := got.vectors(t, more != ""); len(v[0]) != 8 {
			t.Errorf("%d dimensions", len(v[0]))
		}
		// A vector of another length than was asked for would poison an index.
		b.Script(simulator.Step{Body: `{"object":"list","data":[{"index":0,"embedding":[1,2,3]}],"model":"x"}`})
		r.Post("/v1/embeddings", `{"model":"m","input":"hi","dimensions":8`+more+`}`).
			FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, "invalid_value", "dimensions")
	}
}

func TestEmbeddingsOfTokenIDs(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	for input, count := range map[string]int{`[1,2,3]`: 1, `[[1,2],[3]]`: 2, `[[101, 7592, 102]]`: 1, `"one"`: 1, `["a","b","c"]`: 3} {
		got := decode[embeddings](t, r.Post("/v1/embeddings", `{"model":"m","input":`+input+`}`))
		if v := got.vectors(t, false); len(v) != count {
			t.Errorf("%s: %d vectors", input, len(v))
		}
		requests := b.Requests()
		if sent := string(requests[len(requests)-1].Body); !strings.Contains(sent, `"input":`+input) {
			t.Errorf("%s was sent as %s", input, sent)
		}
	}
}

// What a backend makes of the wish for a form does not matter, nor the order in
// which it answers.
func TestEmbeddingsOfOddBackends(t *testing.T) {
	t.Parallel()
	quarter := base64.StdEncoding.EncodeToString([]byte{0, 0, 128, 62, 0, 0, 0, 192}) // 0.25, -2
	item := func(index int, vector string) string {
		return fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, index, vector)
	}
	for name, test := range map[string]struct {
		data string
		want [][]float32
	}{
		"numbers":      {item(0, `[0.25,-2]`) + "," + item(1, `[1e-3, 3]`), [][]float32{{0.25, -2}, {0.001, 3}}},
		"base64":       {item(0, `"`+quarter+`"`) + "," + item(1, `"`+quarter+`"`), [][]float32{{0.25, -2}, {0.25, -2}}},
		"mixed":        {item(0, `[1,2]`) + "," + item(1, `"`+quarter+`"`), [][]float32{{1, 2}, {0.25, -2}}},
		"out of order": {item(1, `[3,4]`) + "," + item(0, `[1,2]`), [][]float32{{1, 2}, {3, 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, inBase64 := range []bool{false, true} {
				format := map[bool]string{false: "float", true: "base64"}[inBase64]
				r, _ := gatewaytest.StartService(t, simulator.Step{Body: `{"data":[` + test.data + `],"model":"theirs","usage":{"prompt_tokens":3,"total_tokens":3}}`})
				got := decode[embeddings](t, r.Post("/v1/embeddings", `{"model":"m","input":["a","b"],"encoding_format":"`+format+`"}`))
				if v := got.vectors(t, inBase64); !slices.EqualFunc(v, test.want, slices.Equal) {
					t.Errorf("%s: %v, want %v", format, v, test.want)
				}
				if got.Usage.TotalTokens != 3 {
					t.Errorf("usage %+v", got.Usage)
				}
			}
		})
	}
}

// An invalid answer is a failure of the instance, and another instance is tried.
func TestAnswersThatAreNotEmbeddingsAreErrors(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"error inside":     simulator.ErrorObject("no", "t", "c"),
		"no data":          `{"object":"list","data":[]}`,
		"no vector":        `{"data":[{"index":0}]}`,
		"texts":            `{"data":[{"index":0,"embedding":["a"]}]}`,
		"page":             simulator.HTMLPage,
		"too few vectors":  `{"data":[{"index":0,"embedding":[1]}]}`,
		"too many vectors": `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]},{"index":2,"embedding":[1]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			const two = `{"model":"m","input":["a","b"]}`
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			a.ScriptForever(simulator.Step{Body: body})
			alone := gatewaytest.Start(t, gatewaytest.ServiceYAML("embedding", gatewaytest.Instance("m", a.URL())))
			alone.Post("/v1/embeddings", two).FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
			r := gatewaytest.Start(t, gatewaytest.ServiceYAML("embedding", gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
			answer := r.Post("/v1/embeddings", two)
			if got := decode[embeddings](t, answer); len(got.Data) != 2 || answer.Header.Get("X-Router-Attempts") != "2" {
				t.Errorf("%d vectors after %s attempts", len(got.Data), answer.Header.Get("X-Router-Attempts"))
			}
		})
	}
}
