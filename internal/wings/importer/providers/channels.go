package providers

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Channel is the service behind a channel of some type.
type Channel struct {
	Adapter  string
	BaseURL  string // of channels that have none
	Below    string // where the API begins below the address, if that is not the usual place
	Variable string
	// IsBare says that /chat/completions and the like follow the address, without a version.
	IsBare bool
	// IsWhole says that the address belongs to the call itself, with {model} in it.
	IsWhole bool
}

// sharedKinds have the same numbers in both gateways; the others are below.
var sharedKinds = map[int]Channel{
	1:  {Adapter: "openai", BaseURL: "https://api.openai.com", Variable: "OPENAI_API_KEY"},
	3:  {Adapter: "azure", Variable: "AZURE_API_KEY"},
	6:  {Adapter: "openai", BaseURL: "https://api.openaimax.com", Variable: "OPENAIMAX_API_KEY"},
	7:  {Adapter: "openai", BaseURL: "https://api.ohmygpt.com", Variable: "OHMYGPT_API_KEY"},
	9:  {Adapter: "openai", BaseURL: "https://api.caipacity.com", Variable: "AILS_API_KEY"},
	10: {Adapter: "openai", BaseURL: "https://api.aiproxy.io", Variable: "AIPROXY_API_KEY"},
	12: {Adapter: "openai", BaseURL: "https://api.api2gpt.com", Variable: "API2GPT_API_KEY"},
	13: {Adapter: "openai", BaseURL: "https://api.aigc2d.com", Variable: "AIGC2D_API_KEY"},
	14: {Adapter: "anthropic", BaseURL: "https://api.anthropic.com", Variable: "ANTHROPIC_API_KEY"},
	20: {Adapter: "openai", BaseURL: "https://openrouter.ai/api", Variable: "OPENROUTER_API_KEY"},
	22: {Adapter: "openai", BaseURL: "https://fastgpt.run/api/openapi", Variable: "FASTGPT_API_KEY"},
	24: {Adapter: "gemini", BaseURL: "https://generativelanguage.googleapis.com", Variable: "GEMINI_API_KEY"},
	25: {Adapter: "openai", BaseURL: "https://api.moonshot.cn", Variable: "MOONSHOT_API_KEY"},
	31: {Adapter: "openai", BaseURL: "https://api.lingyiwanwu.com", Variable: "LINGYIWANWU_API_KEY"},
}

var oneAPIKinds = map[int]Channel{
	2:  {Adapter: "openai", BaseURL: "https://oa.api2d.net", Variable: "API2D_API_KEY"},
	4:  {Adapter: "openai", BaseURL: "https://api.closeai-proxy.xyz", Variable: "CLOSEAI_API_KEY"},
	5:  {Adapter: "openai", BaseURL: "https://api.openai-sb.com", Variable: "OPENAI_SB_API_KEY"},
	8:  {Adapter: "openai", Variable: "CUSTOM_API_KEY"},
	19: {Adapter: "openai", BaseURL: "https://ai.360.cn", Variable: "AI360_API_KEY"},
	26: {Adapter: "openai", BaseURL: "https://api.baichuan-ai.com", Variable: "BAICHUAN_API_KEY"},
	28: {Adapter: "openai", BaseURL: "https://api.mistral.ai", Variable: "MISTRAL_API_KEY"},
	29: {Adapter: "openai", BaseURL: "https://api.groq.com/openai", Variable: "GROQ_API_KEY"},
	30: {Adapter: "ollama", BaseURL: "http://127.0.0.1:11434", Variable: "OLLAMA_API_KEY"},
	32: {Adapter: "openai", BaseURL: "https://api.stepfun.com", Variable: "STEPFUN_API_KEY"},
	36: {Adapter: "openai", BaseURL: "https://api.deepseek.com", Variable: "DEEPSEEK_API_KEY"},
	39: {Adapter: "openai", BaseURL: "https://api.together.xyz", Variable: "TOGETHERAI_API_KEY"},
	40: {Adapter: "openai", BaseURL: "https://ark.cn-beijing.volces.com", Below: "/api/v3", Variable: "ARK_API_KEY"},
	41: {Adapter: "openai", BaseURL: "https://api.novita.ai/v3/openai", Variable: "NOVITA_API_KEY", IsBare: true},
	44: {Adapter: "openai", BaseURL: "https://api.siliconflow.cn", Variable: "SILICONFLOW_API_KEY"},
	45: {Adapter: "openai", BaseURL: "https://api.x.ai", Variable: "XAI_API_KEY"},
	47: {Adapter: "openai", BaseURL: "https://qianfan.baidubce.com", Below: "/v2", Variable: "QIANFAN_API_KEY"},
	48: {Adapter: "openai", BaseURL: "https://spark-api-open.xf-yun.com", Variable: "SPARK_API_KEY"},
	49: {Adapter: "openai", BaseURL: "https://dashscope.aliyuncs.com", Below: "/compatible-mode/v1",
		Variable: "DASHSCOPE_API_KEY"},
	50: {Adapter: "openai", Variable: "COMPATIBLE_API_KEY", IsBare: true},
	51: {Adapter: "openai", BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai",
		Variable: "GEMINI_API_KEY", IsBare: true},
}

