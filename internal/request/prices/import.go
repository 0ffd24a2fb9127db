package prices

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// listed is an entry of the price list that LiteLLM publishes: prices of single tokens,
// images, seconds and characters.
type listed struct {
	Mode            string         `json:"mode"`
	Input           jsontext.Value `json:"input_cost_per_token"`
	Cached          jsontext.Value `json:"cache_read_input_token_cost"`
	Written         jsontext.Value `json:"cache_creation_input_token_cost"`
	Output          jsontext.Value `json:"output_cost_per_token"`
	InputImage      jsontext.Value `json:"input_cost_per_image"`
	OutputImage     jsontext.Value `json:"output_cost_per_image"`
	InputSecond     jsontext.Value `json:"input_cost_per_second"`
	OutputSecond    jsontext.Value `json:"output_cost_per_second"`
	InputCharacter  jsontext.Value `json:"input_cost_per_character"`
	OutputCharacter jsontext.Value `json:"output_cost_per_character"`
	MaxInput        jsontext.Value `json:"max_input_tokens"`
	MaxOutput       jsontext.Value `json:"max_output_tokens"`
}

// Listed returns the members of an entry of that list that have a price.
func Listed() []string {
	return []string{"input_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost",
		"output_cost_per_token",
		"input_cost_per_image", "output_cost_per_image", "input_cost_per_second", "output_cost_per_second",
		"input_cost_per_character", "output_cost_per_character"}
}

// Import reads the JSON price list that LiteLLM publishes (an object with an entry for
// each model) and returns the models that have a price, by name. Entries that cannot be
// read are returned as problems and left out.
func Import(data []byte) (models []Model, problems []string, err error) {
	var list map[string]jsontext.Value
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, nil, fmt.Errorf("this is no price list: %w", err)
	}
	for name, value := range list {
		if name == "sample_spec" || strings.Contains(name, "*") {
			continue
		}
		var entry listed
		if err := json.Unmarshal(value, &entry); err != nil {
			problems = append(problems, name+": "+err.Error())
			continue
		}
		price, err := entry.price()
		if err != nil {
			problems = append(problems, name+": "+err.Error())
			continue
		}
		if price != (Price{}) {
			price.MaxInputTokens, price.MaxOutputTokens = tokens(entry.MaxInput), tokens(entry.MaxOutput)
			models = append(models, Model{Model: name, Price: price})
		}
	}
	slices.SortFunc(models, func(a, b Model) int { return cmp.Compare(a.Model, b.Model) })
	slices.Sort(problems)
	return models, problems, nil
}

func (e *listed) price() (p Price, err error) {
	image, second, character := e.OutputImage, e.OutputSecond, e.OutputCharacter
	if len(image) == 0 && strings.HasPrefix(e.Mode, "image") {
		image = e.InputImage
	}
	if len(second) == 0 || e.Mode == "audio_transcription" && len(e.InputSecond) > 0 {
		second = e.InputSecond
	}
	if len(character) == 0 || e.Mode == "audio_speech" && len(e.InputCharacter) > 0 {
		character = e.InputCharacter
	}
	for _, part := range [...]struct {
		to    *Amount
		value jsontext.Value
		times int64
	}{
		{&p.Input, e.Input, perMillion},
		{&p.CachedInput, e.Cached, perMillion},
		{&p.CacheWrite, e.Written, perMillion},
		{&p.Output, e.Output, perMillion},
		{&p.Image, image, 1},
		{&p.Minute, second, perMinute},
		{&p.Characters, character, perThousand},
	} {
		if *part.to, err = scaled(part.value, part.times); err != nil {
			return Price{}, err
		}
	}
	return p, nil
}

// tokens reads a number of tokens, which some entries have as a text; 0 if it is neither.
func tokens(value jsontext.Value) int64 {
	n, err := strconv.ParseFloat(strings.Trim(string(value), `"`), 64)
	if err != nil || n < 1 || n > 1e12 {
		return 0
	}
	return int64(n)
}

// Select returns the models with a name that matches one of the patterns; all where
// there are none.
func Select(models []Model, patterns []string) []Model {
	if len(patterns) == 0 {
		return models
	}
	wanted := Settings{}
	for _, pattern := range patterns {
		wanted.Models = append(wanted.Models, Model{Model: pattern})
	}
	list := Compile(wanted)
	return slices.DeleteFunc(slices.Clone(models), func(m Model) bool { return list.Of(m.Model) == nil })
}

// YAML writes the section prices of a configuration file.
func YAML(s Settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "prices:\n  currency: %s\n  models:", s.Currency)
	if len(s.Models) == 0 {
		b.WriteString(" []")
	}
	b.WriteByte('\n')
	for _, m := range s.Models {
		fmt.Fprintf(&b, "    - {model: %s", quoted(m.Model))
		for _, part := range [...]struct {
			name   string
			amount Amount
		}{
			{"input", m.Input}, {"cached-input", m.CachedInput}, {"cache-write", m.CacheWrite},
			{"output", m.Output}, {"image", m.Image}, {"minute", m.Minute}, {"characters", m.Characters},
		} {
			if part.amount != 0 {
				fmt.Fprintf(&b, ", %s: %s", part.name, part.amount)
			}
		}
		if m.MaxInputTokens != 0 {
			fmt.Fprintf(&b, ", max-input-tokens: %d", m.MaxInputTokens)
		}
		if m.MaxOutputTokens != 0 {
			fmt.Fprintf(&b, ", max-output-tokens: %d", m.MaxOutputTokens)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// quoted writes a text as YAML, in single quotes.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
