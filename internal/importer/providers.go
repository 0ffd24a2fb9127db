package importer

import (
	"strings"

	"github.com/patchbay-ai/patchbay/internal/discover"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// provider is a service or a server as LiteLLM and Bifrost name them.
type provider struct {
	names    []string
	adapter  string
	baseURL  string // empty: the source has to say it
	path     string // of chat, where it is not that of the adapter
	variable string // that usually has its key
}

var providers = []provider{
	{names: []string{"openai", "text-completion-openai", "custom_openai", "openai_like"}, adapter: "openai", baseURL: "https://api.openai.com", variable: "OPENAI_API_KEY"},
	{names: []string{"anthropic"}, adapter: "anthropic", baseURL: "https://api.anthropic.com", variable: "ANTHROPIC_API_KEY"},
	{names: []string{"gemini"}, adapter: "gemini", baseURL: "https://generativelanguage.googleapis.com", variable: "GEMINI_API_KEY"},
	{names: []string{"ollama", "ollama_chat"}, adapter: "ollama", baseURL: "http://127.0.0.1:11434"},
	{names: []string{"hosted_vllm", "vllm"}, adapter: "vllm"},
	{names: []string{"xinference"}, adapter: "xinference"},
	{names: []string{"lm_studio"}, adapter: "openai", baseURL: "http://127.0.0.1:1234"},
	{names: []string{"llamafile"}, adapter: "llamacpp"},
	{names: []string{"infinity", "sgl", "sgl_lang"}, adapter: "openai"},
	{names: []string{"mistral"}, adapter: "openai", baseURL: "https://api.mistral.ai", variable: "MISTRAL_API_KEY"},
	{names: []string{"groq"}, adapter: "openai", baseURL: "https://api.groq.com/openai", variable: "GROQ_API_KEY"},
	{names: []string{"deepseek"}, adapter: "openai", baseURL: "https://api.deepseek.com", variable: "DEEPSEEK_API_KEY"},
	{names: []string{"xai"}, adapter: "openai", baseURL: "https://api.x.ai", variable: "XAI_API_KEY"},
	{names: []string{"openrouter"}, adapter: "openai", baseURL: "https://openrouter.ai/api", variable: "OPENROUTER_API_KEY"},
	{names: []string{"together_ai", "together"}, adapter: "openai", baseURL: "https://api.together.xyz", variable: "TOGETHERAI_API_KEY"},
	{names: []string{"fireworks_ai", "fireworks"}, adapter: "openai", baseURL: "https://api.fireworks.ai/inference", variable: "FIREWORKS_API_KEY"},
	{names: []string{"cerebras"}, adapter: "openai", baseURL: "https://api.cerebras.ai", variable: "CEREBRAS_API_KEY"},
	{names: []string{"moonshot"}, adapter: "openai", baseURL: "https://api.moonshot.cn", variable: "MOONSHOT_API_KEY"},
	{names: []string{"perplexity"}, adapter: "openai", baseURL: "https://api.perplexity.ai", path: "/chat/completions", variable: "PERPLEXITYAI_API_KEY"},
	{names: []string{"cohere"}, adapter: "cohere", baseURL: "https://api.cohere.com", variable: "COHERE_API_KEY"},
	{names: []string{"jina_ai", "jina"}, adapter: "jina", baseURL: "https://api.jina.ai", variable: "JINA_API_KEY"},
	{names: []string{"azure"}, adapter: "openai", variable: "AZURE_API_KEY"},
}

func providerOf(name string) (provider, bool) {
	for _, p := range providers {
		for _, known := range p.names {
			if strings.EqualFold(known, name) {
				return p, true
			}
		}
	}
	return provider{}, false
}

// azurePath returns the path of a deployment at Azure.
func azurePath(serviceType schema.ServiceType, deployment, version string) (string, bool) {
	end, known := map[schema.ServiceType]string{
		schema.Chat: "chat/completions", schema.Embedding: "embeddings", schema.TTS: "audio/speech",
		schema.STT: "audio/transcriptions", schema.ImgGen: "images/generations", schema.ImgEdit: "images/edits",
	}[serviceType]
	return "/openai/deployments/" + deployment + "/" + end + "?api-version=" + version, known
}

// serviceTypeOf reads the mode that LiteLLM gives to a model; without one the name
// tells.
func serviceTypeOf(mode, model string) (serviceType schema.ServiceType, known bool) {
	switch mode {
	case "":
		return discover.GuessService(model), true
	case "chat", "completion", "responses":
		return schema.Chat, true
	case "embedding":
		return schema.Embedding, true
	case "rerank":
		return schema.Rerank, true
	case "audio_speech":
		return schema.TTS, true
	case "audio_transcription":
		return schema.STT, true
	case "image_generation":
		return schema.ImgGen, true
	case "image_edit":
		return schema.ImgEdit, true
	}
	return 0, false
}
