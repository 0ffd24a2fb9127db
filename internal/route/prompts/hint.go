package prompts

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// sessionHeaders are the headers that agents name their conversations with, in the
// canonical form: Claude Code; Codex, in three generations; OpenCode, towards others and
// towards its own provider.
var sessionHeaders = [...]string{
	"X-Claude-Code-Session-Id",
	"Thread-Id", "Session-Id", "Session_id",
	"X-Session-Affinity", "X-Opencode-Session",
}

// longestHint is how long a hint may be. The longest that agents send have 160 bytes.
const longestHint = 512

// Hint returns the name that a client has for the conversation, empty if it tells none: the
// key of its prompts in caches, the session of an agent, the user, or the response before.
// The first is the closest to one conversation. Names that are too long do not count, and
// requests without a prompt belong to no conversation.
func Hint(req *schema.Request, header http.Header) string {
	if !hasPrompt(req.Door) {
		return ""
	}
	if key := text(req.Field("prompt_cache_key")); key != "" {
		return key
	}
	if session := Session(header); session != "" {
		return session
	}
	if user := text(req.Field("metadata").Get("user_id")); user != "" {
		return user
	}
	return text(req.Field("previous_response_id"))
}

// Session returns the name that an agent has for its session, empty if it tells none.
func Session(header http.Header) string {
	for _, name := range sessionHeaders {
		if values := header[name]; len(values) > 0 && values[0] != "" && len(values[0]) <= longestHint {
			return values[0]
		}
	}
	return ""
}

// Conversation returns the id of the conversation that a request to the Responses API names,
// empty if it names none.
func Conversation(req *schema.Request) string {
	if req.Door != schema.DoorResponses {
		return ""
	}
	conversation := req.Field("conversation")
	if id := text(conversation); id != "" {
		return id
	}
	return text(conversation.Get("id"))
}

// text returns a copy of a text that can be a hint.
func text(v jsonscan.Value) string {
	if v.Kind() != jsonscan.String || len(v.Raw()) > longestHint {
		return ""
	}
	return string(v.Text())
}
