package estimate_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func TestAnswersAreEstimatedByTheirTexts(t *testing.T) {
	for name, test := range map[string]struct {
		door  schema.Door
		parts []string
		want  int64
	}{
		"nothing":        {schema.DoorChat, nil, 0},
		"no text":        {schema.DoorChat, []string{`{"id":"chatcmpl-1234567890","choices":[{"delta":{"role":"assistant","content":""}}]}`}, 0},
		"short events":   {schema.DoorChat, []string{`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"b"}}]}`}, 2},
		"a long event":   {schema.DoorChat, []string{`{"choices":[{"delta":{"content": "0123456789012345678901234567890123456789"}}]}`}, 10},
		"quoted quotes":  {schema.DoorChat, []string{`{"content":"01234567\"content\":\"89"}`}, 6},
		"reasoning":      {schema.DoorChat, []string{`{"delta":{"reasoning_content":"0123456789ab"}}`}, 3},
		"a refusal":      {schema.DoorChat, []string{`{"delta":{"refusal":"0123456789ab"}}`}, 3},
		"calls of tools": {schema.DoorChat, []string{`{"function":{"name":"f","arguments":"0123456789ab"}}`}, 3},
		"completions":    {schema.DoorCompletions, []string{`{"choices":[{"text":"0123456789ab"}]}`}, 3},
		"messages":       {schema.DoorMessages, []string{`{"type":"content_block_delta","delta":{"type":"text_delta","text":"01234567"}}`, `{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"01234567"}}`}, 4},
		"cut off":        {schema.DoorChat, []string{`{"content":"01234567`, `{"content":`, `":`}, 2},
		"a response":     {schema.DoorResponses, []string{`{"output":[{"type":"reasoning","encrypted_content":"0123456789abcdef"},{"content":[{"type":"output_text","text":"0123456789ab"}]}]}`}, 3},
		"events of a response": {schema.DoorResponses, []string{
			"event: response.created\ndata: {\"response\":{\"instructions\":\"0123456789ab\",\"output\":[]}}\n\nevent: response.in_progress\ndata: {}\n\n",
			"event: response.content_part.added\ndata: {\"part\":{\"text\":\"\"}}\n\nevent: response.output_text.delta\ndata: {\"delta\":\"012345\"}\n\n",
			"event: response.output_text.delta\ndata: {\"delta\":\"6789ab\"}\n\nevent: response.output_text.done\ndata: {\"text\":\"0123456789ab\"}\n\n",
			"event: response.content_part.done\ndata: {\"part\":{\"text\":\"0123456789ab\"}}\n\nevent: response.output_item.done\ndata: {\"item\":{\"content\":[{\"text\":\"0123456789ab\"}]}}\n\n",
			"event: response.completed\ndata: {\"response\":{\"output\":[{\"content\":[{\"text\":\"0123456789ab\"}]}]}}\n\n",
		}, 3},
		"only the last event of a response": {schema.DoorResponses, []string{
			"event: response.completed\ndata: {\"response\":{\"output\":[{\"content\":[{\"text\":\"0123456789ab\"}]}]}}\n\n",
		}, 3},
		"a ranking":    {schema.DoorRerank, []string{`{"results":[{"document":{"text":"0123456789ab"}}]}`}, 0},
		"a transcript": {schema.DoorTranscriptions, []string{`{"text":"0123456789ab"}`}, 0},
	} {
		var answer estimate.Answer
		for _, part := range test.parts {
			answer.Add(test.door, []byte(part))
		}
		if got := answer.Tokens(); got != test.want {
			t.Errorf("%s: %d tokens, want %d", name, got, test.want)
		}
	}
}
