package ollama

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ReadEmbed reads a request of /api/embed.
func ReadEmbed(req *schema.Request, body []byte) error {
	return readEmbedding(req, schema.DoorOllamaEmbed, body, EmbedFields, "input")
}

// ReadEmbeddings reads a request of /api/embeddings, which has one text.
func ReadEmbeddings(req *schema.Request, body []byte) error {
	return readEmbedding(req, schema.DoorOllamaEmbeddings, body, EmbeddingsFields, "prompt")
}

func readEmbedding(req *schema.Request, door schema.Door, body []byte, fields *schema.Fields, name string) error {
	req.Came = time.Now()
	if err := req.ParseBody(door, body, fields); err != nil {
		return err
	}
	input := req.Body.Root().Get(name)
	switch {
	case !input.Given():
		return schema.MissingParameter(name)
	case input.Kind() == jsonscan.String:
	case input.Kind() != jsonscan.Array || name == "prompt":
		return schema.BadField(name, "value.text_or_texts")
	}
	return nil
}

// EmbedClient turns requests for embeddings into requests of the unified API.
var EmbedClient = &dialect.Client{Turn: &dialect.Turn{Door: schema.DoorEmbeddings, Request: unifiedEmbedding,
	Reply: replyEmbed}}

// unifiedEmbedding makes the request of the unified API.
func unifiedEmbedding(req *schema.Request) (*schema.Request, error) {
	root := req.Body.Root()
	input := root.Get("input")
	if req.Door == schema.DoorOllamaEmbeddings {
		input = root.Get("prompt")
	}
	var w jsonwrite.Writer
	w.Object()
	w.Member("model", req.ModelJSON())
	w.Member("input", input.Raw())
	w.Field("dimensions", root.Get("dimensions"))
	w.EndObject()
	turned := new(schema.Request)
	return turned, turned.ParseEmbedding(w.Out)
}

// replyEmbed writes vectors.
func replyEmbed(req *schema.Request, answer []byte, reply *dialect.Reply) error {
	var doc jsonscan.Document
	if _, err := dialect.Parse(&doc, answer); err != nil {
		return err
	}
	w := jsonwrite.Writer{Out: make([]byte, 0, len(answer)+256)}
	data := doc.Root().Get("data").First()
	if req.Door == schema.DoorOllamaEmbeddings {
		w.Open(`{"embedding":`).Raw(data.Get("embedding").Raw())
		w.EndObject()
		reply.Set(w.Out)
		return nil
	}
	w.Object()
	w.Member("model", req.ModelJSON())
	w.Name("embeddings").Array()
	for ; data.Kind() != jsonscan.Absent; data = data.Next() {
		w.Raw(data.Get("embedding").Raw())
	}
	w.EndArray()
	w.Name("total_duration").Int(int64(max(time.Since(req.Came), 1)))
	if reply.Usage.Known {
		w.Name("prompt_eval_count").Int(reply.Usage.Prompt)
	}
	w.EndObject()
	reply.Set(w.Out)
	return nil
}

// GenerateClient returns how the callers of /api/generate are translated for. A prompt
// without a template around it, or with a suffix, is no chat but a text to complete.
func GenerateClient(req *schema.Request) *dialect.Client {
	root := req.Body.Root()
	if root.IsTrue("raw") || len(chat.TextIn(root, "suffix")) > 0 {
		return rawClient
	}
	return Client
}

var rawClient = &dialect.Client{
	Frame: &dialect.Stream{Filler: []byte(" "), Failure: failureLine},
	Turn:  &dialect.Turn{Door: schema.DoorCompletions, Request: textCompletion, Client: Client},
}

// textCompletion makes the request for the completion of a text.
func textCompletion(req *schema.Request) (*schema.Request, error) {
	r := newReader(req, chat.Room{Reserve: req.Body.Reserve})
	if err := r.readOptions(); err != nil {
		return nil, err
	}
	root := req.Body.Root()
	if format := root.Get("format"); format.Given() && !format.Empty() && len(format.Raw()) > len(`""`) {
		return nil, schema.BadField("format", "value.raw_format")
	}
	var w jsonwrite.Writer
	w.Object()
	w.Member("model", req.ModelJSON())
	if prompt := root.Get("prompt"); prompt.Given() {
		w.Member("prompt", prompt.Raw())
	} else {
		w.Literal(`"prompt":""`)
	}
	if len(chat.TextIn(root, "suffix")) > 0 {
		w.Field("suffix", root.Get("suffix"))
	}
	for _, f := range []struct {
		name  string
		value jsonscan.Value
	}{
		{"max_tokens", r.MaxTokens}, {"temperature", r.Temperature}, {"top_p", r.TopP}, {"seed", r.Seed},
		{"stop", r.Stop},
		{"presence_penalty", r.PresencePenalty}, {"frequency_penalty", r.FrequencyPenalty},
	} {
		w.Field(f.name, f.value)
	}
	if req.Stream {
		w.Literal(`"stream":true,"stream_options":{"include_usage":true}`)
	}
	w.EndObject()
	turned := new(schema.Request)
	return turned, turned.ParseCompletion(w.Out)
}

// Loaded returns the reply to a request that asks for no answer, and whether it asks for the
// model to leave the memory.
func Loaded(req *schema.Request) (reply []byte, isUnload bool) {
	l := newLineWriter(req)
	l.begin()
	l.say(nil, nil, nil)
	l.Literal(`"done":true`)
	l.Name("done_reason")
	keep := req.Body.Root().Get("keep_alive")
	n, isNumber := keep.Float()
	if span, err := time.ParseDuration(string(keep.Text())); isNumber && n == 0 || err == nil && span == 0 {
		isUnload = true
		l.Plain("unload")
	} else {
		l.Plain("load")
	}
	l.EndObject()
	return l.Out, isUnload
}
