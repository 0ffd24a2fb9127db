package openai

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/vectors"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Embedding passes embeddings requests on. Backends are always asked for numbers. The
// gateway makes the form that the caller wants, and never depends on the skills of a
// backend.
var Embedding = &dialect.Adapter{Call: callEmbedding, Reply: replyEmbedding}

var asFloats = []byte(`"float"`)

// callEmbedding passes the body on.
func callEmbedding(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	return dialect.PassJSON(req, to, call, "application/json", call.Edits[:0],
		dialect.Field{Name: "encoding_format", Value: asFloats})
}

// replyEmbedding gives every vector the form that was asked for.
func replyEmbedding(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	data := root.Get("data")
	if data.Kind() != jsonscan.Array || data.Empty() {
		return dialect.Invalid("no embeddings")
	}
	var m members
	m.read(root)
	reply.Usage = schema.ReadUsage(m.usage)
	edits := m.renameModel(reply.Edits[:0], root, req.ModelJSON())
	if m.object.Kind() == jsonscan.Absent {
		edits = append(edits, root.Insert(listObject))
	}
	switch m.usage.Kind() { // clients require it, known or not
	case jsonscan.Absent:
		edits = append(edits, root.Insert(slices.Concat([]byte(`"usage":`), unknownUsage)))
	case jsonscan.Null:
		edits = append(edits, m.usage.Replace(unknownUsage))
	default:
	}
	numbers, err := readNumbering(data)
	if err != nil {
		return err
	}
	wanted, _ := req.Field("dimensions").Int()
	position := 0
	for item := range data.All() {
		vector := item.Get("embedding")
		converted, err := vectors.Convert(vector, req.Base64, int(wanted))
		if err != nil {
			return err
		}
		if converted != nil {
			edits = append(edits, vector.Replace(converted))
		}
		edits = completeItem(edits, item, position, numbers == unnumbered)
		position++
	}
	if asked := inputsOf(req.Field("input")); position != asked {
		return dialect.WrongVectors(position, asked)
	}
	reply.Splice(edits)
	if numbers == shuffled {
		return reorder(reply)
	}
	return nil
}

// numbering says how the numbers of vectors give their order.
type numbering uint8

const (
	inOrder numbering = iota
	shuffled
	unnumbered // all have the same number, as some backends do: the order counts
)

// readNumbering reads the numbers of vectors. One without a number belongs to the input
// in its place.
func readNumbering(data jsonscan.Value) (numbering, error) {
	count := data.Len()
	found, same := inOrder, true
	var seen []bool
	position := 0
	for item := range data.All() {
		index, number := position, item.Get("index")
		if number.Given() {
			n, whole := number.Int()
			if !whole || n < 0 || n >= int64(count) {
				return 0, dialect.Invalid("a vector of no input")
			}
			index = int(n)
		}
		if index != position && found == inOrder {
			found, seen = shuffled, make([]bool, count)
			for i := range position {
				seen[i] = true
			}
		}
		same = same && index == 0
		if found == shuffled {
			if seen[index] && !same {
				return 0, dialect.Invalid("two vectors of one input")
			}
			seen[index] = true
		}
		position++
	}
	if same && count > 1 {
		return unnumbered, nil
	}
	return found, nil
}

// completeItem gives an item the members that clients require and that its
// backend left out. Without a number of its own it is the vector of the input in
// its place.
func completeItem(edits []jsonscan.Edit, item jsonscan.Value, position int, renumber bool) []jsonscan.Edit {
	switch number := item.Get("index"); {
	case number.Kind() == jsonscan.Absent:
		edits = append(edits, item.Insert(strconv.AppendInt([]byte(`"index":`), int64(position), 10)))
	case renumber, number.Kind() == jsonscan.Null:
		edits = append(edits, number.Replace(strconv.AppendInt(nil, int64(position), 10)))
	}
	if item.Get("object").Kind() == jsonscan.Absent {
		edits = append(edits, item.Insert(embeddingObject))
	}
	return edits
}

// inputsOf returns how many vectors an input asks for. A list of token ids is
// one text.
func inputsOf(input jsonscan.Value) int {
	if input.Kind() != jsonscan.Array || input.First().Kind() == jsonscan.Number {
		return 1
	}
	return input.Len()
}

var (
	listObject      = []byte(`"object":"list"`)
	embeddingObject = []byte(`"object":"embedding"`)
	unknownUsage    = []byte(`{"prompt_tokens":0,"total_tokens":0}`)
)

// reorder puts the items of a finished reply into the order of their inputs.
func reorder(reply *dialect.Reply) error {
	body := slices.Concat(reply.Segments...)
	doc := &reply.Doc
	if err := doc.Parse(body); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	data := doc.Root().Get("data")
	var items []jsonscan.Value
	for item := range data.All() {
		items = append(items, item)
	}
	slices.SortStableFunc(items, func(a, b jsonscan.Value) int {
		x, _ := a.Get("index").Int()
		y, _ := b.Get("index").Int()
		return cmp.Compare(x, y)
	})
	sorted := jsonwrite.Writer{Out: make([]byte, 0, len(data.Raw()))}
	sorted.Array()
	for _, item := range items {
		sorted.Raw(item.Raw())
	}
	sorted.EndArray()
	reply.Splice(append(reply.Edits[:0], data.Replace(sorted.Out)))
	return nil
}
