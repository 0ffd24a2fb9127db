package adapter

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unsafe"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// openAIEmbedding passes embeddings requests on. Backends are always asked for
// numbers; what the caller wants is made here, so that it never depends on what
// a backend understands.
type openAIEmbedding struct{}

var asFloats = []byte(`"float"`)

// Call passes the body on.
func (openAIEmbedding) Call(req *schema.Request, to *Target, call *wire.Call) error {
	return passJSON(req, to, call, "application/json", call.Edits[:0], field{name: "encoding_format", value: asFloats})
}

// Reply gives every vector the form that was asked for.
func (openAIEmbedding) Reply(req *schema.Request, answer Answer, reply *Reply) error {
	root, err := reply.scan(answer.Body)
	if err != nil {
		return err
	}
	data := root.Get("data")
	if data.Kind() != jsonscan.Array || data.Empty() {
		return fmt.Errorf("%w: no embeddings", ErrInvalid)
	}
	m := readMembers(root)
	reply.Usage = schema.ReadUsage(m.usage)
	edits := m.renameModel(reply.edits[:0], root, req.Body.Root().Get("model").Raw())
	if m.object.Kind() == jsonscan.Absent {
		edits = append(edits, root.Insert(listObject))
	}
	numbers, err := readNumbering(data)
	if err != nil {
		return err
	}
	wanted, _ := req.Field("dimensions").Int()
	position := 0
	for item := data.First(); item.Kind() != jsonscan.Absent; item = item.Next() {
		vector := item.Get("embedding")
		converted, err := convertVector(vector, req.Base64, int(wanted))
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
		return wrongVectors(position, asked)
	}
	reply.edits = edits
	reply.Segments = reply.doc.Splice(reply.Segments[:0], edits)
	if numbers == shuffled {
		return reorder(reply)
	}
	return nil
}

// numbering is what the numbers of vectors say about their order.
type numbering uint8

const (
	inOrder numbering = iota
	shuffled
	unnumbered // all have the same number, as some backends do: the order counts
)

// readNumbering reads the numbers of vectors. One without a number is that of
// the input in its place.
func readNumbering(data jsonscan.Value) (numbering, error) {
	count := elements(data)
	found, same := inOrder, true
	var seen []bool
	position := 0
	for item := data.First(); item.Kind() != jsonscan.Absent; item = item.Next() {
		index, number := position, item.Get("index")
		if number.Given() {
			n, whole := number.Int()
			if !whole || n < 0 || n >= int64(count) {
				return 0, fmt.Errorf("%w: a vector of no input", ErrInvalid)
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
				return 0, fmt.Errorf("%w: two vectors of one input", ErrInvalid)
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

// TokenIDsRemedy says what a caller can do whose backend takes no token ids. Some
// clients send them unless they are told not to.
const TokenIDsRemedy = "Send the text itself; in LangChain set check_embedding_ctx_length=False."

// errTokenIDs refuses token ids where only texts can be sent.
func errTokenIDs() error {
	return schema.InvalidValue("input", "'input' must be a string or an array of strings: the backend of this model takes no token ids. "+TokenIDsRemedy)
}

// inputsOf returns how many vectors an input asks for. A list of token ids is
// one text.
func inputsOf(input jsonscan.Value) int {
	if input.Kind() != jsonscan.Array || input.First().Kind() == jsonscan.Number {
		return 1
	}
	return elements(input)
}

// elements returns how many values an array has.
func elements(array jsonscan.Value) int {
	n := 0
	for v := array.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		n++
	}
	return n
}

var (
	listObject      = []byte(`"object":"list"`)
	embeddingObject = []byte(`"object":"embedding"`)
)

// convertVector returns the vector in the wanted form, nil if it has it.
func convertVector(vector jsonscan.Value, toBase64 bool, wanted int) ([]byte, error) {
	var length int
	var converted []byte
	switch vector.Kind() {
	case jsonscan.Array:
		raw := vector.Raw()
		if !toBase64 {
			var ok bool
			if length, ok = countNumbers(raw); !ok {
				return nil, errNotNumbers
			}
			break
		}
		bits, err := appendFloats(nil, raw)
		if err != nil {
			return nil, err
		}
		length = len(bits) / floatSize
		converted = quoteBase64(bits)
	case jsonscan.String:
		bits, err := base64.StdEncoding.AppendDecode(nil, vector.Text())
		if err != nil || len(bits)%floatSize != 0 {
			return nil, fmt.Errorf("%w: a vector in unreadable base64", ErrInvalid)
		}
		length = len(bits) / floatSize
		if !toBase64 {
			converted = appendNumbers(nil, bits)
		}
	default:
		return nil, fmt.Errorf("%w: an item without a vector", ErrInvalid)
	}
	if wanted > 0 && length != wanted {
		return nil, schema.InvalidValue("dimensions", fmt.Sprintf("The model gives vectors of %d dimensions and does not make them %d.", length, wanted))
	}
	return converted, nil
}

const floatSize = 4

var errNotNumbers = fmt.Errorf("%w: a vector of something else than numbers", ErrInvalid)

// appendFloats turns a JSON array of numbers into little-endian float32 values.
func appendFloats(dst, array []byte) ([]byte, error) {
	dst = slices.Grow(dst, len(array)/2)
	for i := 1; i < len(array); {
		for array[i] <= ' ' || array[i] == ',' {
			i++
		}
		if array[i] == ']' {
			return dst, nil
		}
		f, length, ok := plainFloat(array[i:])
		if !ok {
			length = bytes.IndexAny(array[i:], ",] \t\r\n")
			number := array[i : i+length]
			wide, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(number), length), 32)
			if err != nil {
				return nil, errNotNumbers
			}
			f = float32(wide)
		}
		i += length
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(f))
	}
	return dst, nil
}

