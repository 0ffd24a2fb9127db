package gemini

import (
	"cmp"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// fillConfig writes the members of generationConfig that have unified
// names.
func fillConfig(config *jsonwrite.Members, asked *chat.Request, model string, schemas *schemaBudget) error {
	s := &asked.Settings
	config.AddField("temperature", s.Temperature)
	config.AddField("topP", s.TopP)
	if k, ok := s.TopK.Int(); ok && k > 0 {
		config.AddField("topK", s.TopK) // zero and less mean "no limit" elsewhere
	}
	config.AddField("maxOutputTokens", s.MaxTokens)
	config.AddField("presencePenalty", s.PresencePenalty)
	config.AddField("frequencyPenalty", s.FrequencyPenalty)
	switch stop := s.Stop; {
	case stop.Kind() == jsonscan.String:
		config.Add("stopSequences", slices.Concat([]byte("["), stop.Raw(), []byte("]")))
	case stop.Kind() == jsonscan.Array && !stop.Empty():
		config.Add("stopSequences", stop.Raw())
	}
	if n, _ := s.N.Int(); n > 1 {
		config.AddField("candidateCount", s.N)
	}
	config.AddField("seed", s.Seed)
	if string(s.Logprobs) == "true" {
		config.Add("responseLogprobs", s.Logprobs)
		config.AddField("logprobs", s.TopLogprobs)
	}
	if err := fillModalities(config, s); err != nil {
		return err
	}
	if err := fillFormat(config, &s.Format, schemas); err != nil {
		return err
	}
	fillThinking(config, s, model)
	return nil
}

// fillModalities asks for pictures beside text. Sound has no place in a
// unified answer.
func fillModalities(config *jsonwrite.Members, s *chat.Settings) error {
	wanted := s.Other("modalities")
	if wanted.Kind() != jsonscan.Array || wanted.Empty() {
		return nil
	}
	var doc jsonscan.Document
	if err := doc.Parse(wanted.Raw()); err != nil {
		return err
	}
	var list []string
	for v := range doc.Root().All() {
		switch string(v.Text()) {
		case "text":
			list = append(list, `"TEXT"`)
		case "image":
			list = append(list, `"IMAGE"`)
		default:
			return schema.BadField("modalities", "value.modalities")
		}
	}
	if len(list) > 1 || list[0] != `"TEXT"` {
		config.Add("responseModalities", []byte("["+strings.Join(list, ",")+"]"))
	}
	return nil
}

// fillFormat asks for the format of the answer. Refuse has refused the formats that are
// not known here.
func fillFormat(config *jsonwrite.Members, format *chat.Format, schemas *schemaBudget) error {
	if format.Type != "json_object" && format.Type != "json_schema" {
		return nil
	}
	config.Add("responseMimeType", []byte(`"application/json"`))
	if format.Schema == nil {
		return nil
	}
	reduced, err := schemas.reduce(format.Schema, "response_format.json_schema.schema")
	if err != nil {
		return err
	}
	var w jsonwrite.Writer
	reduced.write(&w, true)
	config.Add("responseSchema", w.Out)
	return nil
}

// fillThinking turns an effort into the form that the generation of the model
// understands: none before 2.5, a number of tokens in 2.5, a level after it.
func fillThinking(config *jsonwrite.Members, s *chat.Settings, model string) {
	effort := cmp.Or(s.Effort, s.EffortHint)
	generation := generationOf(model)
	if effort == "" || strings.HasPrefix(model, "gemini-") && generation < 25 {
		return
	}
	if effort == "none" && s.EffortHint == effort && !takesNoThinking(model, generation) {
		return
	}
	var thinking jsonwrite.Writer
	thinking.Object()
	if generation == 25 {
		thinking.Name("thinkingBudget").Int(budgetOf(effort, model))
	} else {
		thinking.Name("thinkingLevel").Plain(levelOf(effort, model))
	}
	if effort != "none" {
		thinking.Name("includeThoughts").Literal("true")
	}
	thinking.EndObject()
	config.Add("thinkingConfig", thinking.Out)
}

// takesNoThinking reports whether a model is known to take the wish that it does not
// think. Models that make images and open models refuse any wish about thinking, and the
// generation behind a name that moves on is not known.
func takesNoThinking(model string, generation int) bool {
	return generation >= 25 && generation < newestGeneration && !strings.Contains(model, "image")
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
