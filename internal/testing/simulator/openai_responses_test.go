package simulator

import (
	"strings"
	"testing"
)

// The usage of a response has the members that OpenAI's has, in one piece and in the last
// event of a stream.
func TestResponsesTellWhatTheCacheTook(t *testing.T) {
	r := newRig(t, Options{})
	for _, more := range []string{"", `,"stream":true`} {
		got := r.send("/v1/responses", "application/json", strings.NewReader(`{"model":"m","input":"hello"`+more+`}`))
		if !strings.Contains(got.body, `"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0}`) {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

// Strict clients refuse events of texts without logprobs.
func TestResponseEventsOfTextsHaveLogprobs(t *testing.T) {
	r := newRig(t, Options{})
	got := r.send("/v1/responses", "application/json", strings.NewReader(`{"model":"m","input":"hello","stream":true}`))
	checked := 0
	for line := range strings.Lines(got.body) {
		if strings.Contains(line, `"type":"response.output_text.`) {
			checked++
			if !strings.Contains(line, `"logprobs":[]`) {
				t.Errorf("got no logprobs in %s", line)
			}
		}
	}
	if checked < 2 {
		t.Errorf("got %d events of texts, want deltas and a done", checked)
	}
}
