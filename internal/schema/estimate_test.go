package schema

import (
	"strings"
	"testing"
)

func TestEstimatesOfWhatARequestTakes(t *testing.T) {
	long := strings.Repeat("word ", 80) // 400 bytes
	for name, test := range map[string]struct {
		parse          func(*Request, []byte) error
		body           string
		prompt, answer int64
		said           bool
	}{
		"a message":            {(*Request).ParseChat, `{"model":"m","messages":[{"role":"user","content":"` + long + `"}]}`, 104, 0, false},
		"limited":              {(*Request).ParseChat, `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`, 5, 50, true},
		"limited by new name":  {(*Request).ParseChat, `{"model":"m","max_tokens":9,"max_completion_tokens":50,"n":3,"messages":[{"role":"user","content":"hi"}]}`, 5, 150, true},
		"parts":                {(*Request).ParseChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + long + `"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 9000) + `"}}]}]}`, 904, 0, false},
		"sound":                {(*Request).ParseChat, `{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"` + strings.Repeat("A", 9000) + `","format":"wav"}}]}]}`, 804, 0, false},
		"tools":                {(*Request).ParseChat, `{"model":"m","tools":[{"type":"function","function":{"name":"f","description":"` + long + `"}}],"messages":[{"role":"user","content":"hi"}]}`, 105, 0, false},
		"an embedding":         {(*Request).ParseEmbedding, `{"model":"m","input":["` + long + `","` + long + `"]}`, 200, 0, true},
		"embedding of tokens":  {(*Request).ParseEmbedding, `{"model":"m","input":[1,22,333,4444]}`, 4, 0, true},
		"embedding of batches": {(*Request).ParseEmbedding, `{"model":"m","input":[[1,2],[3,4,5]]}`, 5, 0, true},
		"documents":            {(*Request).ParseRerank, `{"model":"m","query":"` + long + `","documents":["` + long + `",{"text":"` + long + `"}]}`, 300, 0, true},
		"speech":               {(*Request).ParseSpeech, `{"model":"m","voice":"v","input":"` + long + `"}`, 0, 0, true},
	} {
		var r Request
		if err := test.parse(&r, []byte(test.body)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		answer, said := r.MostAnswered()
		if prompt := r.EstimatePrompt(); prompt != test.prompt || answer != test.answer || said != test.said {
			t.Errorf("%s: %d and %d %t, want %d and %d %t", name, prompt, answer, said, test.prompt, test.answer, test.said)
		}
	}
}
