package proxy

import "testing"

func TestAnswersAreEstimatedByTheirTexts(t *testing.T) {
	for name, test := range map[string]struct {
		parts []string
		want  int64
	}{
		"nothing":        {nil, 0},
		"no text":        {[]string{`{"id":"chatcmpl-1234567890","choices":[{"delta":{"role":"assistant","content":""}}]}`}, 0},
		"short events":   {[]string{`{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"b"}}]}`}, 2},
		"a long event":   {[]string{`{"choices":[{"delta":{"content": "0123456789012345678901234567890123456789"}}]}`}, 10},
		"quoted quotes":  {[]string{`{"content":"01234567\"content\":\"89"}`}, 6},
		"reasoning":      {[]string{`{"delta":{"reasoning_content":"0123456789ab"}}`}, 3},
		"calls of tools": {[]string{`{"function":{"name":"f","arguments":"0123456789ab"}}`}, 3},
		"of other doors": {[]string{`{"type":"content_block_delta","delta":{"type":"text_delta","text":"01234567"}}`, `{"type":"response.output_text.delta","delta":"01234567"}`}, 4},
		"cut off":        {[]string{`{"content":"01234567`, `{"content":`, `":`}, 2},
	} {
		var m textMeter
		for _, part := range test.parts {
			m.add([]byte(part))
		}
		if got := m.tokens(); got != test.want {
			t.Errorf("%s: %d tokens, want %d", name, got, test.want)
		}
	}
}
