// Package gemini translates chat and embedding requests and answers into and out
// of the dialect of Google's Gemini API.
package gemini

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Chat speaks Google's generateContent dialect.
var Chat = &dialect.Adapter{Refuse: refuseChat, Account: accountids.Gemini, Call: callChat, Continues: dialect.Always,
	Decode: decode, DecodeStream: decodeStream}

// callChat translates the request. The model and whether the answer streams are in
// the address, everything else is in the body.
func callChat(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	model := ModelOf(req, to)
	body, err := writeBody(req, model)
	if err != nil {
		return err
	}
	to.Begin(call, PathOf(to.Path, model, req.Stream), "application/json", dialect.Accept(req))
	call.Body = append(call.Body[:0], body)
	return nil
}

// ModelOf returns the backend's name for the model, without the word that
// the backend's own lists put before it.
func ModelOf(req *schema.Request, to *dialect.Target) string {
	return strings.TrimPrefix(to.ModelFor(req), "models/")
}

// PathOf fills the model into a path and chooses the method that streams or
// the one that does not. Without alt=sse a stream would be one JSON array.
func PathOf(path, model string, stream bool) string {
	if tuned, ok := strings.CutPrefix(model, "tunedModels/"); ok {
		path = strings.Replace(path, "models/{model}", "tunedModels/{model}", 1)
		model = tuned
	}
	path = strings.Replace(path, "{model}", url.PathEscape(model), 1)
	if !stream {
		return strings.Replace(path, ":streamGenerateContent", ":generateContent", 1)
	}
	path = strings.Replace(path, ":generateContent", ":streamGenerateContent", 1)
	if strings.Contains(path, "alt=sse") {
		return path
	}
	if strings.Contains(path, "?") {
		return path + "&alt=sse"
	}
	return path + "?alt=sse"
}

// newestGeneration is the generation of names without a number.
const newestGeneration = 1000

// generationOf tells the generation of a model by its name, 25 for 2.5. A
// Gemini model without a number is one of the names that move on to the newest.
func generationOf(model string) int {
	rest, ok := strings.CutPrefix(model, "gemini-")
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, "-")
	version, err := strconv.ParseFloat(number, 64)
	if err != nil || version < 1 || version > 99 {
		return newestGeneration
	}
	return int(version * 10)
}

// refuseChat returns an error for fields that the dialect cannot express if leaving
// them out would change the answer.
func refuseChat(req *schema.Request) error {
	s := req.Settings()
	if s.Other("functions").Given() {
		return schema.BadField("functions", "value.unsent_functions")
	}
	for _, name := range []string{"logit_bias", "moderation"} {
		if v := s.Other(name); v.Given() && !v.Empty() {
			return schema.BadField(name, "value.unsent")
		}
	}
	if s.Format.Given {
		switch s.Format.Type {
		case "text", "json_object", "json_schema":
		default:
			return schema.InvalidValue("response_format",
				say.New("call.field", "field", "response_format.type", "why",
					say.New("value.or_here", "known", "text, json_object", "last", "json_schema")))
		}
	}
	switch s.Effort {
	case "", "none", "minimal", "low", "medium", "high", "xhigh", "max":
	default:
		return schema.BadField("reasoning_effort",
			"value.or", "known", "none, minimal, low, medium", "last", "high")
	}
	if n, ok := s.N.Int(); s.N.Given() && (!ok || n < 1) {
		return schema.BadField("n", "value.positive")
	}
	if n, ok := s.Seed.Int(); s.Seed.Given() && (!ok || n < math.MinInt32 || n > math.MaxInt32) {
		return schema.BadField("seed", "value.integer_32")
	}
	return nil
}
