package plan

import (
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// MayHedge reports whether a request has no side effects and its answer comes whole. It may
// be sent to two instances then.
func MayHedge(pool *routing.Pool, req *schema.Request) bool {
	if pool.Watch == nil || len(pool.Instances) < 2 || req.Stream || req.Uncounted {
		return false
	}
	switch req.Door {
	case schema.DoorEmbeddings, schema.DoorRerank:
		return true
	case schema.DoorTranscriptions, schema.DoorTranslations:
		streamed, _ := req.Form.Value("stream")
		return streamed == "" || streamed == "false"
	case schema.DoorChat, schema.DoorCompletions, schema.DoorMessages, schema.DoorResponses:
		return isPlainChat(req)
	}
	return false
}

// isPlainChat reports whether a chat is answered the same each time and does nothing else:
// temperature 0, no tools (some backends run them), and nothing stored.
func isPlainChat(req *schema.Request) bool {
	temperature, given := req.Field("temperature").Float()
	if !given || temperature != 0 || !req.IsSelfContained() {
		return false
	}
	for _, name := range [...]string{"tools", "functions", "web_search_options", "mcp_servers", "container"} {
		if req.Field(name).Given() {
			return false
		}
	}
	return true
}

// soundPerToken is how many bytes of a sound count as a token. Only the ratio between
// requests of one model matters.
const soundPerToken = 400

// Work returns how much work a request is, in tokens.
func Work(req *schema.Request) float64 {
	use := estimate.Most(req, nil, 0)
	tokens := float64(use.Tokens())
	if req.Form != nil {
		for i := range req.Form.Parts {
			if file := req.Form.Parts[i].File; file != nil {
				tokens += float64(file.Size / soundPerToken)
			}
		}
	}
	return tokens
}
