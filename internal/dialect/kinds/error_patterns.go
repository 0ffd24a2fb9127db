package kinds

import "github.com/patchbay-ai/patchbay/internal/dialect"

// The error texts of servers, taken from their sources and from recordings. A request
// that gets one of Faults gets it on every attempt.
var (
	// llama.cpp answers 500 for every exception that is not of one certain type.
	llamaErrors = dialect.ErrorPatterns{
		Faults: []string{
			"is too large to process. increase the physical batch size",
			"context shift is disabled",
			"failed to download image",
			"cannot make get request",
			"invalid url",
			"unsupported url scheme",
			"https is not supported",
			"failed to load image or audio file",
			"invalid base64 value",
			"input is not supported - hint:",
			"does not support multimodal requests",
			"failed to parse messages:",
			"failed to parse tools:",
			"failed to parse tool call arguments as json",
			"param requires --jinja flag",
			"cannot use both json_schema and grammar",
			"cannot specify grammar with tools",
			`"json_schema": `,
			"unsupported param:",
			"jinja exception:",
			"[json.exception.",
			"vector::_m_range_check", // the number of a token that there is not
			"infill is not supported by this model",
		},
	}
	whisperErrors = dialect.ErrorPatterns{
		Faults: []string{
			"ffmpeg conversion failed",
			"failed to read audio data",
			"failed to read wav file",
		},
	}
	localAIErrors = dialect.ErrorPatterns{
		Faults: []string{
			"invalid response_format",
			"http: no such file",
		},
	}
	vllmErrors = dialect.ErrorPatterns{
		Deaths: []string{
			"enginecore encountered an issue",
			"enginedeaderror",
		},
	}
	ollamaErrors = dialect.ErrorPatterns{
		Faults: []string{
			`" must be of type `,
			"failed to process inputs:",
			"input length exceeds",
			"invalid json schema in format",
			"invalid format:",
		},
		Overloads: []string{
			"server busy",
		},
	}
)
