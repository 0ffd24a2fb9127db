package anthropic

import (
	"bytes"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

func TestBreakpointsOfTheCache(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"one turn":    {`{"messages":[{"role":"user","content":"a"}]}`, ""},
		"own marks":   {`{"tools":[{"name":"f"}],"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]}`, ""},
		"tools":       {`{"tools":[{"name":"f"},{"name":"g"}],"messages":[{"role":"user","content":"a"}]}`, `{"tools":[{"name":"f"},{MARK,"name":"g"}],"messages":[{"role":"user","content":[{"type":"text","text":"a",MARK}]}]}`},
		"three turns": {`{"system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[{"type":"text","text":"c"}]},{"role":"user","content":"\u00e9"}]}`, `{"system":[{"type":"text","text":"s",MARK}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[{MARK,"type":"text","text":"c"}]},{"role":"user","content":[{"type":"text","text":"\u00e9",MARK}]}]}`},
		"blocks":      {`{"system":[{"type":"text","text":"s"},{"type":"text","text":"t"}],"tools":[{"name":"f"}],"messages":[{"role":"user","content":""}]}`, `{"system":[{"type":"text","text":"s"},{MARK,"type":"text","text":"t"}],"tools":[{MARK,"name":"f"}],"messages":[{"role":"user","content":""}]}`},
	} {
		call := &wire.Call{Body: [][]byte{[]byte(c.body[:5]), []byte(c.body[5:])}}
		Breakpoints(call)
		want := c.body
		if c.want != "" {
			want = strings.ReplaceAll(c.want, "MARK", mark)
		}
		if got := string(bytes.Join(call.Body, nil)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
