package ollama

import (
	"fmt"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// Embedding speaks Ollama's own embeddings dialect, which takes many texts
// at once.
type Embedding struct{}

// Call translates an embeddings request.
func (Embedding) Call(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if err := (Embedding{}).Refuse(req); err != nil {
		return err
	}
	body := newRequestWriter(req, to)
	if v := req.Field("dimensions"); v.Given() {
		body.top.put("dimensions", v.Raw())
	}
	err := body.extensions(req, func(name string) place {
		switch name {
		case "keep_alive", "truncate":
			return atTopLevel
		case "model", "input", "encoding_format", "dimensions", "user", "extra_body":
			return notPassedOn
		}
		return amongOptions
	})
	if err != nil {
		return err
	}
	body.send(to, call, "application/json")
	call.Body = append(call.Body[:0], append(body.text(), `,"input":`...), req.Field("input").Raw(), bodyEnd)
	return nil
}

// Refuse tells that the backend takes texts only, and none that is empty.
func (Embedding) Refuse(req *schema.Request) error {
	input := req.Field("input")
	switch {
	case input.Kind() == jsonscan.String:
		if len(input.Text()) == 0 {
			// Ollama takes it for a wish to load the model and gives no vector.
			return schema.InvalidValue("input", "'input' must not be empty.")
		}
	case input.First().Kind() != jsonscan.String:
		return dialect.RefuseTokenIDs()
	}
	return nil
}

// Reply gives every vector the form that was asked for.
func (Embedding) Reply(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := readVectors(&reply.Doc, answer.Body)
	if err != nil {
		return err
	}
	vectors := root.Get("embeddings")
	wanted, _ := req.Field("dimensions").Int()
	segments := append(reply.Segments[:0], []byte(`{"object":"list","data":[`))
	count := 0
	for v := vectors.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		vector, err := dialect.ConvertVector(v, req.Base64, int(wanted))
		if err != nil {
			return err
		}
		if vector == nil {
			vector = v.Raw()
		}
		segments = append(segments, itemHead(count), vector)
		count++
	}
	if asked := inputCount(req.Field("input")); count != asked {
		return dialect.WrongVectors(count, asked)
	}
	if n, ok := dialect.TokenCount(root.Get("prompt_eval_count")); ok && n > 0 {
		reply.Usage = schema.Usage{Prompt: n, Total: n, Known: true}
	}
	tail := append([]byte(`}],"model":`), req.Body.Root().Get("model").Raw()...)
	// Clients require the usage, known or not.
	tail = append(tail, `,"usage":{"prompt_tokens":`...)
	tail = strconv.AppendInt(tail, reply.Usage.Prompt, 10)
	tail = append(tail, `,"total_tokens":`...)
	tail = strconv.AppendInt(tail, reply.Usage.Total, 10)
	reply.Segments = append(segments, append(tail, `}}`...))
	return nil
}

// readVectors scans an answer with vectors. It scans it as the only
// element of an array: one level further down, the numbers lie too deep to be
// recorded one by one, which would cost many times the memory of the answer.
func readVectors(doc *jsonscan.Document, body []byte) (jsonscan.Value, error) {
	nested := make([]byte, 0, len(body)+2)
	nested = append(nested, '[')
	nested = append(nested, body...)
	nested = append(nested, ']')
	doc.AllowDuplicateKeys = true
	if err := doc.Parse(nested); err != nil {
		return jsonscan.Value{}, fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := doc.Root().First()
	if err := dialect.FailureIn(root); err != nil {
		return jsonscan.Value{}, err
	}
	vectors := root.Get("embeddings")
	if vectors.Kind() != jsonscan.Array || vectors.Empty() || root.Next().Kind() != jsonscan.Absent {
		return jsonscan.Value{}, fmt.Errorf("%w: no embeddings", dialect.ErrInvalid)
	}
	return root, nil
}

// itemHead returns what stands before the vector of an item.
func itemHead(index int) []byte {
	var item []byte
	if index > 0 {
		item = append(item, `},`...)
	}
	item = append(item, `{"object":"embedding","index":`...)
	item = strconv.AppendInt(item, int64(index), 10)
	return append(item, `,"embedding":`...)
}

func inputCount(input jsonscan.Value) int {
	if input.Kind() == jsonscan.String {
		return 1
	}
	n := 0
	for v := input.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		n++
	}
	return n
}