// appendNumbers turns little-endian float32 values into a JSON array.
func appendNumbers(dst, bits []byte) []byte {
	dst = append(dst, '[')
	for i := 0; i < len(bits); i += floatSize {
		if i > 0 {
			dst = append(dst, ',')
		}
		f := float64(math.Float32frombits(binary.LittleEndian.Uint32(bits[i:])))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			f = 0 // JSON has no word for it
		}
		dst = strconv.AppendFloat(dst, f, 'g', -1, 32)
	}
	return append(dst, ']')
}

func quoteBase64(bits []byte) []byte {
	quoted := make([]byte, 0, base64.StdEncoding.EncodedLen(len(bits))+2)
	quoted = append(quoted, '"')
	quoted = base64.StdEncoding.AppendEncode(quoted, bits)
	return append(quoted, '"')
}

// countNumbers returns how many numbers a checked JSON array holds; ok is false
// when it holds anything else. What is no number has one of a few letters in it,
// and looking for those is much faster than looking at every byte.
func countNumbers(array []byte) (n int, ok bool) {
	inner := array[1 : len(array)-1]
	for _, other := range []byte(`"[{ntf`) {
		if bytes.IndexByte(inner, other) >= 0 {
			return 0, false
		}
	}
	if len(bytes.TrimSpace(inner)) == 0 {
		return 0, true
	}
	return bytes.Count(inner, []byte{','}) + 1, true
}

// reorder puts the items of a finished reply into the order of their inputs.
func reorder(reply *Reply) error {
	body := slices.Concat(reply.Segments...)
	doc := &reply.doc
	if err := doc.Parse(body); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	data := doc.Root().Get("data")
	var items []jsonscan.Value
	for item := data.First(); item.Kind() != jsonscan.Absent; item = item.Next() {
		items = append(items, item)
	}
	slices.SortStableFunc(items, func(a, b jsonscan.Value) int {
		x, _ := a.Get("index").Int()
		y, _ := b.Get("index").Int()
		return cmp.Compare(x, y)
	})
	sorted := []byte{'['}
	for i, item := range items {
		if i > 0 {
			sorted = append(sorted, ',')
		}
		sorted = append(sorted, item.Raw()...)
	}
	sorted = append(sorted, ']')
	reply.edits = append(reply.edits[:0], data.Replace(sorted))
	reply.Segments = reply.doc.Splice(reply.Segments[:0], reply.edits)
	return nil
}
