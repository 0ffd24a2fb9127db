// Package vectors gives the vectors of embeddings the form that a client asks for: numbers or base64.
package vectors

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"unsafe"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Reply writes the answer to a request for the vectors of so many inputs: the vectors that a backend gave,
// in the form that was asked for, and the usage of the reply.
func Reply(req *schema.Request, reply *dialect.Reply, found iter.Seq[jsonscan.Value], inputs int) error {
	wanted, _ := req.Field("dimensions").Int()
	var between jsonwrite.Writer // the text around the vectors, which are not copied
	between.Open(`{"object":"list","data":[`)
	segments, count := reply.Segments[:0], 0
	for v := range found {
		vector, err := Convert(v, req.Base64, int(wanted))
		if err != nil {
			return err
		}
		if vector == nil {
			vector = dense(v.Raw())
		}
		between.Open(`{"object":"embedding","index":`).Int(int64(count))
		between.Name("embedding")
		segments = append(segments, between.Out, vector)
		between = jsonwrite.Writer{}
		between.EndObject()
		count++
	}
	if count != inputs {
		return dialect.WrongVectors(count, inputs)
	}
	between.EndArray()
	between.Member("model", req.ModelJSON())
	between.Name("usage") // clients require it, known or not
	dialect.WriteEmbeddingUsage(&between, reply.Usage)
	between.EndObject()
	reply.Segments = append(segments, between.Out)
	return nil
}

// dense returns an array of numbers without the spaces and line breaks that some backends put between
// them.
func dense(array []byte) []byte {
	if !bytes.ContainsAny(array, " \n") {
		return array
	}
	var dst []byte
	for _, c := range array {
		if c > ' ' {
			dst = append(dst, c)
		}
	}
	return dst
}

// Convert returns the vector in the wanted form, nil if it has that form already.
func Convert(vector jsonscan.Value, toBase64 bool, wanted int) ([]byte, error) {
	var length int
	var converted []byte
	switch vector.Kind() {
	case jsonscan.Array:
		raw := vector.Raw()
		if !vector.OnlyNumbers() {
			return nil, errNotNumbers
		}
		if !toBase64 {
			if wanted > 0 {
				length = countNumbers(raw)
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
			return nil, dialect.Invalid("a vector in unreadable base64")
		}
		length = len(bits) / floatSize
		if !toBase64 {
			converted = appendNumbers(nil, bits)
		}
	default:
		return nil, dialect.Invalid("an item without a vector")
	}
	if wanted > 0 && length != wanted {
		return nil, schema.InvalidValue("dimensions",
			say.New("call.vectors", "length", length, "wanted", wanted))
	}
	return converted, nil
}

const floatSize = 4

var errNotNumbers = fmt.Errorf("%w: a vector of something else than numbers", dialect.ErrInvalid)

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

// countNumbers returns how many numbers a JSON array of numbers holds.
func countNumbers(array []byte) int {
	if len(bytes.TrimSpace(array[1:len(array)-1])) == 0 {
		return 0
	}
	return bytes.Count(array, []byte{','}) + 1
}
