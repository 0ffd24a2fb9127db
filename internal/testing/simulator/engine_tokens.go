package simulator

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// textsOf returns the texts of a value that is a text or a list of them.
func textsOf(value jsontext.Value) (texts []string) {
	if value := given(value); value != nil && value.Kind() == '"' {
		texts = []string{""}
		_ = json.Unmarshal(value, &texts[0], lenient()) // its kind is known
		return texts
	}
	_ = json.Unmarshal(value, &texts, lenient()) // none is refused by the callers
	return texts
}

// answerTokenize serves POST /tokenize as vLLM has it, and as llama.cpp does for a request
// with its members. A token is a character.
func answerTokenize(x *exchange) {
	var request struct {
		Model   string  `json:"model"`
		Prompt  string  `json:"prompt"`
		Content *string `json:"content"`
	}
	if !x.decode(&request) {
		return
	}
	text := request.Prompt
	if request.Content != nil {
		text = *request.Content
	}
	list := []byte{'['}
	count := 0
	for _, character := range text {
		if count > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, int64(character), 10)
		count++
	}
	list = append(list, ']')
	if request.Content != nil {
		x.sendJSON(append([]byte(`{"tokens":`), list...))
		return
	}
	x.sendJSON(fmt.Appendf(nil, `{"count":%d,"max_model_len":%d,"tokens":%s,"token_strs":null`, count,
		cmp.Or(x.backend.options.Window, 4096), list))
}

// answerDetokenize serves POST /detokenize as both of them have it.
func answerDetokenize(x *exchange) {
	var request struct {
		Tokens []rune `json:"tokens"`
	}
	if !x.decode(&request) {
		return
	}
	text := string(appendString(nil, string(request.Tokens)))
	x.sendJSON([]byte(`{"prompt":` + text + `,"content":` + text))
}

// answerScore serves POST /v1/score.
func answerScore(x *exchange) {
	var request struct {
		Model string         `json:"model"`
		Text1 jsontext.Value `json:"text_1"`
		Text2 jsontext.Value `json:"text_2"`
	}
	if !x.decode(&request) || !x.serves(request.Model) {
		return
	}
	first, second := textsOf(request.Text1), textsOf(request.Text2)
	if len(first) == 0 || len(second) == 0 {
		x.refuse("text_1", "'text_1' and 'text_2' must have texts.")
		return
	}
	x.sendList(request.Model, len(second), append(first, second...), func(i int) string {
		return fmt.Sprintf(`"object":"score","score":%.2f`, 1/float64(i+2))
	})
}

// answerClassify serves POST /classify, and answerPooling POST /pooling.
func answerClassify(x *exchange) {
	x.answerInputs(func(int) string { return `"label":"neutral","probs":[0.25,0.75],"num_classes":2` })
}

func answerPooling(x *exchange) {
	x.answerInputs(func(int) string { return `"object":"pooling","data":[[0.5,0.25],[0.125,1]]` })
}

func (x *exchange) answerInputs(item func(i int) string) {
	var request struct {
		Model string         `json:"model"`
		Input jsontext.Value `json:"input"`
	}
	if !x.decode(&request) || !x.serves(request.Model) {
		return
	}
	inputs := textsOf(request.Input)
	if len(inputs) == 0 {
		x.refuse("input", "'input' must be a string or an array of strings.")
		return
	}
	x.sendList(request.Model, len(inputs), inputs, item)
}

// sendList sends a list of so many items, after the engine has read their texts.
func (x *exchange) sendList(model string, n int, texts []string, item func(i int) string) {
	tokens := 0
	for _, text := range texts {
		tokens += countTokens(text)
	}
	out := appendString([]byte(`{"id":"list-1","object":"list","created":1,"model":`), model)
	out = append(out, `,"data":[`...)
	for i := range n {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, fmt.Sprintf(`{"index":%d,%s}`, i, item(i))...)
	}
	x.sendJSON(x.withUsage(append(out, ']'), tokenUsage(tokens)))
}

// answerInfill serves POST /infill as llama.cpp has it.
func answerInfill(x *exchange) {
	var request struct {
		Prefix string `json:"input_prefix"`
		Suffix string `json:"input_suffix"`
	}
	if !x.decode(&request) {
		return
	}
	const written = "pass"
	x.sendJSON(fmt.Appendf(
		nil, `{"index":0,"content":%q,"stop":true,"model":"/models/m.gguf","tokens_predicted":%d,"tokens_evaluated":%d`,
		written, countTokens(written), countTokens(request.Prefix)+countTokens(request.Suffix)))
}
