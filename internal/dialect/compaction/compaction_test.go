package compaction_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/compaction"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// A backend that has these endpoints gets the body as it came, with its own name of the model,
// and the client gets what it answers.
func TestWhatIsPassedOn(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		parse   func(*schema.Request, []byte) error
		adapter *dialect.Adapter
		answer  string
		usage   int64
	}{
		"compact": {
			compaction.Parse, compaction.Pass,
			`{"id":"resp_1","object":"response.compaction","output":[{"type":"compaction","encrypted_content":"gAAA"}],"usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7},"new":1.50}`, 7,
		},
		"input_tokens": {compaction.ParseCount, compaction.CountTokens, `{"object":"response.input_tokens","input_tokens":12}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var req schema.Request
			if err := row.parse(&req, []byte(`{"model":"mine", "input":"hi","new":1.50}`)); err != nil {
				t.Fatal(err)
			}
			var call wire.Call
			if err := row.adapter.Call(&req, &dialect.Target{Path: "/v1/x", ModelJSON: []byte(`"theirs"`)}, &call); err != nil {
				t.Fatal(err)
			}
			var sent strings.Builder
			for _, part := range call.Body {
				sent.Write(part)
			}
			if sent.String() != `{"model":"theirs", "input":"hi","new":1.50}` {
				t.Errorf("sent %s", sent.String())
			}
			var reply dialect.Reply
			if err := row.adapter.Reply(&req, dialect.Answer{Body: []byte(row.answer)}, &reply); err != nil {
				t.Fatal(err)
			}
			if got := string(reply.Segments[0]); got != row.answer || reply.Usage.Total != row.usage {
				t.Errorf("%s with a usage of %+v", got, reply.Usage)
			}
			for _, wrong := range []string{`{}`, `[]`, `x`, `{"output":1,"input_tokens":"x"}`} {
				if err := row.adapter.Reply(&req, dialect.Answer{Body: []byte(wrong)}, new(dialect.Reply)); err == nil {
					t.Errorf("%s is taken for an answer", wrong)
				}
			}
		})
	}
}
