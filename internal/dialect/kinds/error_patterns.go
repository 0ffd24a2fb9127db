package kinds

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/dialect"
)

// The error texts of servers, taken from their sources and from recordings. A request
// that gets one with RequestFault gets it on every attempt.
var (
	// llama.cpp answers 500 for every exception that is not of one certain type.
	llamaErrors = []dialect.ErrorPattern{
		{Text: "is too large to process. increase the physical batch size", Means: dialect.RequestFault},
		{Text: "context shift is disabled", Means: dialect.RequestFault},
		{Text: "failed to download image", Means: dialect.RequestFault},
		{Text: "cannot make get request", Means: dialect.RequestFault},
		{Text: "invalid url", Means: dialect.RequestFault},
		{Text: "unsupported url scheme", Means: dialect.RequestFault},
		{Text: "https is not supported", Means: dialect.RequestFault},
		{Text: "failed to load image or audio file", Means: dialect.RequestFault},
		{Text: "invalid base64 value", Means: dialect.RequestFault},
		{Text: "input is not supported - hint:", Means: dialect.RequestFault},
		{Text: "does not support multimodal requests", Means: dialect.RequestFault},
		{Text: "failed to parse messages:", Means: dialect.RequestFault},
		{Text: "failed to parse tools:", Means: dialect.RequestFault},
		{Text: "failed to parse tool call arguments as json", Means: dialect.RequestFault},
		{Text: "param requires --jinja flag", Means: dialect.RequestFault},
		{Text: "cannot use both json_schema and grammar", Means: dialect.RequestFault},
		{Text: "cannot specify grammar with tools", Means: dialect.RequestFault},
		{Text: `"json_schema": `, Means: dialect.RequestFault},
		{Text: "unsupported param:", Means: dialect.RequestFault},
		{Text: "jinja exception:", Means: dialect.RequestFault},
		{Text: "[json.exception.", Means: dialect.RequestFault},
		{Text: "vector::_m_range_check", Means: dialect.RequestFault}, // the number of a token that there is not
		{Text: "infill is not supported by this model", Means: dialect.RequestFault},
	}
	whisperErrors = []dialect.ErrorPattern{
		{Text: "ffmpeg conversion failed", Means: dialect.RequestFault},
		{Text: "failed to read audio data", Means: dialect.RequestFault},
		{Text: "failed to read wav file", Means: dialect.RequestFault},
	}
	localAIErrors = []dialect.ErrorPattern{
		{Text: "invalid response_format", Means: dialect.RequestFault},
		{Text: "http: no such file", Means: dialect.RequestFault},
	}
	vllmErrors = []dialect.ErrorPattern{
		{Text: "enginecore encountered an issue", Means: dialect.EngineDeath},
		{Text: "enginedeaderror", Means: dialect.EngineDeath},
	}
	ollamaErrors = []dialect.ErrorPattern{
		{Status: http.StatusServiceUnavailable, Text: "server busy", Means: dialect.Overload},
		{Text: `" must be of type `, Means: dialect.RequestFault},
		{Text: "failed to process inputs:", Means: dialect.RequestFault},
		{Text: "input length exceeds", Means: dialect.RequestFault},
		{Text: "invalid json schema in format", Means: dialect.RequestFault},
		{Text: "invalid format:", Means: dialect.RequestFault},
	}
)
