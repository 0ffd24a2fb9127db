package kinds_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
)

func TestEndpointsAreCutOffBaseURLs(t *testing.T) {
	for baseURL, want := range map[string][2]string{
		"https://api.openai.com/v1/chat/completions":                                         {"https://api.openai.com", "/v1/chat/completions"},
		"https://api.openai.com/v1/chat/completions/":                                        {"https://api.openai.com", "/v1/chat/completions"},
		"https://api.openai.com/v1/embeddings":                                               {"https://api.openai.com", "/v1/embeddings"},
		"https://api.openai.com/v1/responses":                                                {"https://api.openai.com", "/v1/responses"},
		"https://api.groq.com/openai/v1/chat/completions":                                    {"https://api.groq.com/openai", "/v1/chat/completions"},
		"https://open.bigmodel.cn/api/paas/v4/chat/completions":                              {"https://open.bigmodel.cn/api/paas/v4", "/chat/completions"},
		"https://open.bigmodel.cn/api/paas/v4/embeddings":                                    {"https://open.bigmodel.cn/api/paas/v4", "/embeddings"},
		"https://api.deepseek.com/chat/completions":                                          {"https://api.deepseek.com", "/chat/completions"},
		"http://127.0.0.1:11434/api/chat":                                                    {"http://127.0.0.1:11434", "/api/chat"},
		"http://127.0.0.1:11434/api/generate":                                                {"http://127.0.0.1:11434", "/api/generate"},
		"https://api.anthropic.com/v1/messages":                                              {"https://api.anthropic.com", "/v1/messages"},
		"https://generativelanguage.googleapis.com/v1beta/models/gemini-pro:generateContent": {"https://generativelanguage.googleapis.com", "/v1beta/models/gemini-pro:generateContent"},
		"https://api.cohere.com/v2/rerank":                                                   {"https://api.cohere.com", "/v2/rerank"},
		"http://h/v1":                                                                        {"http://h/v1", ""},
		"http://h":                                                                           {"http://h", ""},
		"http://h/":                                                                          {"http://h", ""},
		"http://chat/completions":                                                            {"http://chat/completions", ""},
		"http://h/embeddings":                                                                {"http://h/embeddings", ""}, // a place behind a proxy
		"http://h/rerank":                                                                    {"http://h/rerank", ""},
		"http://h/team/messages":                                                             {"http://h/team/messages", ""},
		"http://h/v1/chat/completions/proxy":                                                 {"http://h/v1/chat/completions/proxy", ""},
	} {
		if root, endpoint := kinds.CutEndpoint(baseURL); root != want[0] || endpoint != want[1] {
			t.Errorf("%s: %q and %q, want %q", baseURL, root, endpoint, want)
		}
	}
}