var newAPIKinds = map[int]Channel{
	4: {Adapter: "ollama", BaseURL: "http://127.0.0.1:11434", Variable: "OLLAMA_API_KEY"},
	8: {Adapter: "openai", Variable: "CUSTOM_API_KEY", IsWhole: true},
	17: {Adapter: "openai", BaseURL: "https://dashscope.aliyuncs.com", Below: "/compatible-mode/v1",
		Variable: "DASHSCOPE_API_KEY"},
	19: {Adapter: "openai", BaseURL: "https://api.360.cn", Variable: "AI360_API_KEY"},
	26: {Adapter: "openai", BaseURL: "https://open.bigmodel.cn", Below: "/api/paas/v4", Variable: "ZHIPU_API_KEY"},
	27: {Adapter: "openai", BaseURL: "https://api.perplexity.ai", Variable: "PERPLEXITY_API_KEY", IsBare: true},
	34: {Adapter: "cohere", BaseURL: "https://api.cohere.ai", Variable: "COHERE_API_KEY"},
	38: {Adapter: "jina", BaseURL: "https://api.jina.ai", Variable: "JINA_API_KEY"},
	40: {Adapter: "openai", BaseURL: "https://api.siliconflow.cn", Variable: "SILICONFLOW_API_KEY"},
	42: {Adapter: "openai", BaseURL: "https://api.mistral.ai", Variable: "MISTRAL_API_KEY"},
	43: {Adapter: "openai", BaseURL: "https://api.deepseek.com", Variable: "DEEPSEEK_API_KEY"},
	45: {Adapter: "openai", BaseURL: "https://ark.cn-beijing.volces.com", Below: "/api/v3", Variable: "ARK_API_KEY"},
	46: {Adapter: "openai", BaseURL: "https://qianfan.baidubce.com", Below: "/v2", Variable: "QIANFAN_API_KEY"},
	47: {Adapter: "xinference", Variable: "XINFERENCE_API_KEY"},
	48: {Adapter: "openai", BaseURL: "https://api.x.ai", Variable: "XAI_API_KEY"},
	53: {Adapter: "openai", BaseURL: "https://llm.submodel.ai", Variable: "SUBMODEL_API_KEY"},
	60: {Adapter: "openai", Variable: "NEW_API_KEY"},
}

// FindChannel returns the meaning of a type of channels of one-api, or of new-api.
func FindChannel(number int, isNewAPI bool) (Channel, bool) {
	own := oneAPIKinds
	if isNewAPI {
		own = newAPIKinds
	}
	if kind, found := own[number]; found {
		return kind, true
	}
	kind, found := sharedKinds[number]
	return kind, found
}

// Where returns the address and the path of a model on a channel; an empty path is the
// usual one.
func (k Channel) Where(serviceType schema.ServiceType, upstream, model string) (baseURL, path string) {
	end := strings.TrimPrefix(OpenAIPath(serviceType), "/v1")
	switch {
	case k.IsWhole:
		whole := strings.ReplaceAll(k.BaseURL, "{model}", url.PathEscape(cmp.Or(upstream, model)))
		if parsed, err := url.Parse(whole); err == nil && parsed.Host != "" {
			return parsed.Scheme + "://" + parsed.Host, parsed.RequestURI()
		}
		return whole, ""
	case k.IsBare:
		return k.BaseURL, end
	case strings.HasPrefix(k.BaseURL, "https://gateway.ai.cloudflare.com") && k.Adapter == "openai":
		return k.BaseURL, end
	case strings.HasPrefix(k.BaseURL, "https://gateway.ai.cloudflare.com") && k.Adapter == "azure":
		return k.BaseURL, "/" + url.PathEscape(cmp.Or(upstream, model)) + end
	}
	return k.BaseURL + k.Below, ""
}
