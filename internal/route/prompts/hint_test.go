package prompts_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/prompts"
)

// TestHintsNameTheConversation has what agents really send, in the names that they use on
// the wire.
func TestHintsNameTheConversation(t *testing.T) {
	const chat, response = `{"model":"m","messages":[{"role":"user","content":"x"}]`, `{"model":"m","input":"x"`
	for name, c := range map[string]struct {
		door    schema.Door
		body    string
		headers []string // names and values
		want    string
	}{
		"nothing":                {schema.DoorChat, chat + `,"user":"u","metadata":{"a":"b"}}`, []string{"user-agent", "x"}, ""},
		"a key for caches":       {schema.DoorChat, chat + `,"prompt_cache_key":"k"}`, nil, "k"},
		"a key in extra_body":    {schema.DoorChat, chat + `,"extra_body":{"prompt_cache_key":"k"}}`, nil, "k"},
		"an escaped key":         {schema.DoorChat, chat + `,"prompt_cache_key":"\u006b"}`, nil, "k"},
		"a key and a session":    {schema.DoorResponses, response + `,"prompt_cache_key":"k"}`, []string{"session-id", "s"}, "k"},
		"a key that is no text":  {schema.DoorChat, chat + `,"prompt_cache_key":["k"]}`, []string{"session-id", "s"}, "s"},
		"a key without end":      {schema.DoorChat, chat + `,"prompt_cache_key":"` + strings.Repeat("k", 600) + `"}`, []string{"session-id", "s"}, "s"},
		"Claude Code":            {schema.DoorMessages, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"metadata":{"user_id":"u"}}`, []string{"x-claude-code-session-id", "s"}, "s"},
		"Claude Code before":     {schema.DoorMessages, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"metadata":{"user_id":"user_1_account_2_session_3"}}`, nil, "user_1_account_2_session_3"},
		"Codex":                  {schema.DoorResponses, response + `}`, []string{"session-id", "s", "thread-id", "t"}, "t"},
		"Codex before":           {schema.DoorResponses, response + `}`, []string{"session_id", "s"}, "s"},
		"OpenCode":               {schema.DoorChat, chat + `}`, []string{"x-session-affinity", "s"}, "s"},
		"OpenCode's provider":    {schema.DoorChat, chat + `}`, []string{"x-opencode-session", "s"}, "s"},
		"an empty session":       {schema.DoorChat, chat + `}`, []string{"x-session-affinity", "", "x-opencode-session", "s"}, "s"},
		"a session without end":  {schema.DoorChat, chat + `}`, []string{"session-id", strings.Repeat("s", 600)}, ""},
		"the response before":    {schema.DoorResponses, response + `,"previous_response_id":"resp_1"}`, nil, "resp_1"},
		"metadata and responses": {schema.DoorResponses, response + `,"previous_response_id":"resp_1","metadata":{"user_id":"u"}}`, nil, "u"},
		"an embedding":           {schema.DoorEmbeddings, `{"model":"m","input":"x","prompt_cache_key":"k"}`, []string{"session-id", "s"}, ""},
	} {
		header := http.Header{}
		for n := 0; n+1 < len(c.headers); n += 2 {
			header.Set(c.headers[n], c.headers[n+1])
		}
		if got := prompts.Hint(request(t, c.door, c.body), header); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
