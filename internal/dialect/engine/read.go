// Package engine speaks the endpoints of inference engines beside the APIs of others: the
// tokens of a text, scores, classes and pooled vectors as vLLM has them, and llama.cpp's
// infill between two texts.
package engine

import (
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ReadTokenize reads a request for the tokens of a text or of messages. Such requests are no
// use of a model.
func ReadTokenize(req *schema.Request, body []byte) error {
	if err := req.ParseBody(schema.DoorTokenize, body, TokenizeFields); err != nil {
		return err
	}
	req.Uncounted = true
	root := req.Body.Root()
	prompt, messages := root.Get("prompt"), root.Get("messages")
	switch {
	case prompt.Given() && prompt.Kind() != jsonscan.String:
		return schema.BadField("prompt", "value.string")
	case messages.Given() && messages.Kind() != jsonscan.Array:
		return schema.BadField("messages", "value.array")
	case prompt.Given(), messages.Given():
		return nil
	}
	err := schema.MissingParameter("prompt")
	if root.Get("content").Given() {
		err.Hint("hint.wants_prompt")
	}
	return err
}

// ReadDetokenize reads a request for the text of tokens, which is no use of a model either.
func ReadDetokenize(req *schema.Request, body []byte) error {
	if err := req.ParseBody(schema.DoorDetokenize, body, DetokenizeFields); err != nil {
		return err
	}
	req.Uncounted = true
	tokens := req.Body.Root().Get("tokens")
	if !tokens.Given() {
		return schema.MissingParameter("tokens")
	}
	if tokens.Kind() != jsonscan.Array {
		return schema.BadField("tokens", "value.whole_numbers")
	}
	for token := range tokens.All() {
		if _, isWhole := token.Int(); !isWhole {
			return schema.BadField("tokens", "value.whole_numbers")
		}
	}
	return nil
}

// ReadScore reads a request for how well texts go together. vLLM takes the two sides under
// several names.
func ReadScore(req *schema.Request, body []byte) error {
	if err := req.ParseBody(schema.DoorScore, body, ScoreFields); err != nil {
		return err
	}
	root := req.Body.Root()
	for _, pair := range [...][2]string{{"text_1", "text_2"}, {"queries", "documents"}, {"queries", "items"},
		{"data_1", "data_2"}} {
		if root.Get(pair[0]).Given() && root.Get(pair[1]).Given() {
			return readUser(req)
		}
	}
	if root.Get("text_1").Given() {
		return schema.MissingParameter("text_2")
	}
	return schema.MissingParameter("text_1")
}

// ReadClassify reads a request for the classes of texts.
func ReadClassify(req *schema.Request, body []byte) error {
	return readInput(req, schema.DoorClassify, body)
}

// ReadPooling reads a request for a model's raw vectors of texts, before anything is made of
// them.
func ReadPooling(req *schema.Request, body []byte) error {
	return readInput(req, schema.DoorPooling, body)
}

func readInput(req *schema.Request, door schema.Door, body []byte) error {
	if err := req.ParseBody(door, body, InputFields); err != nil {
		return err
	}
	if root := req.Body.Root(); !root.Get("input").Given() && !root.Get("messages").Given() {
		return schema.MissingParameter("input")
	}
	return readUser(req)
}

// ReadInfill reads a request for the text between two others.
func ReadInfill(req *schema.Request, body []byte) error {
	if err := req.ParseBody(schema.DoorInfill, body, InfillFields); err != nil {
		return err
	}
	root := req.Body.Root()
	for _, name := range [...]string{"input_prefix", "input_suffix"} {
		if !root.Get(name).Given() {
			return schema.MissingParameter(name)
		}
		if err := schema.CheckText(name, root.Get(name)); err != nil {
			return err
		}
	}
	stream, err := schema.CheckBoolean("stream", root.Get("stream"))
	if err != nil {
		return err
	}
	req.Stream, req.IncludeUsage = stream, stream
	return readUser(req)
}

// readUser reads the user that a request is counted for.
func readUser(req *schema.Request) error { return req.ReadUser("user", req.Body.Root().Get("user")) }
