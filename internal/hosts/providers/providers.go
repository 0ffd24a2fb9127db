// Package providers is the table of services and servers with models that people use: their
// addresses, the variables that usually have their keys, and the way to speak to them.
package providers

import (
	"cmp"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Provider is a service, or a server at its usual address.
type Provider struct {
	// Name is its name in commands, and Names are others, in other gateways too.
	Name  string   `json:"name"`
	Names []string `json:"-"`
	// Title is how people call it; one without a title is not offered.
	Title string `json:"title"`
	// Adapter is the one for it; the table names all but openai.
	Adapter string `json:"adapter"`
	// BaseURL is its address; empty where everybody has another one.
	BaseURL string `json:"baseUrl"`
	// Path is the path of chats, if it differs from the adapter's. Such a provider has its list
	// of models elsewhere, too.
	Path string `json:"path,omitzero"`
	// Variable is the variable of the environment that usually has its key, and LiteLLM the one
	// that LiteLLM reads, if that is another one.
	Variable string `json:"keyVariable,omitzero"`
	LiteLLM  string `json:"-"`
	// Address is the variable from which LiteLLM reads its address.
	Address string `json:"-"`
	// Families are the beginnings of the names of its models, for keys that may use all of them.
	Families []string `json:"-"`
	// Serves are the uses of its models; none means chat and embedding.
	Serves []schema.ServiceType `json:"-"`
	Note   string               `json:"note,omitzero"`
}

const (
	noList        = "It has no list of models where others have it: --model names them."
	bedrockRegion = "The address names the region; the key is a Bedrock API key."
)

var (
	onlyChat = []schema.ServiceType{schema.Chat}
	speaks   = []schema.ServiceType{schema.Chat, schema.TTS, schema.STT}
	ranks    = []schema.ServiceType{schema.Embedding, schema.Rerank}
	openAI   = []schema.ServiceType{schema.Chat, schema.Embedding, schema.TTS, schema.STT, schema.ImgGen}
)

// table has the great ones first, then the others by name, then servers on this machine.
var table = []Provider{
	{
		Name: "openai", Names: []string{"text-completion-openai", "custom_openai", "openai_like"}, Title: "OpenAI",
		BaseURL: "https://api.openai.com", Variable: "OPENAI_API_KEY", Serves: openAI,
		Families: []string{"gpt-*", "chatgpt-*", "o1*", "o3*", "o4*", "ft:*", "text-embedding-*", "dall-e-*", "tts-*",
			"whisper-*", "omni-moderation-*"},
	},
	{Name: "anthropic", Names: []string{"claude"}, Title: "Anthropic", Adapter: "anthropic",
		BaseURL: "https://api.anthropic.com", Variable: "ANTHROPIC_API_KEY", Families: []string{"claude-*"},
		Serves: onlyChat},
	{Name: "gemini", Names: []string{"google"}, Title: "Google Gemini", Adapter: "gemini",
		BaseURL: "https://generativelanguage.googleapis.com", Variable: "GEMINI_API_KEY",
		Families: []string{"gemini-*", "gemma-*", "text-embedding-004", "embedding-*"}},
	{Name: "azure", Adapter: "azure", Variable: "AZURE_API_KEY", Address: "AZURE_API_BASE"},
	{Name: "azure_ai", Variable: "AZURE_AI_API_KEY", Address: "AZURE_AI_API_BASE"},

	{Name: "ai21", Names: []string{"ai21_chat"}, Title: "AI21",
		BaseURL:  "https://api.ai21.com/studio",
		Variable: "AI21_API_KEY", Serves: onlyChat},
	{Name: "aihubmix", Title: "AIHubMix", BaseURL: "https://aihubmix.com",
		Variable: "AIHUBMIX_API_KEY"},
	{Name: "aimlapi", Names: []string{"aiml"}, Title: "AI/ML API",
		BaseURL:  "https://api.aimlapi.com",
		Variable: "AIML_API_KEY"},
	{Name: "baichuan", Title: "Baichuan", BaseURL: "https://api.baichuan-ai.com",
		Variable: "BAICHUAN_API_KEY"},
	{Name: "baseten", Title: "Baseten", BaseURL: "https://inference.baseten.co",
		Variable: "BASETEN_API_KEY", Serves: onlyChat},
	{Name: "bedrock", Title: "Amazon Bedrock",
		BaseURL: "https://bedrock-runtime.us-east-1.amazonaws.com/openai", Variable: "AWS_BEARER_TOKEN_BEDROCK",
		Serves: onlyChat, Note: bedrockRegion + " " + noList + " With responses: true the Responses API is passed on."},
	{Name: "bedrock-claude", Names: []string{"bedrock-mantle"}, Title: "Claude on Amazon Bedrock",
		Adapter: "anthropic", BaseURL: "https://bedrock-mantle.us-east-1.api.aws/anthropic",
		Variable: "AWS_BEARER_TOKEN_BEDROCK", Serves: onlyChat, Note: bedrockRegion},
	{Name: "cerebras", Title: "Cerebras", BaseURL: "https://api.cerebras.ai",
		Variable: "CEREBRAS_API_KEY", Serves: onlyChat},
	{Name: "chutes", Title: "Chutes", BaseURL: "https://llm.chutes.ai", Variable: "CHUTES_API_KEY",
		Serves: onlyChat},
	{Name: "cohere", Names: []string{"cohere_chat"}, Title: "Cohere", Adapter: "cohere",
		BaseURL:  "https://api.cohere.com",
		Variable: "COHERE_API_KEY", Note: "Its adapter is for rerank."},
	{Name: "dashscope", Names: []string{"qwen", "alibaba"}, Title: "Alibaba DashScope (Qwen)",
		BaseURL: "https://dashscope.aliyuncs.com/compatible-mode", Variable: "DASHSCOPE_API_KEY"},
	{Name: "dashscope-intl", Title: "Alibaba DashScope, international",
		BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode", Variable: "DASHSCOPE_API_KEY"},
	{Name: "deepinfra", Title: "DeepInfra", BaseURL: "https://api.deepinfra.com/v1/openai",
		Path: "/chat/completions", Variable: "DEEPINFRA_API_KEY", Serves: onlyChat, Note: noList},
	{Name: "deepseek", Title: "DeepSeek", BaseURL: "https://api.deepseek.com",
		Variable: "DEEPSEEK_API_KEY", Families: []string{"deepseek-*"}, Serves: onlyChat},
	{Name: "featherless", Names: []string{"featherless_ai"}, Title: "Featherless",
		BaseURL: "https://api.featherless.ai", Variable: "FEATHERLESS_API_KEY", LiteLLM: "FEATHERLESS_AI_API_KEY",
		Serves: onlyChat},
	{Name: "fireworks", Names: []string{"fireworks_ai"}, Title: "Fireworks",
		BaseURL: "https://api.fireworks.ai/inference", Variable: "FIREWORKS_API_KEY"},
	{Name: "friendli", Names: []string{"friendliai"}, Title: "FriendliAI",
		BaseURL: "https://api.friendli.ai/serverless", Variable: "FRIENDLI_TOKEN", Serves: onlyChat},
	{Name: "github-models", Title: "GitHub Models", BaseURL: "https://models.github.ai/inference",
		Path: "/chat/completions", Variable: "GITHUB_TOKEN", Serves: onlyChat, Note: noList},
	{Name: "groq", Title: "Groq", BaseURL: "https://api.groq.com/openai", Variable: "GROQ_API_KEY",
		Serves: speaks},
	{Name: "huggingface", Title: "Hugging Face router", BaseURL: "https://router.huggingface.co",
		Variable: "HF_TOKEN", Serves: onlyChat},
	{Name: "hunyuan", Names: []string{"tencent"}, Title: "Tencent Hunyuan",
		BaseURL: "https://api.hunyuan.cloud.tencent.com", Variable: "HUNYUAN_API_KEY"},
	{Name: "hyperbolic", Title: "Hyperbolic", BaseURL: "https://api.hyperbolic.xyz",
		Variable: "HYPERBOLIC_API_KEY"},
	{Name: "jina", Names: []string{"jina_ai"}, Title: "Jina", Adapter: "jina", BaseURL: "https://api.jina.ai",
		Variable: "JINA_API_KEY", LiteLLM: "JINA_AI_API_KEY", Serves: ranks},
	{Name: "lambda", Names: []string{"lambda_ai"}, Title: "Lambda", BaseURL: "https://api.lambda.ai",
		Variable: "LAMBDA_API_KEY", Serves: onlyChat},
	{Name: "lingyiwanwu", Names: []string{"01ai", "yi"}, Title: "01.AI (Yi)",
		BaseURL: "https://api.lingyiwanwu.com", Variable: "LINGYIWANWU_API_KEY", Serves: onlyChat},
	{Name: "minimax", Title: "MiniMax", BaseURL: "https://api.minimax.io",
		Variable: "MINIMAX_API_KEY",
		Serves:   onlyChat},
	{Name: "minimax-cn", Title: "MiniMax, China", BaseURL: "https://api.minimaxi.com",
		Variable: "MINIMAX_API_KEY", Serves: onlyChat},
	{Name: "mistral", Title: "Mistral", BaseURL: "https://api.mistral.ai",
		Variable: "MISTRAL_API_KEY"},
	{Name: "modelscope", Title: "ModelScope", BaseURL: "https://api-inference.modelscope.cn",
		Variable: "MODELSCOPE_API_KEY", Serves: onlyChat},
	{Name: "moonshot", Names: []string{"kimi"}, Title: "Moonshot (Kimi)",
		BaseURL: "https://api.moonshot.ai", Variable: "MOONSHOT_API_KEY", Serves: onlyChat},
	{Name: "moonshot-cn", Title: "Moonshot (Kimi), China", BaseURL: "https://api.moonshot.cn",
		Variable: "MOONSHOT_API_KEY", Serves: onlyChat},
	{Name: "nebius", Title: "Nebius Token Factory", BaseURL: "https://api.tokenfactory.nebius.com",
		Variable: "NEBIUS_API_KEY"},
	{Name: "novita", Title: "Novita", BaseURL: "https://api.novita.ai/openai",
		Variable: "NOVITA_API_KEY"},
	{Name: "nscale", Title: "Nscale", BaseURL: "https://inference.api.nscale.com",
		Variable: "NSCALE_API_KEY"},
	{Name: "nvidia", Names: []string{"nvidia_nim"}, Title: "NVIDIA NIM",
		BaseURL: "https://integrate.api.nvidia.com", Variable: "NVIDIA_API_KEY", LiteLLM: "NVIDIA_NIM_API_KEY"},
	{Name: "ollama-cloud", Title: "Ollama Cloud", BaseURL: "https://ollama.com",
		Variable: "OLLAMA_API_KEY", Serves: onlyChat},
	{Name: "openrouter", Title: "OpenRouter", BaseURL: "https://openrouter.ai/api",
		Variable: "OPENROUTER_API_KEY", Families: []string{"*/*"}},
	{Name: "parasail", Title: "Parasail", BaseURL: "https://api.parasail.io",
		Variable: "PARASAIL_API_KEY"},
	{Name: "perplexity", Title: "Perplexity", BaseURL: "https://api.perplexity.ai",
		Path: "/chat/completions", Variable: "PERPLEXITY_API_KEY", LiteLLM: "PERPLEXITYAI_API_KEY", Serves: onlyChat,
		Note: noList},
	{Name: "poe", Title: "Poe", BaseURL: "https://api.poe.com", Variable: "POE_API_KEY",
		Serves: onlyChat},
	{Name: "qianfan", Names: []string{"baidu"}, Title: "Baidu Qianfan",
		BaseURL: "https://qianfan.baidubce.com/v2", Variable: "QIANFAN_API_KEY"},
	{Name: "sambanova", Title: "SambaNova", BaseURL: "https://api.sambanova.ai",
		Variable: "SAMBANOVA_API_KEY"},
	{Name: "scaleway", Title: "Scaleway", BaseURL: "https://api.scaleway.ai",
		Variable: "SCW_SECRET_KEY"},
	{Name: "siliconflow", Title: "SiliconFlow", BaseURL: "https://api.siliconflow.cn",
		Variable: "SILICONFLOW_API_KEY"},
	{Name: "siliconflow-intl", Title: "SiliconFlow, international",
		BaseURL: "https://api.siliconflow.com", Variable: "SILICONFLOW_API_KEY"},
	{Name: "spark", Names: []string{"iflytek"}, Title: "iFlytek Spark",
		BaseURL: "https://spark-api-open.xf-yun.com", Variable: "SPARK_API_KEY", Serves: onlyChat},
	{Name: "stepfun", Title: "StepFun", BaseURL: "https://api.stepfun.com",
		Variable: "STEPFUN_API_KEY", Serves: speaks},
	{Name: "together", Names: []string{"together_ai"}, Title: "Together",
		BaseURL: "https://api.together.xyz", Variable: "TOGETHER_API_KEY", LiteLLM: "TOGETHERAI_API_KEY"},
	{Name: "upstage", Title: "Upstage", BaseURL: "https://api.upstage.ai",
		Variable: "UPSTAGE_API_KEY"},
	{Name: "venice", Names: []string{"veniceai"}, Title: "Venice",
		BaseURL:  "https://api.venice.ai/api",
		Variable: "VENICE_API_KEY", LiteLLM: "VENICE_AI_API_KEY"},
	{Name: "vercel", Names: []string{"vercel_ai_gateway"}, Title: "Vercel AI Gateway",
		BaseURL: "https://ai-gateway.vercel.sh", Variable: "AI_GATEWAY_API_KEY", LiteLLM: "VERCEL_AI_GATEWAY_API_KEY"},
	{Name: "volcengine", Names: []string{"ark", "doubao"}, Title: "Volcengine Ark (Doubao)",
		BaseURL: "https://ark.cn-beijing.volces.com/api/v3", Variable: "ARK_API_KEY", LiteLLM: "VOLCENGINE_API_KEY"},
	{Name: "voyage", Title: "Voyage", BaseURL: "https://api.voyageai.com",
		Variable: "VOYAGE_API_KEY", Serves: []schema.ServiceType{schema.Embedding}, Note: noList},
	{Name: "wandb", Title: "Weights & Biases", BaseURL: "https://api.inference.wandb.ai",
		Variable: "WANDB_API_KEY", Serves: onlyChat},
	{Name: "xai", Names: []string{"grok"}, Title: "xAI (Grok)", BaseURL: "https://api.x.ai",
		Variable: "XAI_API_KEY", Families: []string{"grok-*"}, Serves: onlyChat},
	{Name: "zai", Title: "Z.ai (GLM)", BaseURL: "https://api.z.ai/api/paas/v4",
		Variable: "ZAI_API_KEY", Serves: onlyChat},
	{Name: "zhipu", Names: []string{"glm", "bigmodel"}, Title: "Zhipu (GLM)",
		BaseURL: "https://open.bigmodel.cn/api/paas/v4", Variable: "ZHIPUAI_API_KEY"},

	{Name: "ollama", Names: []string{"ollama_chat"}, Title: "Ollama", Adapter: "ollama",
		BaseURL: "http://127.0.0.1:11434", Address: "OLLAMA_API_BASE"},
	{Name: "lmstudio", Names: []string{"lm_studio", "lm-studio"}, Title: "LM Studio",
		BaseURL: "http://127.0.0.1:1234", Address: "LM_STUDIO_API_BASE"},
	{Name: "llamafile", Adapter: "llamacpp", BaseURL: "http://127.0.0.1:8080", Address: "LLAMAFILE_API_BASE"},
	{Name: "hosted_vllm", Names: []string{"vllm"}, Adapter: "vllm", Address: "HOSTED_VLLM_API_BASE"},
	{Name: "xinference", Adapter: "xinference", Address: "XINFERENCE_API_BASE"},
	{Name: "infinity", Address: "INFINITY_API_BASE"},
	{Name: "sgl", Names: []string{"sgl_lang"}, Adapter: "sglang"},
	{Name: "litellm_proxy", Variable: "LITELLM_PROXY_API_KEY", Address: "LITELLM_PROXY_API_BASE"},
}

// All returns the providers that are offered to people.
func All() (offered []Provider) {
	for _, p := range table {
		if p.Title != "" {
			offered = append(offered, p.withAdapter())
		}
	}
	return offered
}

func (p Provider) withAdapter() Provider {
	p.Adapter = cmp.Or(p.Adapter, "openai")
	return p
}

// Find returns the provider with a name, in any case.
func Find(name string) (Provider, bool) {
	for _, p := range table {
		if strings.EqualFold(p.Name, name) ||
			slices.ContainsFunc(p.Names, func(other string) bool { return strings.EqualFold(other, name) }) {
			return p.withAdapter(), true
		}
	}
	return Provider{}, false
}

// OwnsVariable reports whether a variable is where some provider's key usually is, and nothing
// else: tokens such as HF_TOKEN have other uses, too.
func OwnsVariable(name string) bool {
	return strings.HasSuffix(name, "_API_KEY") &&
		slices.ContainsFunc(table, func(p Provider) bool { return p.Variable == name || p.LiteLLM == name })
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
