package v1_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

type ranking struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Results []struct {
		Index          int            `json:"index"`
		Score          jsontext.Value `json:"score"`
		RelevanceScore jsontext.Value `json:"relevance_score"`
		Document       *struct {
			Text string `json:"text"`
		} `json:"document"`
	} `json:"results"`
	Usage struct {
		TotalTokens *int `json:"total_tokens"`
	} `json:"usage"`
}

// order returns the documents in their order, and checks what every ranking has.
func (r *ranking) order(t *testing.T, withDocuments bool) []int {
	t.Helper()
	if r.ID == "" || r.Model != "m" || r.Usage.TotalTokens == nil {
		t.Errorf("id %q, model %q, usage %v", r.ID, r.Model, r.Usage)
	}
	var list []int
	for _, result := range r.Results {
		if string(result.Score) != string(result.RelevanceScore) || result.Score.Kind() != '0' {
			t.Errorf("score %s, relevance_score %s", result.Score, result.RelevanceScore)
		}
		if (result.Document != nil) != withDocuments {
			t.Errorf("document %v, asked for: %v", result.Document, withDocuments)
		}
		list = append(list, result.Index)
	}
	return list
}

// Every shape of backend gives the same ranking, with what was asked for.
func TestRerank(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"openai", "cohere", "jina", "tei", "llamacpp", "localai", "vllm"} {
		t.Run(kind, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.ServiceYAML("rerank", gatewaytest.Instance("m", b.URL(), "adapter: "+kind)))
			rank := func(more string) ranking {
				t.Helper()
				return decode[ranking](t, r.Post("/v1/rerank",
					`{"model":"m","query":"red apples","documents":["blue sky",{"text":"red apples are sweet"},"green apples",{"text":"red"}]`+more+`}`))
			}
			all := rank("")
			order := all.order(t, false)
			if len(order) != 4 || order[0] != 1 || order[3] != 0 {
				t.Errorf("order %v", order)
			}
			if kind != "tei" && *all.Usage.TotalTokens <= 0 {
				t.Errorf("usage %d", *all.Usage.TotalTokens)
			}
			top := rank(`,"top_n":2,"return_documents":true`)
			if got := top.order(t, true); !slices.Equal(got, order[:2]) || top.Results[0].Document.Text != "red apples are sweet" {
				t.Errorf("the first two are %v: %+v", got, top.Results)
			}
			many := rank(`,"top_n":100,"return_documents":false`)
			if got := many.order(t, false); !slices.Equal(got, order) {
				t.Errorf("the first hundred are %v", got)
			}
		})
	}
}

// Order, number and documents are seen to here when the backend does not.
func TestRerankAppliesFieldsThatBackendsIgnore(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	const body = `{"model":"m","query":"q","documents":["a",{"text":"b"},{"title":"c"}],"top_n":2,"return_documents":true}`
	for name, reply := range map[string]string{
		"score":           `{"results":[{"index":0,"score":0.10},{"index":2,"score":-1e-2},{"index":1,"score":0.9}]}`,
		"relevance_score": `{"id":"x","results":[{"index":0,"relevance_score":0.10},{"index":2,"relevance_score":-1e-2},{"index":1,"relevance_score":0.9}]}`,
		"data":            `{"object":"list","data":[{"index":0,"relevance_score":0.10},{"index":2,"relevance_score":-1e-2},{"index":1,"relevance_score":0.9}]}`,
		"both":            `{"results":[{"index":0,"score":7,"relevance_score":0.10},{"index":2,"relevance_score":-1e-2},{"index":1,"score":0,"relevance_score":0.9}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			b.Script(simulator.Step{Body: reply})
			answer := r.Post("/v1/rerank", body)
			got := decode[ranking](t, answer)
			if order := got.order(t, true); !slices.Equal(order, []int{1, 0}) {
				t.Errorf("order %v", order)
			}
			if got.Results[0].Document.Text != "b" || got.Results[1].Document.Text != "a" || string(got.Results[1].Score) != "0.10" {
				t.Errorf("results %s", answer.Body)
			}
		})
	}
	t.Run("a document without a text", func(t *testing.T) {
		b.Script(simulator.Step{Body: `{"results":[{"index":2,"score":1}]}`})
		got := decode[ranking](t, r.Post("/v1/rerank", body))
		if got.Results[0].Document.Text != `{"title":"c"}` {
			t.Errorf("document %q", got.Results[0].Document.Text)
		}
	})
	for name, reply := range map[string]string{
		"error inside":   simulator.ErrorText("no"),
		"no results":     `{"id":"x"}`,
		"foreign index":  `{"results":[{"index":3,"score":1}]}`,
		"negative index": `{"results":[{"index":-1,"score":1}]}`,
		"index twice":    `{"results":[{"index":1,"score":1},{"index":1,"score":1}]}`,
		"no score":       `{"results":[{"index":1}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			b.Script(simulator.Step{Body: reply})
			r.Post("/v1/rerank", body).FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
		})
	}
}

// Backends that take only texts get texts.
func TestRerankDocumentsForBackendsThatTakeTexts(t *testing.T) {
	t.Parallel()
	const body = `{"model":"m","query":"q","documents":["a",{"text":"b","id":7},{"title":"c"}]}`
	for kind, want := range map[string]string{
		"openai":   `"documents":["a",{"text":"b","id":7},{"title":"c"}]`,
		"llamacpp": `"documents":["a","b","{\"title\":\"c\"}"]`,
		"cohere":   `"documents":["a","b","{\"title\":\"c\"}"]`,
		"tei":      `"texts":["a","b","{\"title\":\"c\"}"]`,
	} {
		b := gatewaytest.StartBackend(t, simulator.Step{Status: 400})
		r := gatewaytest.Start(t, gatewaytest.ServiceYAML("rerank", gatewaytest.Instance("m", b.URL(), "adapter: "+kind)))
		r.Post("/v1/rerank", body)
		if got := string(gatewaytest.OnlyRequest(t, b).Body); !strings.Contains(got, want) {
			t.Errorf("%s got %s", kind, got)
		}
	}
}
