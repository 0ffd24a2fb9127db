package services

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Channel is the service behind a channel of some type.
type Channel struct {
	// Provider names the provider that the rest comes from, if it is known.
	Provider string
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
	1:  {Provider: "openai"},
	3:  {Provider: "azure"},
	6:  {Adapter: "openai", BaseURL: "https://api.openaimax.com", Variable: "OPENAIMAX_API_KEY"},
	7:  {Adapter: "openai", BaseURL: "https://api.ohmygpt.com", Variable: "OHMYGPT_API_KEY"},
	9:  {Adapter: "openai", BaseURL: "https://api.caipacity.com", Variable: "AILS_API_KEY"},
	10: {Adapter: "openai", BaseURL: "https://api.aiproxy.io", Variable: "AIPROXY_API_KEY"},
	12: {Adapter: "openai", BaseURL: "https://api.api2gpt.com", Variable: "API2GPT_API_KEY"},
	13: {Adapter: "openai", BaseURL: "https://api.aigc2d.com", Variable: "AIGC2D_API_KEY"},
	14: {Provider: "anthropic"},
	16: {Provider: "zhipu", Below: "/api/paas/v4"},
	17: {Provider: "dashscope", Below: "/compatible-mode"},
	20: {Provider: "openrouter"},
	22: {Adapter: "openai", BaseURL: "https://fastgpt.run/api/openapi", Variable: "FASTGPT_API_KEY"},
	24: {Provider: "gemini"},
	25: {Provider: "moonshot-cn"},
	31: {Provider: "lingyiwanwu"},
}

var oneAPIKinds = map[int]Channel{
	2:  {Adapter: "openai", BaseURL: "https://oa.api2d.net", Variable: "API2D_API_KEY"},
	4:  {Adapter: "openai", BaseURL: "https://api.closeai-proxy.xyz", Variable: "CLOSEAI_API_KEY"},
	5:  {Adapter: "openai", BaseURL: "https://api.openai-sb.com", Variable: "OPENAI_SB_API_KEY"},
	8:  {Adapter: "openai", Variable: "CUSTOM_API_KEY"},
	19: {Adapter: "openai", BaseURL: "https://ai.360.cn", Variable: "AI360_API_KEY"},
	26: {Provider: "baichuan"},
	28: {Provider: "mistral"},
	29: {Provider: "groq"},
	30: {Provider: "ollama"},
	32: {Provider: "stepfun"},
	36: {Provider: "deepseek"},
	39: {Provider: "together"},
	40: {Provider: "volcengine", Below: "/api/v3"},
	41: {Adapter: "openai", BaseURL: "https://api.novita.ai/v3/openai", Variable: "NOVITA_API_KEY", IsBare: true},
	44: {Provider: "siliconflow"},
	45: {Provider: "xai"},
	47: {Provider: "qianfan", Below: "/v2"},
	48: {Provider: "spark"},
	49: {Provider: "dashscope", Below: "/compatible-mode"},
	50: {Adapter: "openai", Variable: "COMPATIBLE_API_KEY", IsBare: true},
	51: {Adapter: "openai", BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai",
		Variable: "GEMINI_API_KEY", IsBare: true},
}

var newAPIKinds = map[int]Channel{
	4:  {Provider: "ollama"},
	8:  {Adapter: "openai", Variable: "CUSTOM_API_KEY", IsWhole: true},
	19: {Adapter: "openai", BaseURL: "https://api.360.cn", Variable: "AI360_API_KEY"},
	26: {Provider: "zhipu", Below: "/api/paas/v4"},
	27: {Provider: "perplexity"},
	34: {Adapter: "cohere", BaseURL: "https://api.cohere.ai", Variable: "COHERE_API_KEY"},
	38: {Provider: "jina"},
	40: {Provider: "siliconflow"},
	42: {Provider: "mistral"},
	43: {Provider: "deepseek"},
	45: {Provider: "volcengine", Below: "/api/v3"},
	46: {Provider: "qianfan", Below: "/v2"},
	47: {Adapter: "xinference", Variable: "XINFERENCE_API_KEY"},
	48: {Provider: "xai"},
	53: {Adapter: "openai", BaseURL: "https://llm.submodel.ai", Variable: "SUBMODEL_API_KEY"},
	60: {Adapter: "openai", Variable: "NEW_API_KEY"},
}

// anew are types of channels whose keys a provider does not take: the provider has an API of OpenAI's
// shape with keys of its own.
var anew = map[int]string{15: "qianfan", 18: "spark", 23: "hunyuan"}

// Instead returns the provider that serves what a type of channels served, with a key of its own;
// empty if there is none.
func Instead(number int) string { return anew[number] }

// FindChannel returns the meaning of a type of channels of one-api, or of new-api.
func FindChannel(number int, isNewAPI bool) (Channel, bool) {
	own := oneAPIKinds
	if isNewAPI {
		own = newAPIKinds
	}
	kind, found := own[number]
	if !found {
		kind, found = sharedKinds[number]
	}
	if p, known := providers.Find(kind.Provider); known {
		kind.Adapter, kind.BaseURL, kind.IsBare = p.Adapter, strings.TrimSuffix(p.BaseURL, kind.Below), p.Path != ""
		kind.Variable = cmp.Or(p.Variable, strings.ToUpper(p.Name)+"_API_KEY")
	}
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
