package ollama

import (
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Generate completes texts with Ollama's generate call. As in the API that Ollama
// imitates, the template of the model is around the prompt, unless raw is true.
var Generate = &dialect.Adapter{
	Refuse: refuseGenerate, Call: callGenerate, Reply: replyGenerate, Events: eventsGenerate, Split: dialect.SplitText,
	Decode: decode, DecodeStream: decodeStream,
}

// callGenerate translates a request for the completion of a text.
func callGenerate(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if err := refuseGenerate(req); err != nil {
		return err
	}
	if err := req.ReserveTranslation(); err != nil {
		return err
	}
	body := newRequestWriter(req, to)
	accept := body.stream(req)
	body.top.AddField("suffix", req.Field("suffix"))
	if most, ok := req.Field("logprobs").Int(); ok {
		body.top.Add("logprobs", []byte("true"))
		if most > 0 {
			body.top.Add("top_logprobs", strconv.AppendInt(nil, most, 10))
		}
	}
	if err := body.sampling(req.Settings()); err != nil {
		return err
	}
	if err := body.extensions(req.Settings(), placeOfGenerated); err != nil {
		return err
	}
	to.Begin(call, to.Path, "application/json", accept)
	call.Body = body.body(call.Body[:0], "prompt", promptOf(req).Raw())
	return nil
}

// placeOfGenerated returns the destination of a field that is not translated.
func placeOfGenerated(name string) place {
	switch name {
	case "keep_alive", "think", "format", "truncate", "shift", "raw", "system", "template", "images":
		return atTopLevel
	case "prompt", "suffix", "best_of", "echo", "logit_bias", "repeat_penalty", "repetition_penalty", "store",
		"metadata", "service_tier":
		return notPassedOn
	}
	return amongOptions
}

// refuseGenerate returns an error for fields that the dialect cannot express.
func refuseGenerate(req *schema.Request) error {
	prompt := req.Field("prompt")
	if prompt.Kind() == jsonscan.Array {
		switch {
		case prompt.First().Kind() != jsonscan.String:
			return schema.BadField("prompt", "value.text_not_ids")
		case req.Prompts() > 1:
			return schema.BadField("prompt", "value.one_text")
		}
	}
	if len(chat.TextOf(promptOf(req))) == 0 {
		// Ollama takes it for a wish to load the model.
		return schema.BadField("prompt", "value.not_empty_here")
	}
	for _, name := range []string{"n", "best_of"} {
		if v := req.Field(name); v.Given() {
			if n, ok := v.Int(); !ok || n != 1 {
				return schema.BadField(name, "value.one_answer")
			}
		}
	}
	if v := req.Field("logit_bias"); v.Given() && !v.Empty() {
		return schema.BadField("logit_bias", "value.unsupported")
	}
	if echoes(req) && req.Field("logprobs").Given() {
		return schema.BadField("echo", "value.echo")
	}
	return nil
}

// promptOf returns the one prompt of a request.
func promptOf(req *schema.Request) jsonscan.Value {
	prompt := req.Field("prompt")
	if prompt.Kind() == jsonscan.Array {
		return prompt.First()
	}
	return prompt
}

// echoes reports whether the completion is to begin with the prompt. Ollama does not
// repeat it, and so the gateway puts it there.
func echoes(req *schema.Request) bool { return req.Field("echo").Kind() == jsonscan.True }
