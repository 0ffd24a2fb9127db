// Package services knows the services and servers behind other gateways: their names
// there, and the way to speak to them.
package services

import (
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
)

// Find returns the provider that LiteLLM or Bifrost calls by a name.
func Find(name string) (providers.Provider, bool) {
	if IsForeign(name) {
		return providers.Provider{}, false
	}
	return providers.Find(name)
}

// IsOpenAI reports whether the provider serves a service type as OpenAI does, below an
// address that may have any ending.
func IsOpenAI(p providers.Provider, serviceType schema.ServiceType) bool {
	kind, err := kinds.Lookup(p.Adapter)
	return err == nil && kind.Deployments == "" && kind.Routes[serviceType].Path == OpenAIPath(serviceType)
}

// ServiceTypeOf reads the mode that LiteLLM gives to a model; without one the name
// tells.
func ServiceTypeOf(mode, model string) (serviceType schema.ServiceType, known bool) {
	switch mode {
	case "":
		return discover.GuessService(model), true
	case "chat", "completion", "responses", "moderation":
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

// OpenAIPath returns where OpenAI serves a service type.
func OpenAIPath(serviceType schema.ServiceType) string {
	kind, err := kinds.Lookup("openai")
	if err != nil {
		return ""
	}
	return kind.Routes[serviceType].Path
}

// ByModel returns the provider that LiteLLM finds for a model without one, by the
// names that the large providers give to their models.
func ByModel(model string) string {
	for _, known := range []struct {
		provider string
		begins   []string
	}{
		{"openai", []string{
			"gpt-", "chatgpt-", "o1", "o3", "o4", "ft:gpt", "ft:o", "text-embedding-3", "text-embedding-ada", "dall-e",
			"tts-1", "whisper-1", "omni-moderation", "text-moderation",
			"davinci", "babbage", "text-davinci", "codex-", "computer-use", "sora",
		}},
		{"anthropic", []string{"claude"}},
		{"cohere", []string{"command", "embed-english", "embed-multilingual", "rerank-"}},
		{"vertex_ai", []string{"gemini", "text-bison", "chat-bison", "code-bison", "codechat", "textembedding-gecko",
			"text-embedding-00", "imagen", "veo-"}},
		{"bedrock", []string{"anthropic.", "amazon.", "meta.", "mistral.", "cohere.", "ai21.", "us.", "eu.", "apac.",
			"global.", "stability.", "deepseek."}},
	} {
		if slices.ContainsFunc(known.begins, func(begin string) bool { return strings.HasPrefix(model, begin) }) {
			return known.provider
		}
	}
	return ""
}

// IsForeign reports whether a provider of LiteLLM is known to have an API of its own: an
// address does not make it an OpenAI-compatible server.
func IsForeign(provider string) bool {
	return slices.Contains([]string{
		"bedrock", "bedrock_converse", "vertex_ai", "vertex_ai_beta", "sagemaker", "sagemaker_chat", "replicate",
		"huggingface", "watsonx", "oci", "predibase",
		"nlp_cloud", "petals", "aleph_alpha", "maritalk", "triton", "cloudflare", "snowflake", "assemblyai", "deepgram",
		"elevenlabs", "auto_router",
	}, strings.ToLower(provider))
}
