// Package anthropic translates chat requests and answers into and out of the
// dialect of Anthropic's Messages API.
package anthropic

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Chat speaks the Messages API.
var Chat = &dialect.Adapter{Refuse: refuseChat, Account: accountids.Anthropic, Call: callChat,
	Continues: dialect.Always, Decode: Decode, DecodeStream: DecodeStream}

// callChat translates the request.
func callChat(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if err := refuseChat(req); err != nil {
		return err
	}
	asked, err := req.Chat()
	if err != nil {
		return err
	}
	w := requestWriter{Request: asked, isAdaptive: isAdaptive([]byte(to.ModelFor(req)))}
	w.Begin(make([]byte, 0, len(req.Body.Data())+256), nil)
	w.Object()
	w.Member("model", to.ModelNameJSON(req))
	if err := w.write(); err != nil {
		return err
	}
	if req.Stream {
		w.Literal(`"stream":true`)
	}
	w.EndObject()
	to.Begin(call, to.Path, "application/json", dialect.Accept(req))
	call.Body = append(call.Body[:0], w.Out)
	return nil
}

// refuseChat returns an error for fields that the dialect cannot express if leaving
// them out would change the answer.
func refuseChat(req *schema.Request) error {
	s := req.Settings()
	if n, ok := s.N.Int(); ok && n > 1 {
		return schema.BadField("n", "value.one_answer_here")
	}
	for _, name := range []string{"functions", "audio", "moderation", "web_search_options"} {
		if s.Other(name).Given() {
			return schema.BadField(name, "value.unsupported_here")
		}
	}
	switch s.Effort {
	case "", "none", "minimal", "low", "medium", "high", "xhigh", "max":
	default:
		return schema.BadField("reasoning_effort",
			"field.one_of", "known", "none, minimal, low, medium, high, xhigh")
	}
	if s.Format.Given {
		switch s.Format.Type {
		case "text", "json_object", "json_schema":
		default:
			return schema.BadField("response_format.type",
				"field.one_of", "known", "text, json_object, json_schema")
		}
	}
	return nil
}
