package simulator

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// rerankRequest is a rerank request as Jina and Cohere take it or, with Texts,
// as Text Embeddings Inference does.
type rerankRequest struct {
	Model           string           `json:"model"`
	Query           string           `json:"query"`
	Documents       []jsontext.Value `json:"documents"`
	TopN            *wholeNumber     `json:"top_n"`
	ReturnDocuments bool             `json:"return_documents"`

	Texts      []string `json:"texts"`
	RawScores  bool     `json:"raw_scores"`
	ReturnText bool     `json:"return_text"`
}

// ranked is a document beside its score, from 0 to 1.
type ranked struct {
	index int
	text  string
	score float64
}

// answerRerank serves POST /rerank, /v1/rerank and /v2/rerank.
func answerRerank(x *exchange) {
	var request rerankRequest
	if !x.decode(&request) {
		return
	}
	if request.Texts != nil {
		answerTEI(x, &request)
		return
	}
	if !x.serves(request.Model) {
		return
	}
	texts, ok := documentTexts(request.Documents)
	switch {
	case request.Query == "":
		x.refuse("query", "'query' must not be empty.")
		return
	case !ok:
		x.refuse("documents", "'documents' must be an array of strings or of objects with a text, and not empty.")
		return
	case request.TopN != nil && *request.TopN < 1:
		x.refuse("top_n", "'top_n' must be at least 1.")
		return
	}
	results := rank(request.Query, texts)
	if request.TopN != nil {
		results = results[:min(len(results), int(*request.TopN))]
	}
	out := appendString([]byte(`{"id":`), "rerank-"+hex(seedOf(request.Query))+"-"+strconv.FormatUint(x.serial, 10))
	tokens := int64(rankTokens(request.Query, texts))
	if !x.isRead(request.Model, int(tokens)) {
		return
	}
	if strings.HasPrefix(x.request.URL.Path, "/v2/") {
		out = appendResults(out, results, request.ReturnDocuments)
		if x.step.Usage&UsageNone == 0 {
			out = append(
				out, `,"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},`+
					`"tokens":{"input_tokens":`...)
			out = append(strconv.AppendInt(out, tokens, 10), "}}"...)
		}
		x.sendJSON(out)
		return
	}
	out = appendString(append(out, `,"object":"list","model":`...), request.Model)
	out = appendResults(out, results, request.ReturnDocuments)
	x.sendJSON(x.withUsage(out, tokenUsage(int(tokens))))
}

// answerTEI answers with a bare list of scores.
func answerTEI(x *exchange, request *rerankRequest) {
	if request.Query == "" || len(request.Texts) == 0 {
		x.send(http.StatusUnprocessableEntity, "application/json",
			[]byte(`{"error":"`+"`query` and `texts`"+` cannot be empty","error_type":"Validation"}`))
		return
	}
	if !x.isRead("", rankTokens(request.Query, request.Texts)) {
		return
	}
	out := []byte{'['}
	for i, result := range rank(request.Query, request.Texts) {
		if i > 0 {
			out = append(out, ',')
		}
		if request.RawScores {
			result.score = logit(result.score)
		}
		out = strconv.AppendInt(append(out, `{"index":`...), int64(result.index), 10)
		if request.ReturnText {
			out = appendString(append(out, `,"text":`...), result.text)
		}
		out = strconv.AppendFloat(append(out, `,"score":`...), result.score, 'g', -1, 32)
		out = append(out, '}')
	}
	x.send(http.StatusOK, "application/json", append(out, ']'))
}

func documentTexts(documents []jsontext.Value) ([]string, bool) {
	texts := make([]string, len(documents))
	for i, document := range documents {
		if document.Kind() == '"' {
			texts[i] = unquote(document)
			continue
		}
		var object struct {
			Text *string `json:"text"`
		}
		if json.Unmarshal(document, &object, lenient()) != nil || object.Text == nil {
			return nil, false
		}
		texts[i] = *object.Text
	}
	return texts, len(texts) > 0
}

// rank orders texts by the number of words of the query that they contain and, where
// that is equal, by how few other words they have.
func rank(query string, texts []string) []ranked {
	asked := map[string]bool{}
	for _, word := range wordsOf(query) {
		asked[word] = true
	}
	results := make([]ranked, len(texts))
	for i, text := range texts {
		has := map[string]bool{}
		common := 0.0
		for _, word := range wordsOf(text) {
			if asked[word] && !has[word] {
				common++
			}
			has[word] = true
		}
		score := 0.0
		if common > 0 {
			score = 0.8*common/float64(len(asked)) + 0.2*common/(float64(len(asked)+len(has))-common)
		}
		results[i] = ranked{i, text, score}
	}
	slices.SortStableFunc(results, func(a, b ranked) int { return cmp.Compare(b.score, a.score) })
	return results
}

// logit is the raw score that a sigmoid would turn into this one.
func logit(score float64) float64 {
	score = min(max(score, 0.001), 0.999)
	return math.Log(score / (1 - score))
}

// rankTokens counts the query once per document, as models that read pairs do.
func rankTokens(query string, texts []string) int {
	tokens := countTokens(query) * len(texts)
	for _, text := range texts {
		tokens += countTokens(text)
	}
	return tokens
}

func appendResults(out []byte, results []ranked, withDocuments bool) []byte {
	out = append(out, `,"results":[`...)
	for i, result := range results {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(append(out, `{"index":`...), int64(result.index), 10)
		out = strconv.AppendFloat(append(out, `,"relevance_score":`...), result.score, 'g', -1, 32)
		if withDocuments {
			out = append(appendString(append(out, `,"document":{"text":`...), result.text), '}')
		}
		out = append(out, '}')
	}
	return append(out, ']')
}
