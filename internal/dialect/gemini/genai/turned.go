package genai

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/accountids"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ReadCountRequest reads a request of countTokens. Such requests are no use of a model.
func ReadCountRequest(req *schema.Request, body []byte) error {
	if err := parse(req, schema.DoorGeminiCount, body, CountFields); err != nil {
		return err
	}
	req.Uncounted = true
	req.Decode = func(req *schema.Request, room chat.Room) (*chat.Request, error) {
		root := req.Body.Root()
		if inner := member(root, "generateContentRequest", "generate_content_request"); inner.Given() {
			var doc jsonscan.Document
			root = doc.Rescan(inner)
		}
		return readFrom(root, room)
	}
	return nil
}

// CountBody returns the reply to a request for the number of tokens. The API has no mark for
// a count that is estimated.
func CountBody(n int64, _ bool) []byte { return dialect.WriteCount(`{"totalTokens":`, n, false) }

// Tokenize asks a backend that splits chats into tokens, as vLLM does.
var Tokenize = dialect.Counts(accountids.None, dialect.CallTokenize, "count", CountBody)

// ReadEmbed reads a request of embedContent.
func ReadEmbed(req *schema.Request, body []byte) error {
	if err := parse(req, schema.DoorGeminiEmbed, body, EmbedFields); err != nil {
		return err
	}
	if !req.Body.Root().Get("content").Given() {
		return schema.MissingParameter("content")
	}
	return nil
}

// ReadBatchEmbed reads a request of batchEmbedContents.
func ReadBatchEmbed(req *schema.Request, body []byte) error {
	if err := parse(req, schema.DoorGeminiBatchEmbed, body, BatchFields); err != nil {
		return err
	}
	if requests := req.Body.Root().Get("requests"); requests.Kind() != jsonscan.Array || requests.Empty() {
		return schema.BadField("requests", "value.requests")
	}
	return nil
}

// EmbedClient turns requests for embeddings into requests of the unified API.
var EmbedClient = &dialect.Client{Turn: &dialect.Turn{Door: schema.DoorEmbeddings, Request: unifiedEmbedding,
	Reply: replyEmbedding}}

// unifiedEmbedding makes the request of the unified API. The purpose of the vectors is a
// hint that other backends do not take.
func unifiedEmbedding(req *schema.Request) (*schema.Request, error) {
	root := req.Body.Root()
	doc := jsonscan.Document{Deep: true}
	var size jsonscan.Value
	var w jsonwrite.Writer
	w.Object()
	w.Member("model", req.ModelJSON())
	w.Name("input").Array()
	add := func(one jsonscan.Value) *schema.Error {
		text, err := textOf(one.Get("content"))
		if err != nil {
			return err
		}
		w.Escaped(text)
		if wanted := member(one, "outputDimensionality", "output_dimensionality"); wanted.Given() {
			size = wanted
		}
		return nil
	}
	if req.Door == schema.DoorGeminiEmbed {
		if err := add(doc.Rescan(root)); err != nil {
			return nil, err
		}
	} else {
		for one := range doc.Rescan(root.Get("requests")).All() {
			if err := add(one); err != nil {
				return nil, err
			}
		}
	}
	w.EndArray()
	w.Field("dimensions", size)
	w.EndObject()
	turned := new(schema.Request)
	return turned, turned.ParseEmbedding(w.Out)
}

// textOf returns the text of a content that is to be embedded.
func textOf(content jsonscan.Value) (text chat.Text, err *schema.Error) {
	for p := range content.Get("parts").All() {
		piece := chat.TextIn(p, "text")
		if piece == nil {
			return nil, schema.BadField("content", "value.texts_only")
		}
		text = chat.JoinApart(text, piece)
	}
	if len(text) == 0 {
		return nil, schema.BadField("content", "value.has_text")
	}
	return text, nil
}

// replyEmbedding writes vectors.
func replyEmbedding(req *schema.Request, answer []byte, reply *dialect.Reply) error {
	var doc jsonscan.Document
	if _, err := dialect.Parse(&doc, answer); err != nil {
		return err
	}
	w := jsonwrite.Writer{Out: make([]byte, 0, len(answer)+256)}
	value := func(item jsonscan.Value) {
		w.Open(`{"values":`).Raw(item.Get("embedding").Raw())
		w.EndObject()
	}
	first := doc.Root().Get("data").First()
	if req.Door == schema.DoorGeminiEmbed {
		w.Open(`{"embedding":`)
		value(first)
	} else {
		w.Open(`{"embeddings":[`)
		for ; first.Kind() != jsonscan.Absent; first = first.Next() {
			value(first)
		}
		w.EndArray()
	}
	w.EndObject()
	reply.Set(w.Out)
	return nil
}
