// Package providers knows the services and servers behind other gateways: their names
// there, their addresses and the way to speak to them.
package providers

import (
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/discover"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Provider is a service or a server as LiteLLM and Bifrost name them.
type Provider struct {
	Names    []string
	Adapter  string
	BaseURL  string // empty: the source has to say it
	Path     string // of chat, if it differs from the adapter's
	Variable string // that usually has its key
	Address  string // the variable that LiteLLM reads its address from
	// Families are the beginnings of the names of its models, for keys that may use all of
	// them.
	Families []string
	Serves   []schema.ServiceType // the uses of its models; empty: chat and embedding
}

var known = []Provider{
	{
		Names: []string{"openai", "text-completion-openai", "custom_openai", "openai_like"}, Adapter: "openai",
		BaseURL: "https://api.openai.com", Variable: "OPENAI_API_KEY",
		Families: []string{"gpt-*", "chatgpt-*", "o1*", "o3*", "o4*", "ft:*", "text-embedding-*", "dall-e-*", "tts-*",
			"whisper-*", "omni-moderation-*"},
		Serves: []schema.ServiceType{schema.Chat, schema.Embedding, schema.TTS, schema.STT, schema.ImgGen},
	},
	{Names: []string{"anthropic"}, Adapter: "anthropic", BaseURL: "https://api.anthropic.com",
		Variable: "ANTHROPIC_API_KEY", Families: []string{"claude-*"}},
	{
		Names: []string{"gemini"}, Adapter: "gemini", BaseURL: "https://generativelanguage.googleapis.com",
		Variable: "GEMINI_API_KEY",
		Families: []string{"gemini-*", "gemma-*", "text-embedding-004", "embedding-*"},
	},
	{Names: []string{"ollama", "ollama_chat"}, Adapter: "ollama", BaseURL: "http://127.0.0.1:11434",
		Address: "OLLAMA_API_BASE"},
	{Names: []string{"hosted_vllm", "vllm"}, Adapter: "vllm", Address: "HOSTED_VLLM_API_BASE"},
	{Names: []string{"xinference"}, Adapter: "xinference", Address: "XINFERENCE_API_BASE"},
	{Names: []string{"lm_studio"}, Adapter: "openai", BaseURL: "http://127.0.0.1:1234", Address: "LM_STUDIO_API_BASE"},
	{Names: []string{"llamafile"}, Adapter: "llamacpp", BaseURL: "http://127.0.0.1:8080",
		Address: "LLAMAFILE_API_BASE"},
	{Names: []string{"infinity"}, Adapter: "openai", Address: "INFINITY_API_BASE"},
	{Names: []string{"sgl", "sgl_lang"}, Adapter: "sglang"},
	{Names: []string{"litellm_proxy"}, Adapter: "openai", Variable: "LITELLM_PROXY_API_KEY",
		Address: "LITELLM_PROXY_API_BASE"},
	{Names: []string{"mistral"}, Adapter: "openai", BaseURL: "https://api.mistral.ai", Variable: "MISTRAL_API_KEY"},
	{
		Names: []string{"groq"}, Adapter: "openai", BaseURL: "https://api.groq.com/openai", Variable: "GROQ_API_KEY",
		Serves: []schema.ServiceType{schema.Chat, schema.TTS, schema.STT},
	},
	{Names: []string{"deepseek"}, Adapter: "openai", BaseURL: "https://api.deepseek.com", Variable: "DEEPSEEK_API_KEY",
		Families: []string{"deepseek-*"}},
	{Names: []string{"xai"}, Adapter: "openai", BaseURL: "https://api.x.ai", Variable: "XAI_API_KEY",
		Families: []string{"grok-*"}},
	{Names: []string{"openrouter"}, Adapter: "openai", BaseURL: "https://openrouter.ai/api",
		Variable: "OPENROUTER_API_KEY", Families: []string{"*/*"}},
	{Names: []string{"together_ai", "together"}, Adapter: "openai", BaseURL: "https://api.together.xyz",
		Variable: "TOGETHERAI_API_KEY"},
	{Names: []string{"fireworks_ai", "fireworks"}, Adapter: "openai", BaseURL: "https://api.fireworks.ai/inference",
		Variable: "FIREWORKS_API_KEY"},
	{Names: []string{"cerebras"}, Adapter: "openai", BaseURL: "https://api.cerebras.ai", Variable: "CEREBRAS_API_KEY"},
	{Names: []string{"sambanova"}, Adapter: "openai", BaseURL: "https://api.sambanova.ai",
		Variable: "SAMBANOVA_API_KEY"},
	{Names: []string{"nvidia_nim"}, Adapter: "openai", BaseURL: "https://integrate.api.nvidia.com",
		Variable: "NVIDIA_NIM_API_KEY"},
	{Names: []string{"hyperbolic"}, Adapter: "openai", BaseURL: "https://api.hyperbolic.xyz",
		Variable: "HYPERBOLIC_API_KEY"},
	{Names: []string{"nebius"}, Adapter: "openai", BaseURL: "https://api.tokenfactory.nebius.com",
		Variable: "NEBIUS_API_KEY"},
	{Names: []string{"parasail"}, Adapter: "openai", BaseURL: "https://api.parasail.io", Variable: "PARASAIL_API_KEY"},
	{Names: []string{"moonshot"}, Adapter: "openai", BaseURL: "https://api.moonshot.ai", Variable: "MOONSHOT_API_KEY"},
	{Names: []string{"volcengine"}, Adapter: "openai", BaseURL: "https://ark.cn-beijing.volces.com/api/v3",
		Variable: "VOLCENGINE_API_KEY"},
	{Names: []string{"voyage"}, Adapter: "openai", BaseURL: "https://api.voyageai.com", Variable: "VOYAGE_API_KEY",
		Serves: []schema.ServiceType{schema.Embedding}},
	{Names: []string{"perplexity"}, Adapter: "openai", BaseURL: "https://api.perplexity.ai", Path: "/chat/completions",
		Variable: "PERPLEXITYAI_API_KEY"},
	{Names: []string{"cohere", "cohere_chat"}, Adapter: "cohere", BaseURL: "https://api.cohere.com",
		Variable: "COHERE_API_KEY"},
	{Names: []string{"jina_ai", "jina"}, Adapter: "jina", BaseURL: "https://api.jina.ai", Variable: "JINA_API_KEY"},
	{Names: []string{"azure"}, Adapter: "azure", Variable: "AZURE_API_KEY", Address: "AZURE_API_BASE"},
	{Names: []string{"azure_ai"}, Adapter: "openai", Variable: "AZURE_AI_API_KEY", Address: "AZURE_AI_API_BASE"},
}

// Find returns the provider that LiteLLM or Bifrost calls by a name.
func Find(name string) (Provider, bool) {
	for _, p := range known {
		if slices.ContainsFunc(p.Names, func(other string) bool { return strings.EqualFold(other, name) }) {
			return p, true
		}
	}
	return Provider{}, false
}

// IsOpenAI reports whether the provider serves a service type as OpenAI does, below an
// address that may have any ending.
func (p Provider) IsOpenAI(serviceType schema.ServiceType) bool {
	kind, err := kinds.Lookup(p.Adapter)
	return err == nil && kind.Deployments == "" && kind.Routes[serviceType].Path == OpenAIPath(serviceType)
}

// Distinct returns the beginnings of its models' names if no other provider has such.
func (p Provider) Distinct() []string {
	if slices.ContainsFunc(p.Families, func(family string) bool { return strings.Contains(family, "/") }) {
		return nil
	}
	return p.Families
}

// Listed returns the service types of the models that the provider lists.
func (p Provider) Listed() []schema.ServiceType {
	serves := p.Serves
	if len(serves) == 0 {
		serves = []schema.ServiceType{schema.Chat, schema.Embedding}
	}
	return slices.DeleteFunc(slices.Clone(serves),
		func(serviceType schema.ServiceType) bool { return kinds.Check(p.Adapter, serviceType) != nil })
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

// OwnsVariable reports whether a variable is where some provider's key usually is.
func OwnsVariable(name string) bool {
	return slices.ContainsFunc(known, func(p Provider) bool { return p.Variable == name })
}
