package gemini

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/vectors"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Embedding asks for the vectors of all inputs at once.
var Embedding = &dialect.Adapter{Refuse: refuseEmbedding, Call: callEmbedding, Reply: replyEmbedding}

// callEmbedding translates the request: one inner request for each input.
func callEmbedding(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if err := req.ReserveTranslation(); err != nil {
		return err
	}
	model := ModelOf(req, to)
	var shared jsonwrite.Members
	shared.Add("model", jsonwrite.AppendText(nil, "models/"+model))
	shared.AddField("outputDimensionality", req.Field("dimensions"))
	for _, name := range []string{"taskType", "task_type", "title"} {
		shared.AddField(lowerCamel(name), req.Field(name))
	}
	body := jsonwrite.Writer{Out: make([]byte, 0, 2*len(req.Body.Data())+256)}
	body.Open(`{"requests":[`)
	err := eachInput(req, func(text jsonscan.Value) {
		body.Object()
		body.Raw(shared.Raw())
		body.Open(`"content":{"parts":[{`)
		body.Member("text", text.Raw())
		body.Close(`}]}}`)
	})
	if err != nil {
		return err
	}
	to.Begin(call, PathOf(to.Path, model, false), "application/json", "application/json")
	body.Close("]}")
	call.Body = append(call.Body[:0], body.Out)
	return nil
}

// refuseEmbedding tells that the backend takes texts only.
func refuseEmbedding(req *schema.Request) error {
	return eachInput(req, func(jsonscan.Value) {})
}

// eachInput calls do for every text that is to be embedded.
func eachInput(req *schema.Request, do func(text jsonscan.Value)) error {
	input := req.Field("input")
	if input.Kind() == jsonscan.String {
		do(input)
		return nil
	}
	for v := range input.All() {
		if v.Kind() != jsonscan.String {
			return dialect.RefuseTokenIDs()
		}
		do(v)
	}
	return nil
}

// replyEmbedding gives every vector the form that was asked for.
func replyEmbedding(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	doc := &reply.Doc
	root, err := dialect.Parse(doc, answer.Body)
	if err != nil {
		return err
	}
	if root.Kind() == jsonscan.Array {
		root = root.First() // errors may come in an array
	}
	if err := dialect.FailureIn(root); err != nil {
		return err
	}
	inputs := 0
	if err := eachInput(req, func(jsonscan.Value) { inputs++ }); err != nil {
		return err
	}
	var found []jsonscan.Value
	for item := range root.Get("embeddings").All() {
		vector := item.Get("values")
		if vector.Kind() != jsonscan.Array || vector.Empty() {
			return dialect.Invalid("an item without a vector")
		}
		found = append(found, vector)
	}
	reply.Usage = ReadUsage(root.Get("usageMetadata")).Tokens
	return vectors.Reply(req, reply, slices.Values(found), inputs)
}
