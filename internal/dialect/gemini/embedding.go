package gemini

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// Embedding asks for the vectors of all inputs at once.
type Embedding struct{}

// Call translates the request: one inner request for each input.
func (Embedding) Call(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if err := dialect.ReserveTranslation(req); err != nil {
		return err
	}
	model := modelOf(req, to)
	shared := object{}
	shared.add("model", dialect.Quote("models/"+model))
	shared.addField("outputDimensionality", req.Field("dimensions"))
	for _, name := range []string{"taskType", "task_type", "title"} {
		shared.addField(lowerCamel(name), req.Field(name))
	}
	body := make([]byte, 0, 2*len(req.Body.Data())+256)
	body = append(body, `{"requests":[`...)
	err := eachInput(req, func(i int, text jsonscan.Value) {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(body, '{'), shared.out...)
		body = append(append(body, `,"content":{"parts":[{"text":`...), text.Raw()...)
		body = append(body, `}]}}`...)
	})
	if err != nil {
		return err
	}
	to.Begin(call, pathOf(to.Path, model, false), "application/json", "application/json")
	call.Body = append(call.Body[:0], append(body, `]}`...))
	return nil
}

// Refuse tells that the backend takes texts only.
func (Embedding) Refuse(req *schema.Request) error {
	return eachInput(req, func(int, jsonscan.Value) {})
}

// eachInput calls do for every text that is to be embedded.
func eachInput(req *schema.Request, do func(i int, text jsonscan.Value)) error {
	input := req.Field("input")
	if input.Kind() == jsonscan.String {
		do(0, input)
		return nil
	}
	i := 0
	for v := input.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		if v.Kind() != jsonscan.String {
			return dialect.RefuseTokenIDs()
		}
		do(i, v)
		i++
	}
	return nil
}

// Reply gives every vector the form that was asked for.
func (Embedding) Reply(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	doc := &reply.Doc
	doc.AllowDuplicateKeys = true
	if err := doc.Parse(answer.Body); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := doc.Root()
	if root.Kind() == jsonscan.Array {
		root = root.First() // errors may come in an array
	}
	if err := dialect.FailureIn(root); err != nil {
		return err
	}
	inputs := 0
	if err := eachInput(req, func(int, jsonscan.Value) { inputs++ }); err != nil {
		return err
	}
	wanted, _ := req.Field("dimensions").Int()
	out := make([]byte, 0, len(answer.Body)+256)
	out = append(out, `{"object":"list","data":[`...)
	index := 0
	for item := root.Get("embeddings").First(); item.Kind() != jsonscan.Absent; item = item.Next() {
		vector := item.Get("values")
		if vector.Kind() != jsonscan.Array || vector.Empty() {
			return fmt.Errorf("%w: an item without a vector", dialect.ErrInvalid)
		}
		converted, err := dialect.ConvertVector(vector, req.Base64, int(wanted))
		if err != nil {
			return err
		}
		if index > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `{"object":"embedding","index":%d,"embedding":`, index)
		if converted != nil {
			out = append(out, converted...)
		} else {
			out = appendDense(out, vector.Raw())
		}
		out = append(out, '}')
		index++
	}
	if index != inputs {
		return dialect.WrongVectors(index, inputs)
	}
	out = append(append(out, `],"model":`...), req.Body.Root().Get("model").Raw()...)
	reply.Usage = embeddingUsage(root.Get("usageMetadata"))
	if reply.Usage.Known {
		out = fmt.Appendf(out, `,"usage":{"prompt_tokens":%d,"total_tokens":%d}`, reply.Usage.Prompt, reply.Usage.Total)
	}
	reply.Segments = append(reply.Segments[:0], append(out, '}'))
	return nil
}

// embeddingUsage reads the report that newer models make.
func embeddingUsage(v jsonscan.Value) schema.Usage {
	var u tokenCounts
	u.read(v)
	return u.Usage
}

// appendDense writes an array of numbers without the spaces and line breaks
// that the backend puts between them.
func appendDense(dst, array []byte) []byte {
	for _, c := range array {
		if c > ' ' {
			dst = append(dst, c)
		}
	}
	return dst
}
