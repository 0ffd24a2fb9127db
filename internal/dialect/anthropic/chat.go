// Package anthropic translates chat requests and answers into and out of the
// dialect of Anthropic's Messages API.
package anthropic

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// Chat speaks the Messages API.
var Chat = &dialect.Adapter{Refuse: refuseChat, Call: callChat, Decode: Decode, DecodeStream: decodeStream}

// callChat translates the request.
func callChat(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	accept := "application/json"
	if req.Stream {
		accept = "text/event-stream"
	}
	w := requestWriter{req: req, model: readModel(req.Model)}
	model := req.Body.Root().Get("model").Raw()
	if to.ModelJSON != nil {
		model = to.ModelJSON
		w.model = readModel([]byte(to.Model))
	}
	if err := dialect.ReserveTranslation(req); err != nil {
		return err
	}
	w.Begin(make([]byte, 0, len(req.Body.Data())+256), nil)
	w.Object()
	w.Member("model", model)
	if err := w.write(); err != nil {
		return err
	}
	w.EndObject()
	to.Begin(call, to.Path, "application/json", accept)
	call.Body = append(call.Body[:0], w.Out)
	return nil
}

// refuseChat returns an error for fields that the dialect cannot express and whose
// omission would change the answer.
func refuseChat(req *schema.Request) error {
	if n, ok := req.Field("n").Int(); ok && n > 1 {
		return schema.InvalidValue("n", "'n' must be 1: this backend gives one answer.")
	}
	for _, name := range []string{"functions", "audio", "moderation", "web_search_options"} {
		if req.Field(name).Given() {
			return schema.InvalidValue(name, "'"+name+"' is not supported by this backend.")
		}
	}
	w := requestWriter{req: req}
	if _, err := w.effort(); err != nil {
		return err
	}
	if format := req.Field("response_format"); format.Given() {
		switch string(format.Get("type").Text()) {
		case "text", "json_object", "json_schema":
		default:
			return schema.InvalidValue("response_format.type", "'response_format.type' must be one of text, json_object, json_schema.")
		}
	}
	return nil
}
