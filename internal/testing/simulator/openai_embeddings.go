package simulator

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// embeddingsRequest is an embeddings request in OpenAI's dialect.
type embeddingsRequest struct {
	Model          string         `json:"model"`
	Input          jsontext.Value `json:"input"`
	Dimensions     *wholeNumber   `json:"dimensions"`
	EncodingFormat string         `json:"encoding_format"`
}

// embeddable is one input of an embeddings request.
type embeddable struct {
	words  []string
	tokens int
}

func textToEmbed(text string) embeddable { return embeddable{wordsOf(text), countTokens(text)} }

// answerEmbeddings serves POST /v1/embeddings.
func answerEmbeddings(x *exchange) {
	var request embeddingsRequest
	if !x.decode(&request) || !x.serves(request.Model) {
		return
	}
	inputs, ok := readInputs(request.Input)
	switch {
	case !ok:
		x.refuse("input", "'input' must be a string, an array of strings, or arrays of token ids, and not empty.")
		return
	case len(inputs) > mostInputs:
		x.refuse("input", "'input' may hold at most "+strconv.Itoa(mostInputs)+" items.")
		return
	case request.EncodingFormat != "" && request.EncodingFormat != "float" && request.EncodingFormat != "base64":
		x.refuse("encoding_format", "'encoding_format' must be float or base64.")
		return
	}
	dimensions, ok := dimensionsOf(request.Dimensions)
	if !ok {
		x.refuse("dimensions", "'dimensions' must be between 1 and "+strconv.Itoa(mostDimensions)+".")
		return
	}
	if !x.needs(request.Model) {
		return
	}
	appendOne := appendVector
	if request.EncodingFormat == "base64" {
		appendOne = appendVectorBase64
	}
	out, tokens := []byte(`{"object":"list","data":[`), 0
	for i := range inputs {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(append(out, `{"object":"embedding","index":`...), int64(i), 10)
		out = appendOne(append(out, `,"embedding":`...), embed(inputs[i].words, dimensions))
		out = append(out, '}')
		tokens += inputs[i].tokens
	}
	out = appendString(append(out, `],"model":`...), request.Model)
	if x.isRead(request.Model, tokens) {
		x.sendJSON(x.withUsage(out, tokenUsage(tokens)))
	}
}

// dimensionsOf returns the length of the vectors.
func dimensionsOf(asked *wholeNumber) (int, bool) {
	if asked == nil {
		return usualDimensions, true
	}
	return int(*asked), *asked >= 1 && *asked <= mostDimensions
}

// readInputs reads a text, texts, token ids or lists of token ids.
func readInputs(input jsontext.Value) ([]embeddable, bool) {
	if given(input) == nil {
		return nil, false
	}
	if input.Kind() == '"' {
		text := unquote(input)
		return []embeddable{textToEmbed(text)}, text != ""
	}
	var items []jsontext.Value
	if json.Unmarshal(input, &items, lenient()) != nil || len(items) == 0 {
		return nil, false
	}
	if items[0].Kind() == '0' {
		one, ok := readTokenIDs(input)
		return []embeddable{one}, ok
	}
	list := make([]embeddable, len(items))
	for i, item := range items {
		ok := false
		switch item.Kind() {
		case '"':
			list[i], ok = textToEmbed(unquote(item)), true
		case '[':
			list[i], ok = readTokenIDs(item)
		}
		if !ok {
			return nil, false
		}
	}
	return list, true
}

func readTokenIDs(value jsontext.Value) (embeddable, bool) {
	var ids []*int32 // nil for null, which is no id
	if json.Unmarshal(value, &ids, lenient()) != nil || len(ids) == 0 {
		return embeddable{}, false
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		if id == nil || *id < 0 {
			return embeddable{}, false
		}
		words[i] = "#" + strconv.Itoa(int(*id))
	}
	return embeddable{words, len(ids)}, true
}

// tokenUsage is the usage of an answer that has no completion.
func tokenUsage(tokens int) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"total_tokens":%d}`, tokens, tokens)
}

// withUsage adds the usage to an answer, unless the step says otherwise.
func (x *exchange) withUsage(open []byte, usage string) []byte {
	switch {
	case x.step.Usage&UsageNone != 0:
		return open
	case x.step.UsageValue != "":
		usage = x.step.UsageValue
	}
	return append(append(open, `,"usage":`...), usage...)
}

// sendJSON completes and sends a JSON object: it adds the members of the step and the
// closing brace.
func (x *exchange) sendJSON(open []byte) {
	x.send(http.StatusOK, "application/json", x.step.close(open))
}
