package gemini

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// fillConfig writes the members of generationConfig that have unified
// names.
func fillConfig(config *jsonwrite.Members, req *schema.Request, model string, schemas *schemaBudget) error {
	config.AddField("temperature", req.Field("temperature"))
	config.AddField("topP", req.Field("top_p"))
	if k, ok := req.Field("top_k").Int(); ok && k > 0 {
		config.AddField("topK", req.Field("top_k")) // zero and less mean "no limit" elsewhere
	}
	config.AddField("maxOutputTokens", req.Field("max_completion_tokens"))
	config.AddField("maxOutputTokens", req.Field("max_tokens"))
	config.AddField("presencePenalty", req.Field("presence_penalty"))
	config.AddField("frequencyPenalty", req.Field("frequency_penalty"))
	switch stop := req.Field("stop"); {
	case stop.Kind() == jsonscan.String:
		config.Add("stopSequences", slices.Concat([]byte("["), stop.Raw(), []byte("]")))
	case stop.Kind() == jsonscan.Array && !stop.Empty():
		config.Add("stopSequences", stop.Raw())
	}
	for _, fill := range []func(*jsonwrite.Members, *schema.Request) error{
		fillCount, fillSeed, fillLogprobs, fillModalities,
	} {
		if err := fill(config, req); err != nil {
			return err
		}
	}
	if err := fillFormat(config, req, schemas); err != nil {
		return err
	}
	return fillThinking(config, req, model)
}

func fillCount(config *jsonwrite.Members, req *schema.Request) error {
	v := req.Field("n")
	if !v.Given() {
		return nil
	}
	n, ok := v.Int()
	if !ok || n < 1 {
		return schema.InvalidValue("n", "'n' must be a positive integer.")
	}
	if n > 1 {
		config.Add("candidateCount", v.Raw())
	}
	return nil
}

func fillSeed(config *jsonwrite.Members, req *schema.Request) error {
	v := req.Field("seed")
	if !v.Given() {
		return nil
	}
	if n, ok := v.Int(); !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return schema.InvalidValue("seed", "'seed' must be an integer of 32 bits for this backend.")
	}
	config.Add("seed", v.Raw())
	return nil
}

func fillLogprobs(config *jsonwrite.Members, req *schema.Request) error {
	if req.Field("logprobs").Kind() != jsonscan.True {
		return nil
	}
	config.Add("responseLogprobs", []byte("true"))
	config.AddField("logprobs", req.Field("top_logprobs"))
	return nil
}

// fillModalities asks for pictures beside text. Sound has no place in a
// unified answer.
func fillModalities(config *jsonwrite.Members, req *schema.Request) error {
	wanted := req.Field("modalities")
	if wanted.Kind() != jsonscan.Array || wanted.Empty() {
		return nil
	}
	var doc jsonscan.Document
	if err := doc.Parse(wanted.Raw()); err != nil {
		return err
	}
	var list []string
	for v := doc.Root().First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		switch string(v.Text()) {
		case "text":
			list = append(list, `"TEXT"`)
		case "image":
			list = append(list, `"IMAGE"`)
		default:
			return schema.InvalidValue("modalities", "'modalities' may be text and image for this backend.")
		}
	}
	if len(list) > 1 || list[0] != `"TEXT"` {
		config.Add("responseModalities", []byte("["+strings.Join(list, ",")+"]"))
	}
	return nil
}

func fillFormat(config *jsonwrite.Members, req *schema.Request, schemas *schemaBudget) error {
	format := req.Field("response_format")
	if !format.Given() {
		return nil
	}
	var doc jsonscan.Document // the schema may lie deeper than the request records
	if err := doc.Parse(format.Raw()); err != nil {
		return err
	}
	switch string(doc.Root().Get("type").Text()) {
	case "text":
		return nil
	case "json_object":
		config.Add("responseMimeType", []byte(`"application/json"`))
		return nil
	case "json_schema":
		config.Add("responseMimeType", []byte(`"application/json"`))
		given := doc.Root().Get("json_schema").Get("schema")
		if !given.Given() {
			return nil
		}
		reduced, err := schemas.reduce(given.Raw(), "response_format.json_schema.schema")
		if err != nil {
			return err
		}
		config.Add("responseSchema", reduced.object(true))
	}
	return nil // Refuse has refused other types
}

// fillThinking turns an effort into what the generation of the model
// understands: none before 2.5, a number of tokens in 2.5, a level after it.
func fillThinking(config *jsonwrite.Members, req *schema.Request, model string) error {
	effort, err := effortOf(req)
	if effort == "" {
		return err
	}
	generation := generationOf(model)
	if strings.HasPrefix(model, "gemini-") && generation < 25 {
		return nil
	}
	if effort == "none" && req.EffortHint == effort && !takesNoThinking(model, generation) {
		return nil
	}
	var thinking jsonwrite.Writer
	thinking.Object()
	if generation == 25 {
		thinking.Name("thinkingBudget")
		thinking.Int(budgetOf(effort, model))
	} else {
		thinking.Name("thinkingLevel")
		thinking.Plain(levelOf(effort, model))
	}
	if effort != "none" {
		thinking.Name("includeThoughts")
		thinking.Literal("true")
	}
	thinking.EndObject()
	config.Add("thinkingConfig", thinking.Out)
	return nil
}

// takesNoThinking reports whether a model is known to take the wish that it does not
// think. Those that make images and open models refuse any wish about thinking, and which
// generation a name that moves on means is not known.
func takesNoThinking(model string, generation int) bool {
	return generation >= 25 && generation < newestGeneration && !strings.Contains(model, "image")
}

// effortOf returns how hard the model should think, empty if the caller did
// not say.
func effortOf(req *schema.Request) (string, error) {
	v := req.Field("reasoning_effort")
	if !v.Given() {
		return req.EffortHint, nil
	}
	switch effort := string(v.Text()); effort {
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
		return effort, nil
	}
	return "", schema.InvalidValue("reasoning_effort", "'reasoning_effort' must be none, minimal, low, medium or high.")
}

// budgetOf gives the numbers that Google documents for its own OpenAI
// surface. The Pro model cannot stop thinking; 128 is the least it takes.
func budgetOf(effort, model string) int64 {
	switch effort {
	case "none":
		if strings.Contains(model, "pro") {
			return 128
		}
		return 0
	case "minimal", "low":
		return 1024
	case "medium":
		return 8192
	}
	return 24576
}

// levelOf gives the nearest level that the model has: all have low and
// high, the first Pro model has no other.
func levelOf(effort, model string) string {
	switch effort {
	case "none", "minimal", "low":
		return "low"
	case "medium":
		if !strings.HasPrefix(model, "gemini-3-pro") {
			return "medium"
		}
	}
	return "high"
}

// objectText returns the text of a JSON object that a string holds, or nil.
func objectText(text []byte) []byte {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return nil
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if doc.Parse(text) != nil {
		return nil
	}
	return text
}
